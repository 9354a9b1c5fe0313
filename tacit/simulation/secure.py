"""A round's sum as secure aggregation would give it: each user's contribution becomes integers, and only their sum is decoded.

    clip, weigh ─► one vector ─► rotate, scale, round, clip entries (`secagg.encoding`) ─► + share of noise ─► Σ mod 2^bits

Vectors are divided by the round's clip first, so that one encoding for norm 1 serves every round, whatever the clip is.
The numbers beside the update are integers of their own: a weight in units of 1/E, rounded at random (E is the entries' clip, so
that it cannot wrap either); the bit of adaptive clipping as ±1.

Sums are exact in 64-bit integers, so their order, the devices they ran on and the masks of the protocol change nothing: with
`protocol` the whole of it runs (`secagg.rehearsal`) and the same integers come out. Rounding draws are the users' own: a
key for the round, and each user's place in it, give uniforms that no other draw shares. A share of noise is exact
(`secagg.discrete_gaussian`), from bytes derived for that place, round and attempt.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.errors import PrivacyError, ProtocolError
from tacit.privacy.accounting.noise_split import BIT_BOUND
from tacit.privacy.gate.clipping import ClipStyle
from tacit.privacy.gate.discretisation import DISCRETE, SecAggSection
from tacit.privacy.gate.sums import HEADROOM, Block, BoundedSum, Contributions, Diagnostics, Norms, weigh
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.records import UPDATE, WEIGHT, WITHIN
from tacit.secagg import rehearsal
from tacit.secagg.discrete_gaussian import LARGEST_VARIANCE, sampled
from tacit.secagg.encoding import Encoding, decoded, encoded, for_device_noise, for_server_noise
from tacit.secagg.hadamard import public_signs
from tacit.secagg.session import ID_BYTES, Session


class Cohort(Protocol):
    """Who takes part, and 32 secret bytes for each purpose that the users have in this attempt at this round."""

    users: NDArray[np.int64]
    entropy: Callable[[str], bytes]


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
        if plan.mechanism != DISCRETE:
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

    def describe(self) -> dict[str, Any]:
        """What the ledger keeps: all that the accounting of devices' noise needs, and all that a reader may check."""
        encoding = self.encoding
        return {
            "bits": encoding.bits,
            "scale": encoding.scale,
            "element_clip": encoding.element_clip,
            "integers": encoding.padded,
            "norm_limit_squared": encoding.norm_limit_squared,
            "local_variance": self.local_variance,
        }

    def sides(self, norms: Norms, *, weighted: bool) -> tuple[str, ...]:
        """The numbers beside the update, in their order."""
        return (WEIGHT,) * weighted + (WITHIN,) * (norms.threshold is not None)

    def bounded(
        self, words: Any, signs: Any, norms: Norms, sides: tuple[str, ...], template: Any, reports: int
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

    def open(self, cohort: Cohort) -> SecureRound:
        """A round with this cohort. PrivacyError if it is larger than what cannot wrap."""
        if len(cohort.users) > self.cohort:
            raise PrivacyError(
                f"Expected at most {self.cohort} users in a round, which is what {self.encoding.bits} bits are "
                f"planned for, got {len(cohort.users)}."
            )
        return SecureRound(self, cohort.entropy)


class SecureRound:
    """The draws of one round, shared by the gates of all devices."""

    def __init__(self, sums: SecureSums, entropy: Callable[[str], bytes]) -> None:
        self.sums, self.entropy = sums, entropy
        self.signs = public_signs(entropy("rotation"), sums.encoding.padded)
        self.key = jnp.asarray(np.frombuffer(entropy("rounding")[:8], "<u4"))
        self._places = 0

    def places(self, users: int) -> NDArray[np.uint32]:
        """The next so many places in the round; none is given twice."""
        first, self._places = self._places, self._places + users
        return np.arange(first, self._places, dtype=np.uint32)

    def share(self, place: int, count: int) -> NDArray[np.int64]:
        """One device's share of the noise."""
        return sampled(self.sums.local_variance, count, entropy=lambda size: self.entropy(f"share {place}")[:size])


class SecureGate:
    """What `Gate` is, in integers: clips, weighs and encodes every contribution, and adds up what the server would see."""

    def __init__(self, template: Any, norms: Norms, round: SecureRound, *, style: ClipStyle, weighted: bool) -> None:
        self.norms, self.style, self.round, self.weighted = norms, style, round, weighted
        self._sides = round.sums.sides(norms, weighted=weighted)
        self._template = jax.eval_shape(lambda tree: tree, template)
        device = jax.tree.leaves(template)[0].device
        with jax.enable_x64(True):
            width = round.sums.encoding.padded + len(self._sides)
            self._total = jnp.zeros((width,), jnp.int64, device=device)
            self._signs = jax.device_put(round.signs, device)
        self._noise, self._reports = np.zeros(width, np.int64), 0
        self._vectors: dict[int, NDArray[np.uint32]] = {}

    def admit(self, contributions: Contributions) -> Diagnostics:
        """Clip, weigh, encode and add each contribution. One that is not finite counts as zero; its noise is there."""
        norms, round = self.norms, self.round
        places = round.places(len(contributions.present))
        with jax.enable_x64(True):
            self._total, words, found, clipped = _admit(
                self._total,
                contributions.updates,
                contributions.weights,
                contributions.present,
                norms.clip,
                norms.clip if norms.threshold is None else norms.threshold,
                self._signs,
                round.key,
                places,
                encoding=round.sums.encoding,
                sides=self._sides,
                style=self.style,
                keep=round.sums.section.protocol,
            )
        present = np.asarray(contributions.present)
        self._reports += int(present.sum())
        for row in np.flatnonzero(present):
            noise = round.share(int(places[row]), len(self._noise)) if round.sums.local_variance else None
            if words is not None:
                mine = np.asarray(words[row], np.int64) + (0 if noise is None else noise)
                self._vectors[int(places[row])] = (mine & self._mask).astype(np.uint32)
            if noise is not None:
                self._noise += noise
        return Diagnostics(found, clipped, contributions.present)

    def merge(self, other: SecureGate) -> None:
        """Take over what another gate of the same round has admitted."""
        with jax.enable_x64(True):
            self._total = self._total + jax.device_put(other._total, self._total.device)
        self._noise += other._noise
        self._reports += other._reports
        self._vectors |= other._vectors

    def integers(self) -> jax.Array:
        """The sum modulo 2^bits: all that leaves the users."""
        sums = self.round.sums
        with jax.enable_x64(True):
            if sums.section.protocol and self._vectors:
                return jnp.asarray(through_the_protocol(self._vectors, sums.encoding.bits, minimum=sums.minimum))
            # Without noise from devices nothing here waits for the accelerator.
            total = self._total + jnp.asarray(self._noise) if sums.local_variance else self._total
            return (total & self._mask).astype(jnp.uint32)

    def close(self) -> BoundedSum:
        """The decoded sums, with their bounds."""
        words, signs = self.integers(), self._signs
        return self.round.sums.bounded(words, signs, self.norms, self._sides, self._template, self._reports)

    @property
    def _mask(self) -> int:
        return (1 << self.round.sums.encoding.bits) - 1


def through_the_protocol(
    vectors: Mapping[int, NDArray[np.uint32]], bits: int, *, minimum: int = 2
) -> NDArray[np.uint32]:
    """The sum modulo 2^bits of these devices' vectors, by the whole protocol: every pair shares a mask, nobody is lost."""
    devices = len(vectors)
    if devices < minimum:
        raise ProtocolError(f"Expected the vectors of at least {minimum} devices, got {devices}: they reveal no sum.")
    session = Session(
        session_id=os.urandom(ID_BYTES),
        graph_seed=os.urandom(ID_BYTES),
        devices=devices,
        neighbours=devices - 1,
        threshold=2 * (devices - 1) // 3 + 1 if devices > 3 else devices - 1,
        minimum=minimum,
        dimension=len(next(iter(vectors.values()))),
        bits=bits,
    )
    outcome = rehearsal.rehearse(session, {i: vectors[place] for i, place in enumerate(sorted(vectors))})
    if len(outcome.included) != devices:
        raise ProtocolError(f"Expected the vectors of all {devices} devices in the sum, got {len(outcome.included)}.")
    return np.asarray(outcome.total, np.uint32)


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


@partial(jax.jit, static_argnames=("encoding", "sides", "style", "keep"), donate_argnums=0)
def _admit(
    total: jax.Array,
    updates: Any,
    weights: jax.Array,
    present: jax.Array,
    clip: float,
    threshold: float,
    signs: jax.Array,
    key_words: jax.Array,
    places: jax.Array,
    *,
    encoding: Encoding,
    sides: tuple[str, ...],
    style: ClipStyle,
    keep: bool,
) -> tuple[jax.Array, jax.Array | None, jax.Array, jax.Array]:
    """One user after the other, so that memory holds one vector in float64 and not a chunk of them."""
    weighed = weigh(updates, weights, present, clip, threshold, style)
    key = jax.random.wrap_key_data(key_words, impl="threefry2x32")

    def one(total: jax.Array, user: Any) -> tuple[jax.Array, jax.Array | None]:
        update, (counted, weight, scales, bit, _, _), place = user

        def flat(leaf: jax.Array, scale: jax.Array) -> jax.Array:
            safe = jnp.where(counted, leaf, 0).astype(jnp.float64)  # 0 · inf is not 0
            return (safe * jnp.where(counted, weight * scale / clip, 0)).ravel()

        vector = jnp.concatenate(jax.tree.leaves(jax.tree.map(flat, update, scales)))
        drawn = jax.random.uniform(jax.random.fold_in(key, place), (encoding.padded + 1,), jnp.float64)
        words = [encoded(vector, encoding, signs=signs, uniforms=drawn[:-1])]
        most = float(encoding.element_clip)
        beside = {
            WEIGHT: jnp.minimum(jnp.floor(weight / HEADROOM * most + drawn[-1]), most),
            WITHIN: jnp.sign(bit),
        }
        for side in sides:
            whole = beside[side].astype(jnp.int64) & ((1 << encoding.bits) - 1)
            words.append(whole.astype(jnp.uint32)[None])
        word = jnp.concatenate(words)
        return total + word.astype(jnp.int64), word if keep else None

    total, words = jax.lax.scan(one, total, (updates, tuple(weighed), places))
    return total, words, weighed.norms.astype(jnp.float32), weighed.clipped


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
