"""Plans for the small task of `device_task.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np


def plan_of(call: Callable[..., Any], *, model: tuple[int, ...] = (2,), rows: Any = (3, 2, 5), **options: Any) -> bytes:
    """This function of model, batches, steps and clip, exported."""
    arguments = (
        (jax.ShapeDtypeStruct(model, np.float32),),
        jax.ShapeDtypeStruct(rows, np.int32),
        jax.ShapeDtypeStruct((), np.int32),
        jax.ShapeDtypeStruct((), np.float32),
    )
    return bytes(jax.export.export(jax.jit(call), **options)(*arguments).serialize())


def honest(model: Any, batches: Any, steps: Any, clip: Any) -> Any:
    """Twice the model, plus the number of steps and the clip."""
    return (model[0] * jnp.float32(2) + steps.astype(jnp.float32) + jnp.sum(batches).astype(jnp.float32) * 0 + clip,)


def honest_plan() -> bytes:
    """`honest` as a plan."""
    return plan_of(honest)
