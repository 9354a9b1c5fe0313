"""Epsilon of Gaussian rounds on sampled users, by RDP and by privacy loss distributions (dp-accounting).

Both are upper bounds. Neighbouring data sets:

- Poisson sampling: add or remove one user; a round's sensitivity is the clip S, so the noise multiplier is z = σ/S.
- Fixed-size sampling without replacement: replace one user. The two sums then differ by up to 2S, so the multiplier
  that enters the theorem is z/2 (Wang et al. 2019 state it for replace-one neighbours; Production and Debugging use z).

dp-accounting silently fails to compose an event whose noise multiplier is not a Python float (an int or np.float32 gives
ε 2.44 in place of 6.09), so every number is converted on the way in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Accountant = Literal["rdp", "pld"]

ADJACENCY = {"poisson": "add or remove one user", "fixed": "replace one user"}


@dataclass(frozen=True)
class Rounds:
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


def epsilon(rounds: Iterable[Rounds], delta: float, accountant: Accountant, *, discretization: float = 1e-4) -> float:
    """The ε at which all these rounds together are (ε, δ)-private; infinite where there is no noise.

    A coarser `discretization` of privacy loss distributions is faster and still an upper bound.
    """
    groups = [group for group in rounds if group.count > 0]
    if not groups:
        return 0.0
    if any(group.noise_multiplier <= 0 for group in groups):
        return math.inf
    kinds = {group.sampling["kind"] for group in groups}
    if len(kinds) > 1:
        raise ValueError(f"rounds under different adjacencies do not compose: {sorted(kinds)}")
    import dp_accounting

    event = dp_accounting.ComposedDpEvent([dp_event(group) for group in groups])
    fixed = kinds == {"fixed"}
    if accountant == "pld":
        if fixed:
            raise ValueError("there is no privacy loss distribution for sampling without replacement")
        ledger: Any = dp_accounting.pld.PLDAccountant(value_discretization_interval=discretization)
    else:
        relation = dp_accounting.NeighboringRelation
        ledger = dp_accounting.rdp.RdpAccountant(
            neighboring_relation=relation.REPLACE_ONE if fixed else relation.ADD_OR_REMOVE_ONE
        )
    return float(ledger.compose(event).get_epsilon(float(delta)))


def dp_event(group: Rounds) -> Any:
    import dp_accounting

    sampling, z = group.sampling, float(group.noise_multiplier)
    if sampling["kind"] == "poisson":
        once = dp_accounting.PoissonSampledDpEvent(float(sampling["probability"]), dp_accounting.GaussianDpEvent(z))
    else:
        once = dp_accounting.SampledWithoutReplacementDpEvent(
            int(sampling["population"]), int(sampling["size"]), dp_accounting.GaussianDpEvent(z / 2)
        )
    return dp_accounting.SelfComposedDpEvent(once, int(group.count))
