"""A run's secure sums: how updates become integers, and what a sum of such integers decodes to, with its bounds.

Simulated users (`simulation.secure`) and real devices (`fleet.rounds.program`) share these constants, so both make the same
`BoundedSum`. Vectors are divided by the round's clip first, so that one encoding for norm 1 serves every round, whatever the
clip is. The numbers beside the update are integers of their own: a weight in units of 1/E, rounded at random (E is the
entries' clip, so that it cannot wrap either); the bit of adaptive clipping as ±1.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.errors import PrivacyError
from tacit.privacy.accounting.noise_split import BIT_BOUND
from tacit.privacy.gate.discretisation import SecAggSection
from tacit.privacy.gate.sums import HEADROOM, Block, BoundedSum, ClipThresholds
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import SecureSumRecord
from tacit.privacy.record.records import UPDATE, WEIGHT, WITHIN
from tacit.secagg.discrete_gaussian import LARGEST_VARIANCE
from tacit.secagg.encoding import Encoding, decoded, for_device_noise, for_server_noise


@dataclass(frozen=True)
class SecureSums:
    """The constants of a run's secure sums: the encoding of vectors of norm 1, the largest cohort, one device's noise."""

    encoding: Encoding
    section: SecAggSection
    cohort: int
    local_variance: int = 0

    @classmethod
    def of_plan(cls, plan: PrivacyPlan, dimension: int) -> SecureSums | None:
        """What the plan asks for, for updates of so many numbers; None where it asks for nothing."""
        if plan.secagg is None:
            return None
        bits, cohort = plan.secagg.bits, int(plan.cohort)
        if not plan.kind.on_devices:
            return cls(
                for_server_noise(dimension, clip_norm=1.0, largest_cohort=cohort, bits=bits), plan.secagg, cohort
            )
        z, certain = plan.noise_multipliers[UPDATE], plan.secagg.noisy(plan.secagg.reports_promised(cohort), cohort)
        encoding = _for_noise(dimension, cohort, bits, z, certain)
        variance = math.ceil((z * encoding.inflated_bound * encoding.scale) ** 2 / certain)
        return cls(encoding, plan.secagg, cohort, variance)

    @property
    def minimum(self) -> int:
        """The fewest whose sum a device helps to reveal: with noise from devices, all that the accounting counts on."""
        return max(2, self.section.reports_promised(self.cohort)) if self.local_variance else 2

    def bound(self, clip: float) -> float:
        """The bound on one user's share of the decoded sum of updates."""
        return clip * self.encoding.inflated_bound

    def record(self) -> SecureSumRecord:
        """What the ledger keeps: all that the accounting of devices' noise needs, and all that a reader may check."""
        encoding = self.encoding
        return SecureSumRecord(
            bits=encoding.bits,
            scale=encoding.scale,
            element_clip=encoding.element_clip,
            integers=encoding.padded,
            norm_limit_squared=encoding.norm_limit_squared,
            local_variance=self.local_variance,
        )

    def sides(self, norms: ClipThresholds, *, weighted: bool) -> tuple[str, ...]:
        """The numbers beside the update, in their order."""
        return (WEIGHT,) * weighted + (WITHIN,) * (norms.threshold is not None)

    def bounded(
        self, words: Any, signs: Any, norms: ClipThresholds, sides: tuple[str, ...], template: Any, reports: int
    ) -> BoundedSum:
        """What a sum of so many reports, integers modulo 2^bits, decodes to, with its bounds."""
        clip, encoding = norms.clip, self.encoding
        with jax.enable_x64(True):
            total, *beside = _decode(jnp.asarray(words), jnp.asarray(signs), clip, encoding=encoding, sides=sides)
            certain = self.section.noisy(reports, self.cohort) * self.local_variance
            noise = clip * math.sqrt(certain) / encoding.scale
            blocks = {UPDATE: Block(unflattened(total, template), self.bound(clip), noise)}
            bounds = {WEIGHT: 1.0, WITHIN: BIT_BOUND}
            blocks |= {name: Block(side, bounds[name]) for name, side in zip(sides, beside, strict=True)}
        return BoundedSum(blocks)

    def upload_bytes(self, side_blocks: int = 0) -> int:
        """What one device's vector takes, packed."""
        return -(-(self.encoding.padded + side_blocks) * self.encoding.bits // 8)


def _for_noise(dimension: int, cohort: int, bits: int, z: float, certain: int) -> Encoding:
    """An encoding whose range fits the sum with its noise, which itself grows with what rounding adds to the bound."""
    inflated, all_shares = 1.0, math.sqrt(cohort / certain)
    for _ in range(30):
        encoding = for_device_noise(
            dimension, clip_norm=1.0, largest_cohort=cohort, bits=bits, noise_deviation=z * inflated * all_shares
        )
        # The sampler's largest variance; rounding never doubles the norm where this bites.
        finest = math.sqrt(LARGEST_VARIANCE * certain) / (2 * z)
        encoding = dataclasses.replace(encoding, scale=min(encoding.scale, finest))
        settled = math.isclose(encoding.inflated_bound, inflated, rel_tol=1e-6)
        inflated = encoding.inflated_bound
        if settled:
            break
    if z * inflated * all_shares * encoding.scale * 3 > 1 << (bits - 1):
        raise PrivacyError(
            f"Expected privacy.secagg.bits wide enough for the noise of a round, got {bits}: sums would wrap all the time."
        )
    return encoding


@partial(jax.jit, static_argnames=("encoding", "sides"))
def _decode(
    words: jax.Array, signs: jax.Array, clip: float, *, encoding: Encoding, sides: tuple[str, ...]
) -> list[jax.Array]:
    """The sum of the updates, then each number beside it."""
    half = 1 << (encoding.bits - 1)
    centred = ((words[encoding.padded :].astype(jnp.int64) + half) & (2 * half - 1)) - half
    # The headroom is more than what float64 rounds off in the sum of a cohort.
    units = {WEIGHT: HEADROOM / encoding.element_clip, WITHIN: HEADROOM * BIT_BOUND}
    found = [decoded(words[: encoding.padded], encoding, signs=signs) * clip]
    return found + [centred[index].astype(jnp.float64) * units[side] for index, side in enumerate(sides)]


def unflattened(vector: jax.Array, template: Any) -> Any:
    """A vector as arrays of the template's shapes, in their order."""
    leaves, tree = jax.tree.flatten(template)
    edges = np.cumsum([leaf.size for leaf in leaves])[:-1]
    pieces = jnp.split(vector, edges)
    return jax.tree.unflatten(tree, [piece.reshape(leaf.shape) for piece, leaf in zip(pieces, leaves, strict=True)])
