"""Checks and runs a downloaded plan, in the process that `cage.py` starts for it.

A compiled plan is foreign code, so it gets as little as possible: one processor, arrays of exactly the task's shapes, no
effects, and no calls out of StableHLO (a custom call would call a function of this process by name). These checks read what
the plan says of itself; what a crafted plan does in spite of them, the cage contains. The result is not trusted: the device
clips it (`clipping.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.export
import numpy as np
from numpy.typing import NDArray

from tacit.errors import FleetError
from tacit.fleet.device.examples import Batches
from tacit.fleet.wire.task import DeviceTask

Update = list[NDArray[np.float32]]
# Stands for no clipping: the largest float32.
_LARGEST = float(np.finfo(np.float32).max)


def run_plan(
    plan: bytes, task: DeviceTask, model: Sequence[NDArray[np.float32]], batches: Batches, *, clip_norm: float
) -> Update:
    """Run the plan on this model and this user's batches; FleetError if it is not a plan for this task."""
    call = _checked(plan, task)
    try:
        found = call(tuple(model), batches.tokens, np.int32(batches.steps), np.float32(min(clip_norm, _LARGEST)))
    except Exception as error:  # foreign code: after any error the device leaves the round
        raise FleetError(f"The plan failed ({type(error).__name__}).") from None
    return [np.asarray(leaf) for leaf in found]


def run_exported(program: bytes, *arguments: Any) -> None:
    """Run a program of one's own, so that everything that a plan needs is imported and started."""
    jax.block_until_ready(jax.jit(jax.export.deserialize(bytearray(program)).call)(*arguments))


@lru_cache(maxsize=1)
def _checked(plan: bytes, task: DeviceTask) -> Callable[..., Any]:
    """The plan as a function; FleetError unless it is a pure function with the task's shapes."""
    try:
        exported = jax.export.deserialize(bytearray(plan))
        code = exported.mlir_module()
    except Exception as error:  # foreign bytes: any error is possible
        raise FleetError(f"The plan is not exported StableHLO ({type(error).__name__}).") from None
    takes = [(tuple(shape), "float32") for shape in task.model_shapes]
    takes += [((task.steps, task.batch_size, task.length + 1), "int32"), ((), "int32"), ((), "float32")]
    gives = [(tuple(shape), "float32") for shape in task.update_shapes]
    if _signature(exported.in_avals) != takes or _signature(exported.out_avals) != gives:
        raise FleetError("The plan's arguments or results do not have the task's shapes.")
    if exported.ordered_effects or exported.unordered_effects or exported.nr_devices != 1:
        raise FleetError("The plan is not a pure function on one processor.")
    if "custom_call" in code:
        raise FleetError("The plan calls code outside StableHLO.")
    if jax.export.default_export_platform() not in exported.platforms:
        raise FleetError(
            f"Expected a plan for {jax.export.default_export_platform()}, got one for {', '.join(exported.platforms)}."
        )
    return jax.jit(exported.call)


def _signature(avals: Sequence[Any]) -> list[tuple[tuple[int, ...], str]]:
    return [(tuple(aval.shape), str(aval.dtype)) for aval in avals]
