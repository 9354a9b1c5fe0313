"""Distribute users over this machine's accelerators.

Chunks of users go to the accelerators in turn; each sums its own, and the sums are added at the end of the round, so that
accelerators never wait for each other. On a GPU a chunk is one wide `vmap`. On a CPU each core is a JAX device of its own and
works on a few users at a time, or on one if the model is large: a user's parameters then stay in the core's cache. A core has a
single thread (`cores.py`), so no product is split between cores.
"""

from __future__ import annotations

import math
import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import jax

from tacit.privacy.plan import PrivacyPlan
from tacit.simulation.cores import own_devices

# More CPU devices than this cost compilation time and gain little.
MOST_CPU_DEVICES = 16
# The parameters of all users that a CPU core works on in lockstep: they should stay in its cache.
CACHED_PARAMETERS = 400_000
# Users in lockstep on a GPU. On an H200, 512 reach 99% of the speed of 1,024 and leave less padding; 256 reach 88%.
GPU_LANES = 512
# A cohort by coins is seldom larger than expected by so many standard deviations; then it needs one more chunk.
DEVIATIONS = 3
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
    _avoid_slow_loops()
    if _cpu_devices_are_chosen():
        return
    with suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", _useful_cores())


def _avoid_slow_loops() -> None:
    """Have XLA compile element-wise operations on a CPU as it did before its "tiled emitter".

    That one (jax 0.10.2) writes every vector to the stack and reads it back in another width: adding two tables of the
    benchmark model takes four times as long. XLA reads its flags once, before its first operation. It ignores a key in
    these options that it does not know.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_extra_options=xla_cpu_disable_tiled_emitter".lstrip()


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


def usual_cohort(plan: PrivacyPlan) -> int:
    """A number of users that a round seldom exceeds. It follows from the plan alone.

    >>> from tacit.privacy.plan import PrivacyPlan
    >>> plan = {"population": 10_000, "cohort": 100, "clip_norm": 1.0, "noise_multiplier": 1.0, "delta": 1e-5}
    >>> usual_cohort(PrivacyPlan(**plan)), usual_cohort(PrivacyPlan(**plan, sampling="fixed"))
    (130, 100)
    """
    by_coins = plan.sampling in ("poisson", "cyclic_poisson")
    spare = DEVIATIONS * math.sqrt(plan.cohort * (1 - plan.sampling_probability)) if by_coins else 0.0
    return math.ceil(plan.cohort + spare)


def even_chunk(users: int, most: int) -> int:
    """The least size with which as few chunks of at most `most` users as possible hold so many users.

    >>> even_chunk(100, 512), even_chunk(600, 512), even_chunk(8_500, 512)
    (100, 300, 500)
    """
    return -(-users // -(-users // most))


def suitable_spread(parameters: int, cohort: int, chunk: int | None = None) -> Spread:
    """The spread that suits this machine for at most so many users a round, as a rule; or chunks of the given size, rounded up
    to whole lanes."""
    devices = tuple(jax.devices())
    cpu = jax.default_backend() == "cpu"
    if cpu:
        _warn_of_idle_cores(len(devices))
        devices = (own_devices(len(devices)) if len(devices) > 1 else ()) or devices
    share = -(-cohort // len(devices))
    memory = None if cpu else (devices[0].memory_stats() or {}).get("bytes_limit")
    return Spread(devices, *suitable_lanes(parameters, share, cpu=cpu, memory=memory, chunk=chunk))


def suitable_lanes(
    parameters: int, share: int, *, cpu: bool, memory: int | None = None, chunk: int | None = None
) -> tuple[int, int]:
    """The chunk and the lanes for an accelerator that trains so many users of a round, or for chunks of the given size.

    `memory` is that of a GPU in bytes, where it is known.
    """
    if cpu:
        lanes = max(1, min(16, CACHED_PARAMETERS // parameters))
        share = min(share, 4 * lanes)
    else:
        free = (memory or 16 << 30) // 2
        lanes = max(1, min(GPU_LANES, free // (4 * FLOATS_A_PARAMETER * parameters)))
        share = lanes = even_chunk(max(1, share), lanes)
    wanted = chunk or share
    groups = -(-wanted // lanes)
    lanes = -(-wanted // groups)
    return groups * lanes, lanes
