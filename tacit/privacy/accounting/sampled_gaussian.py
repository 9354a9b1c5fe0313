"""Epsilon of Gaussian rounds on sampled users, by RDP and by privacy loss distributions (dp-accounting).

Both are upper bounds. Neighbouring data sets:

- Poisson sampling: add or remove one user; a round's sensitivity is the clip S, so the noise multiplier is z = σ/S.
- Fixed-size sampling without replacement: replace one user. The two sums then differ by up to 2S, so the multiplier
  that enters the theorems is z/2 (Wang et al. 2019 state theirs for replace-one neighbours; Production and Debugging use z).
  The library has no privacy loss distribution for it: `fixed_size` derives one.

Privacy loss distributions are composed by fast Fourier transforms, whose rounding errors grow with the number of rounds.
ε is computed at a δ that is smaller by a bound on these errors (`_ROUNDING`).

dp-accounting silently fails to compose an event whose noise multiplier is not a Python float (an int or np.float32 gives
ε 2.44 in place of 6.09), so every number is converted on the way in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.accounting import fixed_size
from tacit.privacy.accounting.library import dp_accounting, rdp_accountant

Accountant = Literal["rdp", "pld"]

ADJACENCY = {"poisson": "add or remove one user", "fixed": "replace one user"}

# Below this noise, over the largest difference of two sums, privacy loss distributions take minutes; RDP's bound serves.
SMALLEST_FOR_PLD = 0.2
# Privacy losses above this make distributions large and slow, and nobody needs the last digit of such an epsilon.
LARGEST_FOR_PLD = 200.0
# What a round adds to the rounding error of δ. Rounds are composed by a fast Fourier transform whose entries are off by about
# log2(length) units in the last place, and a power multiplies that by the number of rounds. Transforms have about 2^21 points
# at most, hence 21 * 1.1e-16. The largest error that was found is 2.6e-16 (tests/privacy/accounting/test_rounding.py).
_ROUNDING = 2e-15


@dataclass(frozen=True)
class SampledRounds:
    """`count` rounds with the same sampling constants and the same combined noise multiplier."""

    sampling: Mapping[str, Any]
    noise_multiplier: float
    count: int


def combined_noise_multiplier(noise_multipliers: Iterable[float]) -> float:
    """z of several blocks released together: z⁻² = Σ z_j⁻². Zero noise on any block is no noise at all."""
    values = [float(z) for z in noise_multipliers]
    if not values or min(values) <= 0:
        return 0.0
    return float(sum(z**-2 for z in values) ** -0.5)


def epsilon(
    rounds: Iterable[SampledRounds],
    delta: float,
    accountant: Accountant,
    *,
    discretization: float = 1e-4,
    rho: float = 0.0,
) -> float:
    """The ε at which all these rounds together are (ε, δ)-private; infinite where there is no noise.

    `rho`: of Gaussian mechanisms for the same neighbours, composed with the rounds; for RDP of any mechanism. A coarser
    `discretization` of privacy loss distributions is faster and still an upper bound.
    """
    groups = [group for group in rounds if group.count > 0]
    if not groups and rho == 0:
        return 0.0
    if math.isinf(rho) or any(group.noise_multiplier <= 0 for group in groups):
        return math.inf
    kinds = {group.sampling["kind"] for group in groups}
    if len(kinds) > 1:
        raise ValueError(f"rounds under different adjacencies do not compose: {sorted(kinds)}")
    constants = tuple(
        (_sampling_constants(group.sampling), float(group.noise_multiplier), int(group.count)) for group in groups
    )
    return _epsilon(constants, float(delta), accountant, float(discretization), float(rho))


@lru_cache(maxsize=256)
def _epsilon(
    constants: tuple[Any, ...], delta: float, accountant: Accountant, discretization: float, rho: float
) -> float:
    """`epsilon` of noisy rounds under one adjacency, kept: a run's statement, its report and its owner ask for the same."""
    groups = [SampledRounds(dict(sampling), z, count) for sampling, z, count in constants]
    if accountant == "pld":
        within = delta - _ROUNDING * sum(group.count for group in groups)
        if within <= 0:
            return math.inf
        return float(_loss_distribution(groups, rho, discretization).get_epsilon_for_delta(within))
    ledger = rdp_accountant(neighboring_relation=_relation(groups))
    events, library = [dp_event(group) for group in groups], dp_accounting()
    if rho > 0:
        events.append(library.GaussianDpEvent(1 / math.sqrt(2 * rho)))  # Rényi divergence α ρ
    return float(ledger.compose(library.ComposedDpEvent(events)).get_epsilon(delta))


def _sampling_constants(sampling: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The constants of a kind of sampling that its cost depends on."""
    if sampling["kind"] == "poisson":
        return (("kind", "poisson"), ("probability", float(sampling["probability"])))
    return (("kind", sampling["kind"]), ("population", int(sampling["population"])), ("size", int(sampling["size"])))


def renyi_divergences(rounds: Sequence[SampledRounds], orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """A bound on the Rényi divergence of all these rounds together, at each of the orders; infinite without noise."""
    groups = [group for group in rounds if group.count > 0]
    if not groups:
        return np.zeros(orders.size)
    if any(group.noise_multiplier <= 0 for group in groups):
        return np.full(orders.size, math.inf)

    ledger = rdp_accountant([float(order) for order in orders], _relation(groups))
    total = np.zeros(orders.size)
    for group in groups:
        if group.sampling["kind"] == "fixed" and relative_noise(group) >= SMALLEST_FOR_PLD:
            once = fixed_size.renyi_divergences(share(group), float(group.noise_multiplier), orders)
            total += int(group.count) * once
        else:
            ledger.compose(dp_event(group))
    return np.asarray(total + ledger.rdp, dtype=np.float64)


def _relation(groups: Iterable[SampledRounds]) -> Any:
    """The library's name for the neighbours of these rounds."""
    relation, kinds = dp_accounting().NeighboringRelation, {group.sampling["kind"] for group in groups}
    return relation.REPLACE_ONE if kinds == {"fixed"} else relation.ADD_OR_REMOVE_ONE


def sampled_epsilon(
    rounds: Sequence[SampledRounds], delta: float, *, discretization: float = 1e-4, rho: float = 0.0
) -> tuple[float, Accountant]:
    """`epsilon` by the tighter accountant that answers soon, and which one that was.

    Answers are remembered: a run asks for the cost of its plan before its first round, and again when it has ended.
    """
    groups = tuple((tuple(sorted(group.sampling.items())), group.noise_multiplier, group.count) for group in rounds)
    return _sampled_epsilon(groups, delta, discretization, rho)


@lru_cache(maxsize=64)
def _sampled_epsilon(
    groups: tuple[tuple[Any, float, int], ...], delta: float, discretization: float, rho: float
) -> tuple[float, Accountant]:
    rounds = [SampledRounds(dict(sampling), z, count) for sampling, z, count in groups]
    by_rdp = epsilon(rounds, delta, "rdp", rho=rho)
    if _has_small_losses(rounds, by_rdp, rho):
        by_pld = epsilon(rounds, delta, "pld", discretization=discretization, rho=rho)
        if by_pld <= by_rdp:
            return by_pld, "pld"
    return by_rdp, "rdp"


def _has_small_losses(rounds: Sequence[SampledRounds], by_rdp: float, rho: float) -> bool:
    """Whether privacy loss distributions answer soon. On fixed-size rounds RDP's ε, many times theirs, does not tell."""
    if math.isinf(rho) or any(relative_noise(group) < SMALLEST_FOR_PLD for group in rounds):
        return False
    if by_rdp <= LARGEST_FOR_PLD:
        return True
    if any(group.sampling["kind"] != "fixed" for group in rounds):
        return False
    expected = [group.count * fixed_size.expected_loss(share(group), float(group.noise_multiplier)) for group in rounds]
    return rho + math.fsum(expected) <= LARGEST_FOR_PLD


def share(group: SampledRounds) -> float:
    """The share of all users that a round of fixed size draws."""
    return int(group.sampling["size"]) / int(group.sampling["population"])


def relative_noise(group: SampledRounds) -> float:
    """The noise over the largest difference of two neighbours' sums: z, or z/2 where one user is replaced."""
    return float(group.noise_multiplier) / (2 if group.sampling["kind"] == "fixed" else 1)


def _loss_distribution(groups: Sequence[SampledRounds], rho: float, discretization: float) -> Any:
    pld_pmf, library = dp_accounting().pld.pld_pmf, dp_accounting().pld.privacy_loss_distribution
    # The identity, as an array: whatever is composed with it becomes an array. The library keeps short distributions as
    # dictionaries otherwise, and takes minutes to compose those 10⁸ times.
    nothing = library.PrivacyLossDistribution(pld_pmf.DensePLDPmf(discretization, 0, np.ones(1), 0.0, True))
    whole = nothing
    for group in groups:
        fixed = group.sampling["kind"] == "fixed"
        drawn = share(group) if fixed else float(group.sampling["probability"])
        once = _of_one_round(fixed, drawn, float(group.noise_multiplier), discretization)
        whole = whole.compose(nothing.compose(once).self_compose(int(group.count)))
    if rho > 0:
        deviation = 1 / math.sqrt(2 * float(rho))
        whole = whole.compose(library.from_gaussian_mechanism(deviation, value_discretization_interval=discretization))
    return whole


@lru_cache(maxsize=8)
def _of_one_round(fixed: bool, drawn: float, noise_multiplier: float, discretization: float) -> Any:
    """The loss distribution of one round that draws this share of users; kept, for a run asks after every few rounds."""
    if fixed:
        return fixed_size.loss_distribution(drawn, noise_multiplier, discretization)
    return dp_accounting().pld.privacy_loss_distribution.from_gaussian_mechanism(
        noise_multiplier, sampling_prob=drawn, value_discretization_interval=discretization
    )


def dp_event(group: SampledRounds) -> Any:
    library = dp_accounting()
    sampling, z = group.sampling, float(group.noise_multiplier)
    if sampling["kind"] == "poisson":
        once = library.PoissonSampledDpEvent(float(sampling["probability"]), library.GaussianDpEvent(z))
    else:
        once = library.SampledWithoutReplacementDpEvent(
            int(sampling["population"]), int(sampling["size"]), library.GaussianDpEvent(relative_noise(group))
        )
    return library.SelfComposedDpEvent(once, int(group.count))
