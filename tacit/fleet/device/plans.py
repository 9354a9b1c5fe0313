"""A downloaded plan, held to what it may be, and run.

A plan is foreign code, so it gets as little as there is: one processor, arrays of exactly the task's shapes, no effects, and
no call out of StableHLO (a custom call is a function of this process, by name). What it returns is not trusted: the device
clips it (`clipping.py`), so that the worst a plan can do is to say something else of bounded length, or to take long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.export
import numpy as np
from numpy.typing import NDArray

from tacit.errors import FleetError
from tacit.fleet.device.examples import Batches
from tacit.fleet.wire.messages import Task

Update = list[NDArray[np.float32]]
# float32's largest number stands for "no clip".
_MOST = float(np.finfo(np.float32).max)
_compiling = threading.Lock()


def run_plan(
    plan: bytes, task: Task, model: Sequence[NDArray[np.float32]], batches: Batches, *, clip_norm: float
) -> Update:
    """The arrays that a plan makes of this model and this user; FleetError if it is not a plan of this task."""
    with _compiling:  # devices that share a process compile a plan once
        call = _checked(plan, task)
    try:
        found = call(tuple(model), batches.tokens, np.int32(batches.steps), np.float32(min(clip_norm, _MOST)))
    except Exception as error:  # foreign code: whatever goes wrong in it, the device leaves the round
        raise FleetError(f"Expected a plan that runs, got one that fails ({type(error).__name__}).") from None
    return [np.asarray(leaf) for leaf in found]


@lru_cache(maxsize=4)
def _checked(plan: bytes, task: Task) -> Callable[..., Any]:
    """The plan as a function, once it is seen to be one of this task."""
    try:
        exported = jax.export.deserialize(bytearray(plan))
        code = exported.mlir_module()
    except Exception as error:  # foreign bytes: whatever is wrong with them
        raise FleetError(f"Expected a plan as exported StableHLO, got other bytes ({type(error).__name__}).") from None
    takes = [(tuple(shape), "float32") for shape in task.model_shapes]
    takes += [((task.steps, task.batch_size, task.length + 1), "int32"), ((), "int32"), ((), "float32")]
    gives = [(tuple(shape), "float32") for shape in task.update_shapes]
    if _signature(exported.in_avals) != takes or _signature(exported.out_avals) != gives:
        raise FleetError("Expected a plan from the task's model and batches to its update, got one of other shapes.")
    if exported.ordered_effects or exported.unordered_effects or exported.nr_devices != 1:
        raise FleetError("Expected a plan that is a pure function on one processor, got one with effects or more.")
    if "custom_call" in code:
        raise FleetError("Expected a plan in StableHLO alone, got one that calls other code.")
    if jax.export.default_export_platform() not in exported.platforms:
        raise FleetError(
            f"Expected a plan for {jax.export.default_export_platform()}, got one for {', '.join(exported.platforms)}."
        )
    return jax.jit(exported.call)


def _signature(avals: Sequence[Any]) -> list[tuple[tuple[int, ...], str]]:
    return [(tuple(aval.shape), str(aval.dtype)) for aval in avals]
