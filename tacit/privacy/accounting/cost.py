"""What releases cost one user, in a form from which (ε, δ) follows: the answer of every mechanism's `cost`.

Cost.of_rounds   Gaussian rounds on sampled users, grouped by sampling and noise
Cost.of_rho      ρ-zero-concentrated differential privacy
Cost.of_event    an event of the dp_accounting library, accounted by Rényi differential privacy
Cost.of_curve    ε as a function of δ; it cannot be composed with the cost of other runs
Cost.unknown     no cost is known, and the reason why: ε is infinite
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

from tacit.privacy.accounting.composition import Concentrated, Part, Sampled
from tacit.privacy.accounting.library import dp_accounting, rdp_accountant
from tacit.privacy.accounting.sampled_gaussian import ADJACENCY, SampledRounds, sampled_epsilon
from tacit.privacy.accounting.zcdp import epsilon_of_any, epsilon_of_gaussian

GAUSSIAN_CURVE = "zCDP, exact Gaussian curve"
ANY_CURVE = "zCDP through RDP (alpha times rho)"
# Steps of privacy loss: the usual ones, and coarser ones for a progress bar, which still give an upper bound.
_STEP, _QUICK_STEP = 1e-4, 1e-3


@dataclass(frozen=True)
class Cost:
    """Exactly one of `rounds`, `rho` and `curve`, or an `objection`, which says why no finite ε may be stated.

    `gaussian`: the ρ is that of Gaussian noise whose scale was settled beforehand, so its exact curve applies. `beside` is the
    ρ of Gaussian releases that come on top of sampled rounds. `threshold_delta` is the probability that a threshold shows what
    only one user has (`tacit.privacy.discovery.threshold`): it is taken from δ. `draws` is how
    many releases drew noise whose tail is charged to δ (`tacit.privacy.noise.tail`); None means all of them.

    >>> import tacit
    >>> epsilon, accountant = tacit.Cost.of_rho(0.1).epsilon(1e-6)
    >>> round(epsilon, 2)
    2.14
    >>> tacit.Cost.unknown("nobody has proven it").epsilon(1e-6)[0]
    inf
    """

    accountant: str
    rounds: tuple[SampledRounds, ...] | None = None
    rho: float | None = None
    gaussian: bool = False
    curve: Callable[[float], float] | None = None
    beside: float = 0.0
    threshold_delta: float = 0.0
    draws: int | None = None
    objection: str | None = None

    @classmethod
    def of_rounds(cls, rounds: Iterable[SampledRounds], *, objection: str | None = None) -> Self:
        """The cost of Gaussian rounds on users who were sampled secretly."""
        return cls("rdp", rounds=tuple(rounds), objection=objection)

    @classmethod
    def of_rho(
        cls,
        rho: float,
        *,
        gaussian: bool = False,
        draws: int | None = None,
        objection: str | None = None,
        threshold_delta: float = 0.0,
    ) -> Self:
        """The cost of a ρ-zCDP mechanism.

        >>> import tacit
        >>> round(tacit.Cost.of_rho(0.5).epsilon(1e-6)[0], 2)
        5.22
        """
        accountant = GAUSSIAN_CURVE if gaussian else ANY_CURVE
        return cls(
            accountant, rho=rho, gaussian=gaussian, draws=draws, objection=objection, threshold_delta=threshold_delta
        )

    @classmethod
    def of_curve(cls, curve: Callable[[float], float], accountant: str) -> Self:
        """The cost whose ε at δ is curve(δ); `accountant` says in a few words how it was computed."""
        return cls(accountant, curve=curve)

    @classmethod
    def of_event(cls, event: Any, adjacency: str) -> Self:
        """The cost of a dp_accounting event for neighbours of this kind; unknown where the library cannot account for it."""
        relation = dp_accounting().NeighboringRelation
        of_library = relation.REPLACE_ONE if adjacency == ADJACENCY["fixed"] else relation.ADD_OR_REMOVE_ONE
        accountant = rdp_accountant(neighboring_relation=of_library)
        if not accountant.supports(event):
            return cls.unknown("the library dp_accounting does not support the event that describes the releases")
        accountant.compose(event)
        return cls.of_curve(lambda delta: float(accountant.get_epsilon(delta)), "rdp")

    @classmethod
    def unknown(cls, reason: str) -> Self:
        """No cost is known, for this reason."""
        return cls("none", objection=reason)

    def epsilon(self, delta: float, *, quick: bool = False) -> tuple[float, str]:
        """ε at this δ, and how it was computed; infinite where nothing is known. `quick`: a coarser bound."""
        if self.threshold_delta == 0:
            return self._epsilon(delta, quick=quick)
        if not 0 < self.threshold_delta < delta:
            return math.inf, self.accountant
        value, accountant = self._epsilon(delta - self.threshold_delta, quick=quick)
        return value - math.log1p(-self.threshold_delta), accountant

    def _epsilon(self, delta: float, *, quick: bool) -> tuple[float, str]:
        """ε of what is released outside of the event that a threshold shows what one user alone has."""
        if self.rounds is not None:
            step = _QUICK_STEP if quick else _STEP
            return sampled_epsilon(self.rounds, delta, discretization=step, rho=self.beside)
        if self.rho is not None and self.rho >= 0:
            return (epsilon_of_gaussian if self.gaussian else epsilon_of_any)(self.rho, delta), self.accountant
        value = math.inf if self.curve is None else float(self.curve(delta))
        return (value if value >= 0 else math.inf), self.accountant

    def parts(self, adjacency: str) -> tuple[Part, ...] | None:
        """The cost as it composes with that of other runs (`composition`); None where it does not compose."""
        if self.rounds is not None:
            other = (Concentrated(self.beside, adjacency),) if self.beside else ()
            return (*(Sampled(group) for group in self.rounds), *other)
        if self.rho is not None and self.rho >= 0:
            return (Concentrated(self.rho, adjacency, self.gaussian),)
        return None
