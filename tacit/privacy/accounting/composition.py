"""Several releases about the same users, accounted together (Debugging, appendix A.2).

The privacy loss of everything is composed first and turned into (ε, δ) once, at the end: adding up the runs' epsilons
would be a valid bound too, but a far larger one. What is composed:

    Sampled        Gaussian rounds on sampled users: Rényi divergences or privacy loss distributions add up
    Concentrated   a ρ: of Gaussian mechanisms (their curve is exact), or of anything (Rényi divergence α ρ)

A Gaussian ρ is dominated by one Gaussian of scale 1/√(2ρ), so it composes with sampled rounds as a privacy loss
distribution; a ρ of anything has none, and goes through Rényi divergences.

All parts must be stated for the same neighbours. A bound for adding or removing a user says nothing about replacing
one, so parts under different adjacencies are refused, never converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.errors import PrivacyError
from tacit.privacy.accounting.sampled_gaussian import ADJACENCY, SampledRounds, epsilon, sampled_epsilon
from tacit.privacy.accounting.zcdp import composed, epsilon_of_any, epsilon_of_gaussian


@dataclass(frozen=True)
class Sampled:
    """Gaussian rounds whose users were drawn secretly; the adjacency is that of the sampling."""

    rounds: SampledRounds

    @property
    def adjacency(self) -> str:
        return ADJACENCY[self.rounds.sampling["kind"]]


@dataclass(frozen=True)
class Concentrated:
    """A ρ, for neighbours of this kind. `gaussian`: it is that of Gaussian mechanisms with noise settled beforehand."""

    rho: float
    adjacency: str
    gaussian: bool = True


Part = Sampled | Concentrated


@dataclass(frozen=True)
class Composed:
    """(ε, δ) of everything together. `rho` is None where a part is amplified by sampling, which has none."""

    epsilon: float
    rho: float | None
    accountant: str


def the_one(kind: str, found: Iterable[str]) -> str:
    """The adjacency (or unit) that all of these name; PrivacyError if they name several."""
    names = sorted(set(found))
    if len(names) > 1:
        raise PrivacyError(
            f"Expected one {kind} for everything composed, got {' and '.join(repr(name) for name in names)}: "
            "there is no common bound."
        )
    return names[0]


def compose(parts: Sequence[Part], delta: float) -> Composed:
    """The ε at which all parts together are (ε, δ)-private; infinite where one has no noise.

    Holds if each part's noise, sampling and length were settled without looking at what the others released.
    PrivacyError if the parts are stated for different neighbours.
    """
    if parts:
        the_one("adjacency", (part.adjacency for part in parts))
    sampled = merged(part.rounds for part in parts if isinstance(part, Sampled) and part.rounds.count > 0)
    rhos = [part for part in parts if isinstance(part, Concentrated) and part.rho > 0]
    rho = composed(*(part.rho for part in rhos))
    gaussian = all(part.gaussian for part in rhos)
    if not sampled:
        if gaussian:
            return Composed(epsilon_of_gaussian(rho, delta), rho, "zCDP, exact Gaussian curve")
        return Composed(epsilon_of_any(rho, delta), rho, "zCDP through RDP (alpha times rho)")
    if gaussian:
        value, accountant = sampled_epsilon(sampled, delta, rho=rho)
        return Composed(value, None, accountant)
    return Composed(epsilon(sampled, delta, "rdp", rho=rho), None, "rdp")


def merged(rounds: Iterable[SampledRounds]) -> list[SampledRounds]:
    """Rounds of the same settings as one group: the longer run they amount to."""
    found: dict[tuple[Any, ...], SampledRounds] = {}
    for group in rounds:
        key = (*sorted(group.sampling.items()), group.noise_multiplier)
        count = group.count + (found[key].count if key in found else 0)
        found[key] = SampledRounds(group.sampling, group.noise_multiplier, count)
    return list(found.values())
