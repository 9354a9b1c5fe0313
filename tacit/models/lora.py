"""Low-rank adapters (LoRA): a large model stays as it is, and a small correction A·B of its matrices is trained.

    adapted = add_adapters(model, rank=4, key=key)
    tacit.train(adapted, ..., trainable=adapted.trainable)
    plain = merge(adapted)

Only A and B are clipped, noised, counted and sent; the weights of the model stay bit for bit. A matrix W of n × m becomes
W + scale · A·B, with A of n × rank and B of rank × m. B starts at zero, so the adapted model starts as the model itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tacit.errors import RecipeError
from tacit.models.layers.precision import product

_ADAPTERS = "adapters"


class Adapter(eqx.Module):
    """The correction of one matrix."""

    A: Array  # [n, rank]
    B: Array  # [rank, m]


class Adapted(eqx.Module):
    """A model with adapters, by the path of the matrix that each corrects. It is called as the model itself is."""

    base: Any
    adapters: dict[str, Adapter]
    scale: float = eqx.field(static=True)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return merge(self)(*arguments, **named)

    @property
    def trainable(self) -> Callable[[str, Any], bool]:
        """The filter for `trainable=`: A and B of every adapter, and nothing else."""
        return _is_of_adapter

    def merged(self) -> Any:
        """The plain model: each matrix with its correction added."""
        return merge(self)


def add_adapters(
    model: Any,
    rank: int,
    *,
    key: Array,
    where: Callable[[str, Any], bool] | None = None,
    scale: float = 1.0,
) -> Adapted:
    """The model with an adapter for each matrix of floating-point numbers that `where(path, leaf)` selects; None: for all.

    A path reads like ``blocks.0.queries``.

    >>> import jax, jax.numpy as jnp, tacit
    >>> adapted = tacit.add_adapters({"table": jnp.ones((8, 3)), "bias": jnp.zeros(3)}, 2, key=jax.random.key(0))
    >>> adapted.adapters["table"].A.shape, adapted.adapters["table"].B.shape
    ((8, 2), (2, 3))
    """
    if rank < 1:
        raise RecipeError(f"Expected rank >= 1, got {rank}.")
    chosen = {path: leaf for path, leaf in _leaves(model) if _is_matrix(leaf) and (where is None or where(path, leaf))}
    if not chosen:
        raise RecipeError(
            "Expected at least one matrix that adapters can be added to, got a model or filter without one."
        )
    for path, leaf in chosen.items():
        if rank > min(leaf.shape):
            raise RecipeError(f"Expected rank <= {min(leaf.shape)}, the smaller side of {path}, got {rank}.")
    keys = jax.random.split(key, len(chosen))
    adapters = {path: _adapter(leaf, rank, key=each) for (path, leaf), each in zip(chosen.items(), keys, strict=True)}
    return Adapted(model, adapters, scale)


def merge(model: Adapted) -> Any:
    """The plain model: each matrix with its correction added."""

    def corrected(path: Any, leaf: Any) -> Any:
        adapter = model.adapters.get(_name(path))
        if adapter is None:
            return leaf
        correction = product(adapter.A, adapter.B, "float32") * jnp.float32(model.scale)
        return leaf + correction.astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(corrected, model.base)


def _adapter(matrix: Array, rank: int, *, key: Array) -> Adapter:
    rows, columns = matrix.shape
    return Adapter(
        A=jax.random.normal(key, (rows, rank), jnp.float32) / jnp.float32(rank**0.5),
        B=jnp.zeros((rank, columns), jnp.float32),
    )


def _is_of_adapter(path: str, leaf: Any) -> bool:
    return path.split(".")[0] == _ADAPTERS


def _is_matrix(leaf: Any) -> bool:
    return eqx.is_array(leaf) and leaf.ndim == 2 and jnp.issubdtype(leaf.dtype, jnp.floating)


def _leaves(model: Any) -> list[tuple[str, Any]]:
    paths, _ = jax.tree_util.tree_flatten_with_path(model)
    return [(_name(path), leaf) for path, leaf in paths]


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
