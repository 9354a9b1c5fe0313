"""Rows scaled to L2 norm 1, and derivatives through that.

With u = e / |e|, a derivative d by u becomes (d - (u · d) u) / |e| by e. It is linear in d, so it may be applied to parts of a
derivative separately. Rows may lie in pieces by width, as a GPU kernel holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import jax
import jax.numpy as jnp
from jax import Array


def unit(rows: Array) -> Array:
    """Rows scaled to L2 norm 1 (a row of zeros stays one)."""
    return unit_in_pieces([rows])[0]


def through_unit(rows: Array, d_unit: Array) -> Array:
    """The derivative by rows, given that by the rows scaled to norm 1."""
    return through_unit_in_pieces([rows], [d_unit])[0]


def unit_in_pieces(rows: Sequence[Array]) -> list[Array]:
    """`unit` of rows in pieces."""
    scale = _inverse_norm(rows)
    return [piece * scale for piece in rows]


def through_unit_in_pieces(rows: Sequence[Array], d_unit: Sequence[Array]) -> list[Array]:
    """`through_unit` of rows in pieces."""
    scale = _inverse_norm(rows)
    along = reduce(add, [jnp.sum(d * piece * scale, axis=-1) for piece, d in zip(rows, d_unit, strict=True)])
    return [scale * (d - along[..., None] * piece * scale) for piece, d in zip(rows, d_unit, strict=True)]


def _inverse_norm(rows: Sequence[Array]) -> Array:
    """1 / L2 norm of each row, kept finite at zero."""
    squares = reduce(add, [jnp.sum(piece * piece, axis=-1) for piece in rows])
    return jax.lax.rsqrt(squares + jnp.float32(1e-12))[..., None]
