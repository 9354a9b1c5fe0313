"""What a device's rounds cost **if the server adds the noise it logged**: the device's own sum over its own participation.

Where devices add the noise, the cost is proven (`spending.py`). Where the server adds it, the device cannot see it; but the
task that is in the public log says how much it is, and how far 1, 2, … participations of one device move all releases together
(Δ², in units of the clip). Then ρ = Δ² / (2 z²), whatever the server says about who took part.

Every report counts, also of tries that the server calls uncounted. Those may lie closer together than the task allows, and
there may be more participations than the task states a Δ² for. Δ is a norm, so of parts with Δ₁ and Δ₂ it is at most Δ₁ + Δ₂.
"""

from __future__ import annotations

import math

from tacit.fleet.device.memory import Memory
from tacit.fleet.device.policy import OwnerPolicy
from tacit.fleet.device.spending import epsilon_of
from tacit.fleet.device.terms import PolicyRefusal
from tacit.fleet.wire.task import NoiseTerms


def rho_of(terms: NoiseTerms | None, counted: int, uncounted: int = 0) -> float:
    """ρ of so many reports in one task; infinite if the task states no noise."""
    if counted + uncounted == 0:
        return 0.0
    if terms is None or terms.multiplier == 0:
        return math.inf
    return _moved_squared(terms.moved_squared, counted, uncounted) / 2 / terms.multiplier / terms.multiplier


def stated_rho(memory: Memory) -> float:
    """ρ of all rounds: what is proven of those with devices' noise, and what the server states of the others.

    Infinite if a round with devices' noise was too small for a proof, or if rounds may be missing in the memory.
    """
    stated = [each for each in memory.tasks.values() if not each.devices_noise]
    if memory.server.unproven > sum(each.taken + each.uncounted for each in stated):
        return math.inf
    return memory.proven_rho + math.fsum(rho_of(each.noise, each.taken, each.uncounted) for each in stated)


def stated_epsilon(memory: Memory, delta: float) -> float:
    """ε of all rounds, if the server adds the noise it logged."""
    return epsilon_of(stated_rho(memory), delta)


def require_affordable(memory: Memory, task: str, policy: OwnerPolicy, cost: float = 0.0) -> None:
    """PolicyRefusal if one more round of this task would bring the stated ε over the policy's limit.

    `cost` is the round's proven ρ, which counts where devices add the noise.
    """
    if policy.largest_stated_epsilon is None:
        return
    known, rho = memory.tasks[task], stated_rho(memory)
    if known.devices_noise:
        rho += cost
    else:
        now, then = (rho_of(known.noise, known.taken + more, known.uncounted) for more in (0, 1))
        rho = math.inf if math.isinf(then) else rho - now + then
    epsilon = epsilon_of(rho, policy.delta)
    if not epsilon <= policy.largest_stated_epsilon:
        raise PolicyRefusal(
            f"The owner's policy allows ε = {policy.largest_stated_epsilon:g} in all if the server adds the noise it logged, "
            f"and with this round it would be {epsilon:.3g}."
        )


def _moved_squared(stated: tuple[float, ...], counted: int, uncounted: int) -> float:
    """Δ² of these reports, in units of the clip; never less than independent noise has, which adds 1 for each."""
    if not stated:
        return float(counted + uncounted)
    whole, rest = divmod(counted, len(stated))
    moved = whole * math.sqrt(stated[-1]) + (math.sqrt(stated[rest - 1]) if rest else 0.0)
    moved += uncounted * math.sqrt(max(stated[0], 1.0))
    return max(moved**2, float(counted + uncounted))
