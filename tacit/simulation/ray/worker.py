"""What a worker does: train the users of a piece and return their partial sums.

A worker is one process that trains on one accelerator, or on several, each of which trains pieces of its own: a piece is
always summed by one gate on one accelerator, so how many there are changes nothing in its sum. While one piece trains, the
users of the next are gathered.

**What leaves a worker** is what the gate of its piece adds up: clipped totals in float64, or integers for secure sums. With
them go the norms before clipping, which the owner's diagnostics show (outside the guarantee, as in every simulation). A
user's update never leaves, and no noise is added here but what users' own devices would add to secure sums.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pickle
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.sharded import sharded
from tacit.simulation.ray.identity import Identity, identity
from tacit.simulation.ray.pieces import Piece


@dataclass(frozen=True)
class UsersSide:
    """What a worker needs to train users, sent once: the users (where they are, not their text), the work and the plan."""

    users: Any
    work: Any
    plan: Any
    shape: Any
    chunk: int
    lanes: int
    secure: Any


@dataclass(frozen=True)
class Packed:
    """The users' side on its way: its content, and its arrays, which the processes of a machine share.

    A worker unpacks it by itself, and can tell what is wrong, for example that a store is not there. If Ray unpacked it, there
    would be no worker's error to look at.
    """

    content: bytes
    arrays: list[NDArray[np.uint8]]

    @classmethod
    def of(cls, side: UsersSide) -> Packed:
        from ray import cloudpickle

        buffers: list[pickle.PickleBuffer] = []
        content = cloudpickle.dumps(side, protocol=5, buffer_callback=buffers.append)
        return cls(content, [np.frombuffer(each.raw(), np.uint8) for each in buffers])

    def unpacked(self) -> UsersSide:
        side: UsersSide = pickle.loads(self.content, buffers=self.arrays)
        return side


@dataclass(frozen=True)
class About:
    """A worker: where it is, which code it runs, and what it computes on."""

    host: str
    node: str
    pid: int
    identity: Identity
    backend: str
    devices: int
    memory: int | None


@dataclass(frozen=True)
class PieceTask:
    """One piece of one round. `model` names the broadcast model. `entropy` gives secrets for the users' own randomness.

    `canaries` are admitted after the users: a piece has either.
    """

    model: str
    piece: Piece
    norms: Any
    entropy: PieceEntropy | None = None
    canaries: Any = None

    @property
    def number(self) -> int:
        return self.piece.number

    @property
    def cost(self) -> float:
        return self.piece.cost

    @property
    def shard(self) -> int | None:
        """Which shard a worker needs for it; None: any worker can do it."""
        return self.piece.shard


@dataclass(frozen=True)
class Measure:
    """A part of an evaluation: what `part.sums` gives of this model."""

    number: int
    model: str
    part: Any
    cost: float = 0.0
    shard: None = None


@dataclass(frozen=True)
class Measured:
    """The sums of a part of an evaluation."""

    number: int
    value: Any
    seconds: float


@dataclass(frozen=True)
class PieceEntropy:
    """Secrets for the users of one piece: those of the whole round by their purpose, the others derived from `own`."""

    shared: dict[str, bytes]
    own: bytes

    def __call__(self, purpose: str) -> bytes:
        """32 secret bytes for this purpose."""
        known = self.shared.get(purpose)
        return known if known is not None else hmac.new(self.own, purpose.encode(), hashlib.sha256).digest()


@dataclass(frozen=True)
class Done:
    """The partial sums of one piece. `norms` and `clipped` are for diagnostics, a number a user; `seconds` for the schedule."""

    number: int
    partial: Any
    norms: NDArray[np.float32]
    clipped: NDArray[np.bool_]
    seconds: float


@dataclass(frozen=True)
class _PieceOfRound:
    """A piece as the built-in engine takes a cohort."""

    users: NDArray[np.int64]
    chunks: list[Any]
    entropy: Callable[[str], bytes] | None = field(default=None)


class Worker:
    """The users' side in a worker process. Its methods may be called by several threads at a time.

    It computes on the GPUs that Ray has given to it or on one CPU core; with `gpu=None` on what this process computes on.
    """

    def __init__(self, *, gpu: bool | None) -> None:
        if gpu is not None:
            _use_accelerators(gpu=gpu)
        self._engines: queue.Queue[Any] = queue.Queue()
        self._gathers = threading.Lock()
        self._models: dict[str, Any] = {}
        self._loads = threading.Lock()

    def about(self) -> About:
        """Where this worker is and what it runs on."""
        import jax

        devices = jax.local_devices()
        stats = devices[0].memory_stats() or {}
        return About(
            socket.gethostname(),
            _node(),
            os.getpid(),
            identity(),
            jax.default_backend(),
            len(devices),
            stats.get("bytes_limit"),
        )

    def prepare(self, given: UsersSide | Packed) -> frozenset[int] | None:
        """Make an engine for each accelerator; raises what is wrong with the users, for example a store that is not here.

        Returns the shards that are here, if the users lie in shards.
        """
        import jax

        from tacit.simulation.batched import BatchedUsers
        from tacit.simulation.placement import Spread

        side = given.unpacked() if isinstance(given, Packed) else given
        store = sharded(side.users)
        here = None if store is None else store.here()
        if here is None:
            side.users.gather(np.arange(min(1, len(side.users)), dtype=np.int64))
        self._engines = queue.Queue()
        for device in jax.local_devices():
            spread = Spread((device,), side.chunk, side.lanes)
            self._engines.put(BatchedUsers(side.users, side.work, side.plan, side.shape, spread, side.secure))
        self._gatherer = BatchedUsers(
            side.users, side.work, side.plan, side.shape, Spread((), side.chunk, side.lanes), side.secure
        )
        return here

    def do(self, task: PieceTask | Measure, load: Callable[[], Any]) -> Done | Measured:
        """Train the users of a piece, or measure. `load` fetches the model, once for all tasks that name it."""
        if isinstance(task, PieceTask):
            return self._train(task, load)
        began = time.monotonic()
        value = task.part.sums(self._model(task.model, load))
        return Measured(task.number, value, time.monotonic() - began)

    def _train(self, task: PieceTask, load: Callable[[], Any]) -> Done:
        with self._gathers:  # one piece at a time: the next one's users are gathered while this one's train
            began = time.monotonic()
            chunks = list(self._gatherer.prepare(task.piece.users)) if len(task.piece.users) else []
            gathered = time.monotonic() - began
        model = self._model(task.model, load)
        engine = self._engines.get()
        began = time.monotonic()
        try:
            piece = _PieceOfRound(task.piece.users, chunks, task.entropy)
            (gate,), diagnostics = engine.admitted(model, piece, task.norms, task.piece.first)
            if task.canaries is not None:
                task.canaries.admit(gate)
            partial = gate.partial()
        finally:
            self._engines.put(engine)
        norms, clipped = _of_those_present(diagnostics)
        return Done(task.piece.number, partial, norms, clipped, gathered + time.monotonic() - began)

    def _model(self, name: str, load: Callable[[], Any]) -> Any:
        """The model of this name; only the newest is kept."""
        with self._loads:
            if name not in self._models:
                self._models = {name: on_accelerator(load())}
            return self._models[name]


def _node() -> str:
    """Ray's id of the node that this process is on; empty outside of Ray."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return ""
    return str(ray.get_runtime_context().get_node_id())


def in_numpy(model: Any) -> Any:
    """A model with its arrays in NumPy, which processes of one machine can share."""
    import jax

    return jax.tree.map(lambda leaf: np.asarray(leaf) if _is_plain(leaf) else leaf, model)


def on_accelerator(model: Any) -> Any:
    """The inverse of `in_numpy`, on this process's first accelerator."""
    import jax

    return jax.tree.map(lambda leaf: jax.device_put(leaf) if isinstance(leaf, np.ndarray) else leaf, model)


def _is_plain(leaf: Any) -> bool:
    import jax

    return isinstance(leaf, jax.Array) and not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended)


def _of_those_present(diagnostics: list[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    def joined(values: Iterator[Any], dtype: Any) -> Any:
        return np.concatenate([np.empty(0, dtype), *values])

    present = [np.asarray(each.present) for each in diagnostics]
    return (
        joined((np.asarray(d.norms)[here] for d, here in zip(diagnostics, present, strict=True)), np.float32),
        joined((np.asarray(d.clipped)[here] for d, here in zip(diagnostics, present, strict=True)), np.bool_),
    )


def _use_accelerators(*, gpu: bool) -> None:
    """One CPU core, or the GPUs that Ray has given to this process. It has no effect where JAX has been used before."""
    if gpu:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        return
    # How many threads compute for the CPU device. With one for each core of the machine, as is usual, the workers of a machine
    # take each other's cores to wait in. How sums are split between threads also decides how they are rounded.
    os.environ["NPROC"] = "1"
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 1)
