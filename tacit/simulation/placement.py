"""How users are laid out on this machine's devices.

Chunks of users go to the devices in turn; each device sums its own, and the sums are added at the end of the round, so that
devices never wait for each other. On a GPU a chunk is one wide `vmap`. On a CPU each core is a device of its own and
works on a few users at a time, or on one where the model is large: a user's parameters then stay in that core's cache, and
no product is small enough to be lost in sharing it between cores.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import jax

# More CPU devices than this cost compilation time and gain little.
MOST_CPU_DEVICES = 16
# Users that one CPU core works on in step: as many as keep their parameters in its cache.
CACHED_PARAMETERS = 400_000
# What a user's local training takes on a GPU, in floats, for each parameter of the model.
FLOATS_A_PARAMETER = 3


@dataclass(frozen=True)
class Spread:
    """`chunk` users a compiled call on one of `devices`, `lanes` of them in step."""

    devices: tuple[Any, ...]
    chunk: int
    lanes: int


def use_every_core() -> None:
    """Make each core a JAX device of its own; without effect once JAX has started."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", min(cores, MOST_CPU_DEVICES))


def suitable_spread(parameters: int, cohort: int, chunk: int | None = None) -> Spread:
    """What suits this machine, or chunks of a given size."""
    devices = tuple(jax.devices())
    share = -(-cohort // len(devices))
    if jax.default_backend() == "cpu":
        lanes = max(1, min(16, CACHED_PARAMETERS // parameters))
        share = min(share, 4 * lanes)
    else:
        free = (devices[0].memory_stats() or {}).get("bytes_limit", 16 << 30) // 2
        share = lanes = max(1, min(share, 2048, free // (4 * FLOATS_A_PARAMETER * parameters)))
    chunk = chunk or share
    return Spread(devices, chunk, min(lanes, chunk))
