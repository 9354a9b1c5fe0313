"""A participation of your own: code from outside Tacit decides who takes part in a round.

A plan's `sampling` names the law, or the promise, that is accounted; `participation` names who decides. No amplification and no
promise is claimed for a participation whose `law` is None: epsilon is then infinite. Where it names a law that the accounting
knows, the guarantee says that this is its author's claim.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PrivacyError
from tacit.privacy.outside import Registry, path_of
from tacit.privacy.participation.samplers import Draws

if TYPE_CHECKING:
    from tacit.privacy.plan import PrivacyPlan


class CustomParticipation(ABC):
    """A sampler from outside, made from the plan.

        @tacit.register_participation
        class EveryOther(tacit.CustomParticipation):
            version = "1.0"
            law = "check_in"

            def __init__(self, plan):
                super().__init__(plan)
                self.round = 0

            def sample(self, draws):
                chosen = np.arange(self.round % 2, len(draws), 2)[: int(self.plan.cohort)]
                self.round += 1
                return chosen

            def remember(self, users):
                self.round += 1

    A plan asks for it with `participation="module:EveryOther"` beside the `sampling` that it names as its law.

    >>> import numpy as np, tacit
    >>> class Everybody(tacit.CustomParticipation):
    ...     version = "1.0"
    ...     def sample(self, draws):
    ...         return np.arange(len(draws))
    ...     def remember(self, users):
    ...         pass
    >>> plan = tacit.PrivacyPlan(population=9, cohort=3, clip_norm=1.0, noise_multiplier=1.0, delta=1e-2)
    >>> Everybody(plan).sample(np.zeros(3, np.uint64)).tolist()
    [0, 1, 2]
    """

    #: Change it with everything that changes who takes part.
    version: ClassVar[str] = ""
    #: "poisson", "fixed" or "check_in", where users take part exactly by this law or within this promise; None claims nothing.
    law: ClassVar[str | None] = None

    def __init__(self, plan: PrivacyPlan) -> None:
        self.plan = plan

    @abstractmethod
    def sample(self, draws: Draws) -> NDArray[np.int64]:
        """The numbers of the users who take part, in ascending order; user u drew the word draws[u]."""

    def remember(self, users: NDArray[np.int64]) -> None:  # noqa: B027
        """A cohort of the round before the next `sample`, from a run that is being resumed."""

    def describe(self) -> dict[str, Any]:
        """The public constants of the law, as the plan states them."""
        return self.plan.sampling_constants

    @classmethod
    def describe_itself(cls) -> dict[str, Any]:
        """Settings that the ledger should hold, as JSON."""
        return {"law": cls.law}


Custom = TypeVar("Custom", bound=type[CustomParticipation])

PARTICIPATIONS: Registry[type[CustomParticipation]] = Registry("participation", {})


def register_participation(participation: Custom) -> Custom:
    """Make a participation from outside known in this process, under its import path; a decorator of its class.

    >>> import numpy as np, tacit
    >>> @tacit.register_participation
    ... class First(tacit.CustomParticipation):
    ...     version = "1.0"
    ...     law = "check_in"
    ...     def sample(self, draws):
    ...         return np.arange(min(len(draws), int(self.plan.cohort)))
    ...     def remember(self, users):
    ...         pass
    """
    path = path_of(participation)
    if not participation.version or participation.law not in (None, "poisson", "fixed", "check_in"):
        raise PrivacyError(
            f"Expected {path} to have a version and a law of poisson, fixed, check_in or None, got "
            f"{participation.version!r} and {participation.law!r}."
        )
    PARTICIPATIONS.add(path, participation)
    return participation
