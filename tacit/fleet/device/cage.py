"""Runs a plan in a process of its own, with as little as the system allows to take away, and ends it when it takes too long.

A plan is foreign code. Compiled by XLA it may take any time and memory, and a crafted one may break out of what StableHLO
means: one of 245 plans with a changed byte took 15 GB, another corrupted memory. So it runs in a `cage_worker`, which has
neither the device's key nor its text and gives up files and network first (`confinement.py`). The result is not trusted either:
this process reads exactly as many bytes as the task's update has, and clips them.

Starting a worker takes seconds, because it imports JAX, and so does compiling. A cage is therefore kept for the next round of
the same plan, until `close_all`.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.errors import FleetError
from tacit.fleet.device.cage_worker import DONE, FAILED, JOB, LENGTH, MOST_SENTENCE_BYTES
from tacit.fleet.device.confinement import CLOSED
from tacit.fleet.device.examples import Batches
from tacit.fleet.wire.task import DeviceTask

if TYPE_CHECKING:  # it imports JAX, which the device leaves to the cage
    from tacit.fleet.device.compiled_plans import Update

# How long a worker may take until it is ready for a plan, on a busy machine.
_START_S = 300.0
# The most cages at a time: one for each of the last plans.
_MOST_CAGES = 2
# What a worker inherits of the environment. Its flags of XLA are the device's, so that it computes what a simulation does.
_INHERITED = ("PATH", "LANG", "LD_LIBRARY_PATH", "SYSTEMROOT", "XLA_FLAGS")
# A task without arrays, for a cage that runs nothing.
_NOTHING = DeviceTask(
    name="nothing",
    kind="train",
    plan="0" * 64,
    vocabulary="0" * 64,
    layout="windows",
    length=1,
    batch_size=1,
    steps=1,
    model_shapes=(),
    update_shapes=(),
    clipping="flat",
    example_cap=None,
    min_separation=0,
    max_participation=1,
    timer_s=0.0,
    report_goal=1,
)
# Of a cage's life, in units of what one plan may take.
_CPU_LIMIT = 50


@dataclass(frozen=True)
class CageLimits:
    """What a plan may use. `closed`: it runs only where it can open no file and no connection."""

    seconds: float
    memory_bytes: int
    closed: bool = False


class Cage:
    """A worker for one plan."""

    def __init__(self, plan: bytes, task: DeviceTask, limits: CageLimits) -> None:
        self._task, self._limits = task, limits
        self._lock = threading.Lock()
        self._worker = subprocess.Popen(
            [sys.executable, "-m", "tacit.fleet.device.cage_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            cwd="/",
            start_new_session=True,
        )
        try:
            cpu_seconds = _CPU_LIMIT * limits.seconds * (os.cpu_count() or 1)
            settings = {
                "task": task.model_dump_json(),
                "memory_bytes": limits.memory_bytes,
                "cpu_seconds": cpu_seconds,
            }
            answer = self._exchange(_framed(json.dumps(settings).encode()), most=1000, seconds=_START_S)
            self.given_up: list[str] = json.loads(answer)
            if limits.closed and CLOSED not in self.given_up:
                raise FleetError(
                    "The owner's policy asks for a cage without files and network, which this system does not have."
                )
            self._unsent = _framed(plan)
        except BaseException:
            self.close()
            raise

    def run(
        self, model: Sequence[NDArray[np.float32]], batches: Batches, *, clip_norm: float, seconds: float
    ) -> Update:
        """The plan's update; FleetError if the plan failed, took too long, or ended its process. The cage is then of no use."""
        task = self._task
        job = JOB.pack(batches.steps, clip_norm)
        job += b"".join(np.ascontiguousarray(leaf, "<f4").tobytes() for leaf in model)
        job += np.ascontiguousarray(batches.tokens, "<i4").tobytes()
        with self._lock:
            message, self._unsent = self._unsent + _framed(job), b""
            try:
                most = 1 + max(4 * task.dimension, MOST_SENTENCE_BYTES)
                answer = self._exchange(message, most=most, seconds=min(seconds, self._limits.seconds))
            except BaseException:
                self.close()
                raise
        if answer[:1] == FAILED:
            sentence = answer[1:].decode(errors="replace")
            raise FleetError("".join(letter for letter in sentence if letter.isprintable()))
        if answer[:1] != DONE or len(answer) != 1 + 4 * task.dimension:
            self.close()
            raise FleetError("The plan's cage answered with something else than the task's update.")
        flat, leaves = np.frombuffer(answer, "<f4", offset=1), []
        for shape in task.update_shapes:
            size = int(np.prod(shape))
            leaves.append(flat[:size].reshape(shape))
            flat = flat[size:]
        return leaves

    @property
    def is_open(self) -> bool:
        """Whether the worker is still there."""
        return self._worker.poll() is None

    @property
    def is_busy(self) -> bool:
        """Whether a plan runs in it now."""
        return self._lock.locked()

    def close(self) -> None:
        """End the worker, whatever it is doing."""
        try:
            os.killpg(self._worker.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._worker.kill()
        self._worker.wait()
        for pipe in (self._worker.stdin, self._worker.stdout):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue

    def _exchange(self, message: bytes, *, most: int, seconds: float) -> bytes:
        """Send frames and read one, within this time. A plan that does not read blocks nobody."""
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        source, sink = self._worker.stdout.fileno(), self._worker.stdin.fileno()
        os.set_blocking(sink, False)
        until, rest, answer = time.monotonic() + seconds, memoryview(message), bytearray()
        while len(answer) < LENGTH.size or len(answer) < LENGTH.size + _length(answer, most):
            left = until - time.monotonic()
            if left <= 0:
                raise FleetError(f"The plan ran longer than {seconds:g} s and was ended.")
            readable, writable, _ = select.select([source], [sink] if rest else [], [], min(left, 60.0))
            if writable:
                try:
                    rest = rest[os.write(sink, rest[: 1 << 16]) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    raise self._ended() from None
            if readable:
                piece = os.read(source, 1 << 20)
                if not piece:
                    raise self._ended()
                answer += piece
        return bytes(answer[LENGTH.size : LENGTH.size + _length(answer, most)])

    def _ended(self) -> FleetError:
        """The worker is gone, which only a plan can do to it: what it did, by the signal."""
        code = self._worker.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return FleetError(
            f"The plan ended its process ({how}): it broke a rule, or needed more memory than it may use."
        )


def run_in_cage(
    plan: bytes,
    task: DeviceTask,
    model: Sequence[NDArray[np.float32]],
    batches: Batches,
    *,
    clip_norm: float,
    limits: CageLimits,
    seconds: float,
) -> Update:
    """The plan's update within this time, from the cage that is warm for this plan, or a new one."""
    rows = (task.steps, task.batch_size, task.length)
    key = (task.plan, task.model_shapes, task.update_shapes, rows, limits)
    with _changing:
        cage = _warm.pop(key, None)
        if cage is not None and not cage.is_open:
            cage.close()
            cage = None
        if cage is None:
            for other in [name for name, each in _warm.items() if not each.is_busy][
                : max(0, len(_warm) - _MOST_CAGES + 1)
            ]:
                _warm.pop(other).close()
            cage = Cage(plan, task, limits)
        _warm[key] = cage
    try:
        return cage.run(model, batches, clip_norm=clip_norm, seconds=seconds)
    except FleetError:
        with _changing:
            if _warm.get(key) is cage:
                del _warm[key]
        cage.close()
        raise


def probe() -> list[str]:
    """What a process that runs plans gives up on this system (`confinement.py`)."""
    cage = Cage(b"", _NOTHING, CageLimits(seconds=1.0, memory_bytes=1 << 30))
    cage.close()
    return cage.given_up


def close_all() -> None:
    """End all cages: a device that waits for long does not keep one."""
    with _changing:
        while _warm:
            _warm.popitem()[1].close()


def _framed(content: bytes) -> bytes:
    return LENGTH.pack(len(content)) + content


def _length(answer: bytearray, most: int) -> int:
    (length,) = LENGTH.unpack_from(answer)
    if length > most:
        raise FleetError("The plan's cage answered with something else than the task's update.")
    return int(length)


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    path = os.pathsep.join(os.path.abspath(each) for each in sys.path)
    # Few arenas, because address space is limited.
    return {**kept, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "MALLOC_ARENA_MAX": "2"}


_changing = threading.Lock()
# The cages by plan, shapes and limits, the one used last at the end.
_warm: OrderedDict[tuple[Hashable, ...], Cage] = OrderedDict()
atexit.register(close_all)
