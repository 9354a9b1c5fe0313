"""The gate: users' contributions go in, a `BoundedSum` comes out.

A `BoundedSum` is a set of named blocks, each the sum of users' contributions with a proven bound on the L2 norm of one
user's share. Nothing else about users crosses to the server. A mechanism gives block j noise of standard deviation
z_j · bound_j; the blocks together then cost what one block with z⁻² = Σ z_j⁻² costs.

Blocks so far: ``update`` (Σ w_k Δ_k, bound S); for the clipped-denominator estimator ``weight`` (Σ w_k, bound 1); for
adaptive clipping ``within`` (Σ (b_k - ½), bound ½; b_k says whether the norm of Δ_k was within a threshold).

Rounding is part of the proof (`rounding.py`): every contribution is shrunk by `HEADROOM`. One user's update must not depend on
who shares its chunk; the engine is tested for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tacit.privacy.accounting.noise_split import BIT_BOUND
from tacit.privacy.gate.clipping import ClipStyle, clip_scales, global_norm
from tacit.privacy.gate.rounding import HEADROOM, LARGEST_NORM
from tacit.privacy.record.records import UPDATE, WEIGHT, WITHIN


@dataclass(frozen=True)
class Block:
    """A sum of users' contributions (a pytree of arrays) and the bound on one user's share in it.

    `device_noise` is the standard deviation of noise that the users' devices have put into it already.

    >>> import jax.numpy as jnp, tacit
    >>> tacit.Block(jnp.ones(3), bound=0.5).bound
    0.5
    """

    total: Any
    bound: float
    device_noise: float = 0.0


@dataclass(frozen=True)
class BoundedSum:
    """Everything that leaves users in one round.

    >>> import jax.numpy as jnp, tacit
    >>> list(tacit.BoundedSum({"update": tacit.Block(jnp.ones(3), bound=0.5)}).blocks)
    ['update']
    """

    blocks: Mapping[str, Block]


@dataclass(frozen=True)
class ClipThresholds:
    """The norm at which a round clips and, with adaptive clipping, the threshold that norms are compared with."""

    clip: float
    threshold: float | None = None


@dataclass(frozen=True)
class Contributions:
    """Several users' work, still on the users' side: updates [users, ...], weights in [0, 1], and who is present."""

    updates: Any
    weights: jax.Array
    present: jax.Array


@dataclass(frozen=True)
class Diagnostics:
    """What only a simulation may look at: each user's norm before clipping, whether it was clipped, who was present."""

    norms: jax.Array
    clipped: jax.Array
    present: jax.Array


class Gate:
    """Adds contributions up, chunk by chunk, on the device of `template`, in memory that does not grow with the cohort."""

    def __init__(self, template: Any, norms: ClipThresholds, *, style: ClipStyle, weighted: bool) -> None:
        self.norms, self.style, self.weighted = norms, style, weighted
        with jax.enable_x64(True):
            self._update, self._counts = _empty(template)

    def admit(self, contributions: Contributions) -> Diagnostics:
        """Clip each contribution, weigh it, add it. One that is not finite, or longer than `LARGEST_NORM`, counts as zero."""
        with jax.enable_x64(True):
            (self._update, self._counts), norms, clipped = _admit(
                (self._update, self._counts),
                contributions.updates,
                contributions.weights,
                contributions.present,
                self.norms.clip,
                self.norms.clip if self.norms.threshold is None else self.norms.threshold,
                style=self.style,
            )
        return Diagnostics(norms, clipped, contributions.present)

    def merge(self, other: Gate) -> None:
        """Add everything that another gate with the same bounds has admitted, from whichever accelerator it is on."""
        self.take((other._update, other._counts))

    def partial(self) -> Any:
        """The sums of everything admitted so far, as float64 arrays, for a gate with the same bounds in another process."""
        return jax.device_get((self._update, self._counts))

    def take(self, partial: Any) -> None:
        """Add what the `partial` of a gate with the same bounds has given."""
        with jax.enable_x64(True):
            here = jax.device_put(partial, self._counts.device)
            self._update, self._counts = _add((self._update, self._counts), here)

    def close(self) -> BoundedSum:
        """The sum of everything admitted, with its bounds."""
        blocks = {UPDATE: Block(self._update, self.norms.clip)}
        if self.weighted:
            blocks[WEIGHT] = Block(self._counts[0], 1.0)
        if self.norms.threshold is not None:
            blocks[WITHIN] = Block(self._counts[1], BIT_BOUND)
        return BoundedSum(blocks)


class Weighed(NamedTuple):
    """How several users' contributions are scaled, [users] each; `scales` is a factor for each array of the update."""

    counted: jax.Array
    weights: jax.Array
    scales: Any
    bits: jax.Array
    norms: jax.Array
    clipped: jax.Array


def weigh(
    updates: Any,
    weights: jax.Array,
    present: jax.Array,
    clip_norm: float,
    threshold: float,
    style: ClipStyle,
) -> Weighed:
    """Clip and weigh in float64. A user who is absent, or above `LARGEST_NORM`, counts as zero. Trace it in 64 bits.

    A user of weight zero, who has no data, adds no bit either: they count the same as a user who is absent.
    """
    bound = jnp.asarray(clip_norm, jnp.float64)

    def factors(update: Any) -> tuple[Any, jax.Array, jax.Array]:
        scales = clip_scales(update, bound, style, jnp.float64)
        clipped = jnp.stack(jax.tree.leaves(scales)).min() < 1
        return scales, global_norm(update, jnp.float64), clipped

    scales, norms, clipped = jax.vmap(factors)(updates)
    counted = present & (norms <= LARGEST_NORM) & jnp.isfinite(weights)  # nan is not ≤ anything
    weight = jnp.where(counted, jnp.clip(weights.astype(jnp.float64), 0, 1), 0) * HEADROOM
    bits = jnp.where(weight > 0, jnp.where(norms <= threshold, BIT_BOUND, -BIT_BOUND), 0) * HEADROOM
    return Weighed(counted, weight, scales, bits, norms, clipped & counted)


@partial(jax.jit, keep_unused=True)
def _empty(template: Any) -> tuple[Any, jax.Array]:
    """Empty sums on the template's device: of the updates, and of weights and bits."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float64), template), jnp.zeros((2,), jnp.float64)


@jax.jit
def _add(a: Any, b: Any) -> Any:
    return jax.tree.map(jnp.add, a, b)


def _scaled(leaf: jax.Array, counted: jax.Array, factor: jax.Array) -> jax.Array:
    """Updates [...] or [users, ...] in float64, times their users' factors.

    0 · inf is not 0, so a contribution that does not count is replaced by zeros before it is scaled.
    """
    counted, factor = (jnp.expand_dims(of_user, range(of_user.ndim, leaf.ndim)) for of_user in (counted, factor))
    return jnp.where(counted, leaf, 0).astype(jnp.float64) * factor


def _add_together(totals: Any, updates: Any, counted: jax.Array, factors: Any) -> Any:
    """Add the users' scaled updates, all at once."""
    scaled = jax.tree.map(lambda leaf, factor: _scaled(leaf, counted, factor), updates, factors)
    return jax.tree.map(lambda total, each: total + jnp.sum(each, axis=0), totals, scaled)


def _add_one_by_one(totals: Any, updates: Any, counted: jax.Array, factors: Any) -> Any:
    """The same, a user at a time: on a CPU the sum over the axis of users is slow, and takes seven times as long with four."""

    def add(totals: Any, user: Any) -> tuple[Any, None]:
        update, counted, factors = user
        scaled = jax.tree.map(lambda leaf, factor: _scaled(leaf, counted, factor), update, factors)
        return jax.tree.map(jnp.add, totals, scaled), None

    return jax.lax.scan(add, totals, (updates, counted, factors))[0]


@partial(jax.jit, static_argnames="style", donate_argnums=0)
def _admit(
    totals: tuple[Any, jax.Array],
    updates: Any,
    weights: jax.Array,
    present: jax.Array,
    clip_norm: float,
    threshold: float,
    *,
    style: ClipStyle,
) -> tuple[tuple[Any, jax.Array], jax.Array, jax.Array]:
    update_total, counts = totals
    counted, weight, scales, bits, norms, clipped = weigh(updates, weights, present, clip_norm, threshold, style)

    factors = jax.tree.map(lambda scale: weight * jnp.where(counted, scale, 0), scales)
    add = partial(jax.lax.platform_dependent, cpu=_add_one_by_one, default=_add_together)
    update_total = add(update_total, updates, counted, factors)
    counts = counts + jnp.stack([weight.sum(), bits.sum()])
    return (update_total, counts), norms.astype(jnp.float32), clipped
