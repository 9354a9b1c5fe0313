"""Simulate secure aggregation: each user's contribution is encoded as integers, and only their sum is decoded.

    clip, weigh ─► one vector ─► rotate, scale, round, clip entries (`secagg.encoding`) ─► + share of noise ─► Σ mod 2^bits

Vectors are divided by the round's clip norm first, so that one encoding for norm 1 serves every round. The values beside the
update are separate integers: a weight in units of 1/E, rounded at random (E is the clip of one entry, so the sum of weights
cannot wrap either), and the bit of adaptive clipping as ±1.

Sums are exact in 64-bit integers, so neither their order nor the number of devices changes them. Masks do not change them
either: with `protocol` the whole protocol runs (`secagg.rehearsal`) and gives the same integers. The uniforms for rounding
come from a key for the round and the user's index in it, so no two draws share them. A device's share of the noise is exact
(`secagg.discrete_gaussian`), from bytes that are derived for that index, round and attempt.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.errors import PrivacyError, ProtocolError
from tacit.learning.secure_sums import SecureSums
from tacit.privacy.gate.clipping import ClipStyle
from tacit.privacy.gate.sums import HEADROOM, BoundedSum, ClipThresholds, Contributions, Diagnostics, weigh
from tacit.privacy.record.records import WEIGHT, WITHIN
from tacit.secagg import rehearsal
from tacit.secagg.discrete_gaussian import sampled
from tacit.secagg.encoding import Encoding, encoded
from tacit.secagg.hadamard import public_signs
from tacit.secagg.session import ID_BYTES, Session


class SecureCohort(Protocol):
    """The users who take part; `entropy(purpose)` gives 32 secret bytes for this attempt at this round."""

    users: NDArray[np.int64]
    entropy: Callable[[str], bytes]


def open_round(sums: SecureSums, cohort: SecureCohort, first: int = 0) -> SecureRoundDraws:
    """The draws of a round with this cohort. PrivacyError if the cohort is so large that sums could wrap.

    `first` is the index of the first user, where others of the round are elsewhere and have the indices before it.
    """
    if len(cohort.users) > sums.cohort:
        raise PrivacyError(
            f"Expected at most {sums.cohort} users in a round, for which sums of {sums.encoding.bits} bits are "
            f"planned, got {len(cohort.users)}."
        )
    return SecureRoundDraws(sums, cohort.entropy, first)


class SecureRoundDraws:
    """The random draws of one round: the rotation, the rounding key and the shares of noise, for the gates of all devices."""

    def __init__(self, sums: SecureSums, entropy: Callable[[str], bytes], first: int = 0) -> None:
        self.sums, self.entropy = sums, entropy
        self.signs = public_signs(entropy("rotation"), sums.encoding.padded)
        self.key = jnp.asarray(np.frombuffer(entropy("rounding")[:8], "<u4"))
        self._places = first

    def places(self, users: int) -> NDArray[np.uint32]:
        """The indices of the next `users` users in the round; no index is given twice."""
        first, self._places = self._places, self._places + users
        return np.arange(first, self._places, dtype=np.uint32)

    def share(self, place: int, count: int) -> NDArray[np.int64]:
        """The share of the noise that the device with this index adds."""
        return sampled(self.sums.local_variance, count, entropy=lambda size: self.entropy(f"share {place}")[:size])


class SecureGate:
    """`Gate` in integers: it clips, weighs and encodes every contribution and sums the integers that the server would see."""

    def __init__(
        self, template: Any, norms: ClipThresholds, round: SecureRoundDraws, *, style: ClipStyle, weighted: bool
    ) -> None:
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
        """Clip, weigh, encode and add each contribution. A contribution that is not finite counts as zero, plus its noise."""
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
        """Add the contributions that another gate of the same round has admitted."""
        with jax.enable_x64(True):
            self._total = self._total + jax.device_put(other._total, self._total.device)
        self._noise += other._noise
        self._reports += other._reports
        self._vectors |= other._vectors

    def partial(self) -> Any:
        """The sum of everything admitted so far, with its noise, as integers; never a single user's vector.

        Where the protocol runs, it has run among the users of this gate.
        """
        return np.asarray(self.integers(), np.int64), self._reports

    def take(self, partial: Any) -> None:
        """Add what the `partial` of another gate of the same round has given, from another process."""
        total, reports = partial
        with jax.enable_x64(True):
            self._total = self._total + jax.device_put(total, self._total.device)
        self._reports += reports

    def integers(self) -> jax.Array:
        """The sum modulo 2^bits, the only value that leaves the users."""
        sums = self.round.sums
        with jax.enable_x64(True):
            if sums.section.protocol and self._vectors:
                return jnp.asarray(through_the_protocol(self._vectors, sums.encoding.bits, minimum=sums.minimum))
            # Without noise from devices, this does not wait for the accelerator.
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
    """The sum modulo 2^bits of these devices' vectors by the whole protocol: every pair shares a mask, nobody drops out."""
    devices = len(vectors)
    if devices < minimum:
        raise ProtocolError(f"Expected the vectors of at least {minimum} devices, got {devices}: no sum is revealed.")
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
    """Add one user at a time, so that memory holds one vector in float64 and not a whole chunk."""
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
