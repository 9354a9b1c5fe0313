"""What a kind of mechanism says about itself. Inherit from `MechanismKind` and register the class to add your own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PrivacyError
from tacit.privacy.accounting.cost import Cost
from tacit.privacy.accounting.releases import Releases
from tacit.privacy.outside import IMPORT_FIRST
from tacit.privacy.participation.cyclic import CYCLIC
from tacit.privacy.record.records import Intent, Opened

if TYPE_CHECKING:
    from tacit.privacy.noise.mechanisms import Mechanism
    from tacit.privacy.noise.strategies import Strategy
    from tacit.privacy.plan import PrivacyPlan

# What a mechanism, or a participation, from outside Tacit may be proven under.
OUTSIDE_SAMPLINGS = ("poisson", "fixed", "check_in")
SAMPLINGS = (*OUTSIDE_SAMPLINGS, CYCLIC)
RANDOM_BITS = (
    "nobody has the computing power to tell ChaCha20, AES-256 or keyed BLAKE2b, with 256-bit keys, from random bits"
)
SYSTEM_ENTROPY = (
    "the noise has the stated scale and comes from the operating system's entropy; no key is ever on disk, so "
)


class MechanismKind:
    """How a plan builds a mechanism, what it is proven under, what it costs, and what the guarantee says about it.

    A kind from outside defines `noise`, `proven_under`, `build` and `cost`; without a cost, epsilon is infinite.

        @tacit.register_mechanism
        class Mine(tacit.MechanismKind):
            version = "1.0"
            noise = "Gaussian noise on the sum of each round"
            proven_under = ("check_in",)

            def build(self, plan, rounds, strategy):
                return tacit.Gaussian(plan.noise_multipliers)

            def cost(self, releases):
                return tacit.Cost.of_rho(releases.participations / (2 * releases.noise_multiplier**2))

    A plan asks for it with `mechanism="module:Mine"`.

    >>> import tacit
    >>> class Quiet(tacit.MechanismKind):
    ...     noise = "no noise worth the name"
    ...     proven_under = ("poisson",)
    >>> Quiet.proven_under
    ('poisson',)
    """

    #: The name in plans and in the ledger. Registering a kind from outside sets its import path.
    name: str = ""
    #: The version of a kind from outside. Change it with everything that changes the releases or their cost.
    version: str = ""
    #: The noise in a few words, without a full stop: the beginning of the guarantee's section on accounting.
    noise: str = ""
    #: The samplings that the cost is proven under, each for its own neighbours ("poisson", "fixed", "check_in").
    proven_under: tuple[str, ...] = ()
    #: Whether the noise of a round depends on that of earlier rounds.
    correlated: bool = False
    #: Whether each device adds its share of the noise, so that the server sees no sum without it.
    on_devices: bool = False
    #: Whether any noise is added. Without noise, a plan needs no bound and claims nothing.
    adds_noise: bool = True
    #: Whether the noise on block j is Gaussian with standard deviation z_j · bound_j, correlated as its strategy says. The
    #: gate-level audit tests exactly this, and cannot audit other noise.
    gaussian_noise: bool = True
    #: Whether a model can be trained with it.
    trains: bool = True
    #: Whether it uses `privacy.most_bands`.
    has_bands: bool = False
    #: False if only the name is known (`UnknownKind`).
    known: bool = True

    def build(self, plan: PrivacyPlan, rounds: int, strategy: Strategy | None) -> Mechanism:
        """The mechanism that adds the plan's noise in so many rounds. Import JAX here, not at the top of the module."""
        raise NotImplementedError(f"{type(self).__name__} does not say how the mechanism is built.")

    def build_strategy(self, plan: PrivacyPlan, rounds: int) -> Strategy | None:
        """How noise is correlated over so many rounds; None where it is independent."""
        return None

    def cost(self, releases: Releases) -> Cost:
        """What the releases cost one user. It is computed from the ledger alone, and without JAX."""
        return Cost.unknown(f"the mechanism {self.name} states no cost")

    def describe_itself(self) -> dict[str, Any]:
        """Settings of a kind from outside that the ledger should hold, as JSON."""
        return {}

    def enforced(self) -> tuple[str, ...]:
        """What the code enforces about the noise, as sentences for the guarantee."""
        return ()

    def assumptions(self, opened: Opened) -> tuple[str, ...]:
        """What is assumed about the noise without proof, as sentences for the guarantee."""
        return (RANDOM_BITS,)

    def broken_promise(self, opened: Opened, cohorts: Sequence[NDArray[np.int64]]) -> str | None:
        """Why these cohorts break what the plan promises to this mechanism; None if they do not."""
        return None

    def least_rho(self, opened: Opened, intents: Sequence[Intent]) -> float:
        """The least ρ that one participation can cost without sampling: a computed ρ below it is wrong."""
        return 0.0


class UnknownKind(MechanismKind):
    """A mechanism of which only the name is known. Its plans can be read, and claim nothing."""

    proven_under = SAMPLINGS
    known = False
    noise = "Noise of a mechanism that is not known here"

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason

    def build(self, plan: PrivacyPlan, rounds: int, strategy: Strategy | None) -> Mechanism:
        raise PrivacyError(f"{self.reason[0].upper()}{self.reason[1:]}.", hint=IMPORT_FIRST)

    def cost(self, releases: Releases) -> Cost:
        return Cost.unknown(self.reason)

    def assumptions(self, opened: Opened) -> tuple[str, ...]:
        return ()
