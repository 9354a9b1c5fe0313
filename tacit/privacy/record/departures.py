"""Where a ledger's releases are not those of the plan that its first record holds.

The plan builds clip, sampler, denominator and noise, so every intent can be computed from it. Two things in an intent cannot:
the digest of who took part and, with adaptive clipping, the bound of its round, which follows from the releases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import ValidationError

from tacit.privacy.accounting.noise_split import BIT_BOUND
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import SecureSumRecord
from tacit.privacy.record.reasons import Reason, Why
from tacit.privacy.record.records import UPDATE, WEIGHT, WITHIN, Intent, Opened

# Bounds of secure sums are computed from what the ledger says of the encoding; decoding in float64 has this room (secagg).
_DECODING_ROOM = 1 + 2.0**-20


def departures_from_plan(opened: Opened, intents: Sequence[Intent]) -> list[Reason]:
    """A reason for the first release that is not the plan's; empty if all are."""
    try:
        plan = PrivacyPlan.model_validate(opened.plan)
    except ValidationError:
        return [Reason(Why.UNREADABLE_PLAN)]
    if not _sums_cannot_wrap(plan, opened.secure_sum):
        return [Reason(Why.DEPARTS_FROM_PLAN, "its secure sums may wrap around, or are not the plan's")]
    sampling, noise = plan.sampling_constants, plan.noise_multipliers
    for intent in intents:
        if intent.sampling != sampling:
            return _departed(intent, "was sampled otherwise than the plan says")
        if {name: block["noise_multiplier"] for name, block in intent.blocks.items()} != noise:
            return _departed(intent, "got other noise than the plan says")
        if not all(_bound_fits(plan, opened, intent, name) for name in intent.blocks):
            return _departed(intent, "was clipped at another norm than the plan says")
        if intent.denominator != plan.denominator:
            return _departed(intent, "was divided by something other than the plan's denominator")
        if intent.restart != (intent.round in plan.restarts):
            return _departed(intent, "restarts its noise otherwise than the plan says")
    return []


def _departed(intent: Intent, how: str) -> list[Reason]:
    return [Reason(Why.DEPARTS_FROM_PLAN, f"round {intent.round}, attempt {intent.attempt}, {how}")]


def _bound_fits(plan: PrivacyPlan, opened: Opened, intent: Intent, name: str) -> bool:
    """Whether one user's share of a block is bounded as the plan has it; an adaptive bound is any that is a norm."""
    bound = intent.blocks[name]["bound"]
    if name != UPDATE:
        return bound == {WEIGHT: 1.0, WITHIN: BIT_BOUND}.get(name)
    if plan.adaptive is not None:
        return bound is not None and 0 < bound < math.inf
    clip = plan.clip_norm_at(intent.round)
    if bound is None or math.isinf(clip):
        return bound is None and math.isinf(clip)
    return math.isclose(bound, clip * _inflation(opened.secure_sum), rel_tol=1e-12)


def _sums_cannot_wrap(plan: PrivacyPlan, encoding: SecureSumRecord | None) -> bool:
    """Whether sums are added as the plan says, and no cohort's integers reach half the modulus.

    A sum that wraps around moves by the modulus, which no bound covers. Where devices add the noise, a sum is private before
    it is reduced, so that wrapping is post-processing (`secagg.encoding`).
    """
    if plan.secagg is None or encoding is None:
        return plan.secagg is None and encoding is None
    if encoding.bits != plan.secagg.bits:
        return False
    return plan.secagg.scheme == "device_noise" or 2 * plan.cohort * encoding.element_clip < 2**encoding.bits


def _inflation(encoding: SecureSumRecord | None) -> float:
    """By how much rounding to integers widens the bound: √limit / scale, and the room of decoding."""
    if encoding is None:
        return 1.0
    return math.sqrt(encoding.norm_limit_squared) / encoding.scale * _DECODING_ROOM
