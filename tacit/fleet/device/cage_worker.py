"""The process that runs a plan, started by `cage.py`. It reads frames from stdin and writes frames to stdout.

    → settings                 JSON: the task, and the limits
    ← what it has given up     JSON, after it has imported JAX and run a plan of its own
    → the plan
    → model, batches, clip     repeated; ← b"\\0" and the update, or b"\\1" and a sentence

A frame is its length (8 bytes, little-endian) and its bytes. The process sees no byte of the plan before it has given up
everything but computing. It never sees a key, the text, or a path of the device; it has the batches of one user.
"""

from __future__ import annotations

import json
import os
import struct
import threading
from queue import SimpleQueue
from typing import Any

LENGTH = struct.Struct("<Q")
# Model, batches and clip in one frame: the number of steps and the clip norm, then all arrays one after the other.
JOB = struct.Struct("<qd")
DONE, FAILED = b"\0", b"\1"
# The most that a worker says about a failure.
MOST_SENTENCE_BYTES = 500


def main() -> None:
    """Serve until stdin ends."""
    from tacit.fleet.device import confinement

    given_up = confinement.leave_network()
    source, sink = os.dup(0), os.dup(1)
    for number in (0, 1, 2):  # what a library prints is no frame
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    frames: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(source, frames), daemon=True).start()
    settings = json.loads(frames.get())
    import numpy as np

    from tacit.errors import FleetError
    from tacit.fleet.device.compiled_plans import run_plan
    from tacit.fleet.device.examples import Batches
    from tacit.fleet.wire.task import DeviceTask

    task = DeviceTask.model_validate_json(settings["task"])
    _warm_up()
    given_up += confinement.confine(settings["memory_bytes"], settings["cpu_seconds"])
    _write(sink, json.dumps(given_up).encode())

    plan = frames.get()
    while True:
        job = frames.get()
        try:
            steps, clip = JOB.unpack_from(job)
            model, rest = [], memoryview(job)[JOB.size :]
            for shape in task.model_shapes:
                size = 4 * int(np.prod(shape))
                model.append(np.frombuffer(rest[:size], "<f4").reshape(shape))
                rest = rest[size:]
            tokens = np.frombuffer(rest, "<i4").reshape(task.steps, task.batch_size, task.length + 1)
            update = run_plan(plan, task, model, Batches(tokens, steps, 0), clip_norm=clip)
            _write(sink, DONE + b"".join(np.ascontiguousarray(leaf, "<f4").tobytes() for leaf in update))
        except FleetError as error:
            _write(sink, FAILED + error.sentence.encode()[:MOST_SENTENCE_BYTES])
        except MemoryError:
            _write(sink, FAILED + b"The plan needs more memory than it may use.")
        except Exception as error:  # foreign code: any error is possible
            _write(sink, FAILED + f"The plan failed ({type(error).__name__}).".encode())


def _warm_up() -> None:
    """Import and start all that a plan needs, while files can still be opened."""
    import jax
    import jax.export
    import jax.numpy as jnp
    import numpy as np

    from tacit.fleet.device.compiled_plans import run_exported

    def step(carry: Any, row: Any) -> Any:
        return jnp.tanh(carry @ carry.T) + row[0], jnp.take(carry, row.astype(int) % 2, axis=0).sum()

    def plan(model: Any, rows: Any) -> Any:
        last, sums = jax.lax.scan(step, model, jnp.sort(rows))
        # Libraries for reductions and products look at the processor's description when they are first used.
        return (
            last.sum(axis=0),
            last.max(),
            sums,
            jnp.exp(last @ model).sum(),
            jnp.zeros(99).at[rows.astype(int)].add(1.0),
        )

    model, rows = np.ones((64, 64), np.float32), np.ones((3, 64), np.float32)
    run_exported(bytes(jax.export.export(jax.jit(plan))(model, rows).serialize()), model, rows)


def _listen(source: int, frames: SimpleQueue[bytes]) -> None:
    """Read frames, in a thread of its own: a worker whose device is gone ends, also in the middle of a plan."""
    while True:
        frames.put(_read(source))


def _read(source: int) -> bytes:
    (length,) = LENGTH.unpack(_exactly(source, LENGTH.size))
    return _exactly(source, length)


def _exactly(source: int, length: int) -> bytes:
    content = bytearray()
    while len(content) < length:
        piece = os.read(source, min(length - len(content), 1 << 20))
        if not piece:
            os._exit(0)
        content += piece
    return bytes(content)


def _write(sink: int, content: bytes) -> None:
    rest = memoryview(LENGTH.pack(len(content)) + content)
    while rest:
        rest = rest[os.write(sink, rest) :]


if __name__ == "__main__":
    main()
