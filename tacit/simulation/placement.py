"""Distribute users over this machine's accelerators.

Chunks of users go to the accelerators in turn; each sums its own, and the sums are added at the end of the round, so that
accelerators never wait for each other. On a GPU a chunk is one wide `vmap`. On a CPU each core is a JAX device of its own and
works on a few users at a time, or on one if the model is large: a user's parameters then stay in the core's cache, and no small
matrix product is split between cores.
"""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import jax

# More CPU devices than this cost compilation time and gain little.
MOST_CPU_DEVICES = 16
# The parameters of all users that a CPU core works on in lockstep: they should stay in its cache.
CACHED_PARAMETERS = 400_000
# The GPU memory of one user's local training, in floats per parameter of the model.
FLOATS_A_PARAMETER = 3


@dataclass(frozen=True)
class Spread:
    """`chunk` users per compiled call on one of `devices`, `lanes` of them in lockstep.

    A chunk is a whole number of lanes. Otherwise the last users of a chunk would be compiled in another width, which may round
    differently, and who is last depends on the other users.
    """

    devices: tuple[Any, ...]
    chunk: int
    lanes: int


def use_every_core() -> None:
    """Make each CPU core a JAX device of its own, on which users train at the same time.

    JAX reads the number of its CPU devices once, before its first operation, so this has no effect later. Where the person has
    set the number themselves (`JAX_NUM_CPU_DEVICES`, or `XLA_FLAGS`), theirs stays. Training a recipe calls this by itself;
    call it first thing in a program that computes something with JAX before it trains.

    >>> import tacit
    >>> tacit.use_every_core()
    """
    if _cpu_devices_are_chosen():
        return
    with suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", _useful_cores())


def _useful_cores() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_CPU_DEVICES)


def _cpu_devices_are_chosen() -> bool:
    """Whether somebody, a person or an earlier call of ours, has said how many CPU devices there are."""
    chosen: int = jax.config.jax_num_cpu_devices  # type: ignore[attr-defined]  # JAX adds its options at run time
    return chosen >= 0 or "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")


def _warn_of_idle_cores(devices: int) -> None:
    """Warn if JAX has fewer CPU devices than there are cores, because it had started before anybody said how many."""
    cores = _useful_cores()
    if devices < cores and not _cpu_devices_are_chosen():
        warnings.warn(
            f"Training has {devices} CPU device(s) for {cores} cores, because this program used JAX before Tacit could make "
            "every core a device. Call tacit.use_every_core() before anything else that uses JAX, or set the environment "
            f"variable JAX_NUM_CPU_DEVICES={cores}.",
            RuntimeWarning,
            stacklevel=2,
        )


def suitable_spread(parameters: int, cohort: int, chunk: int | None = None) -> Spread:
    """The spread that suits this machine, with chunks of the given size, rounded up to whole lanes, if there is one."""
    devices = tuple(jax.devices())
    share = -(-cohort // len(devices))
    if jax.default_backend() == "cpu":
        _warn_of_idle_cores(len(devices))
        lanes = max(1, min(16, CACHED_PARAMETERS // parameters))
        share = min(share, 4 * lanes)
    else:
        free = (devices[0].memory_stats() or {}).get("bytes_limit", 16 << 30) // 2
        share = lanes = max(1, min(share, 2048, free // (4 * FLOATS_A_PARAMETER * parameters)))
    wanted = chunk or share
    groups = -(-wanted // lanes)
    lanes = -(-wanted // groups)
    return Spread(devices, groups * lanes, lanes)
