"""What the GPU kernels share: when they can run, and how their arrays are cut."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental.pallas import triton


def available() -> bool:
    """Whether JAX computes on an NVIDIA GPU with bf16 matrix units (Ampere or later)."""
    if jax.default_backend() != "gpu":
        return False
    capability = getattr(jax.devices()[0], "compute_capability", "")
    return capability.replace(".", "", 1).isdigit() and float(capability) >= 8.0


def pieces(n: int) -> list[tuple[int, int]]:
    """Where each power of two in the sum that makes n begins, and its size, largest first."""
    found, start = [], 0
    while start < n:
        size = 1 << ((n - start).bit_length() - 1)
        found.append((start, size))
        start += size
    return found


def beside(rows: Array, width: int) -> Array:
    """A mask of rows [n], repeated over `width` columns."""
    return jnp.broadcast_to(rows[:, None], (rows.shape[0], width))


def launch(programs: int, warps: int, stages: int, interpret: bool) -> dict[str, Any]:
    """The arguments of `pallas_call` that say how a kernel runs; interpreted, it runs anywhere, slowly."""
    if interpret:
        return {"grid": (programs,), "interpret": True}
    return {"grid": (programs,), "compiler_params": triton.CompilerParams(num_warps=warps, num_stages=stages)}
