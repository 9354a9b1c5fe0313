"""Whole cohorts on one machine: users in chunks, each chunk one compiled call.

A chunk holds a fixed number of users of similar size; the machine's devices take chunks in turn. Local steps run in step for
as many users as suits the device (`devices.py`), in a loop that ends with the chunk's largest user; updates go straight into
the device's gate, and the chunk's memory is used again. Short cohorts are padded with absent users, who weigh
nothing. No call waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.data.rows import Layout, pack, to_rows
from tacit.data.users import Users
from tacit.learning.work import Work
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.sums import BoundedSum, Contributions, Diagnostics, Gate, Norms
from tacit.simulation.devices import Spread
from tacit.simulation.secure import SecureGate, SecureSums

# So many chunks are gathered together and sorted by size, so that users of similar size share a chunk.
GATHERED_CHUNKS = 8


@dataclass(frozen=True)
class Shape:
    """How a user's examples become batches: row layout and length, rows a batch, at most so many batches."""

    layout: Layout
    length: int
    batch_size: int
    steps: int


@dataclass(frozen=True)
class Chunk:
    """Users gathered and packed: tokens [users, steps, rows, length + 1], the largest number of batches any has."""

    tokens: NDArray[np.int32]
    steps: int
    weights: NDArray[np.float32]
    present: NDArray[np.bool_]


class BatchedUsers:
    """Simulated users behind the gate; with `secure`, behind one that adds integers up, as secure aggregation does."""

    def __init__(
        self,
        users: Users,
        work: Work,
        plan: PrivacyPlan,
        shape: Shape,
        spread: Spread,
        secure: SecureSums | None = None,
    ) -> None:
        self.users, self.plan, self.shape, self.chunk, self.secure = users, plan, shape, spread.chunk, secure
        self._devices = spread.devices
        self._updates = jax.jit(partial(_updates, work, spread.lanes))

    def collect(self, broadcast: Any, cohort: Any, norms: Norms) -> tuple[BoundedSum, list[Diagnostics]]:
        """Every user's work on the broadcast model, clipped, weighed and summed."""
        models = [jax.device_put(broadcast, device) for device in self._devices]
        gates = self._gates(models, cohort, norms)
        diagnostics = []
        for number, chunk in enumerate(cohort.chunks):
            turn = number % len(self._devices)
            tokens = jax.device_put(chunk.tokens, self._devices[turn])
            updates = self._updates(models[turn], tokens, np.int32(chunk.steps), np.float32(norms.clip))
            diagnostics.append(gates[turn].admit(Contributions(updates, chunk.weights, chunk.present)))
        for gate in gates[1:]:
            gates[0].merge(gate)
        return gates[0].close(), diagnostics

    def update_bound(self, clip: float) -> float:
        """The bound on one user's share of the sum of updates that are clipped at this norm."""
        return clip if self.secure is None else self.secure.bound(clip)

    def _gates(self, models: list[Any], cohort: Any, norms: Norms) -> list[Any]:
        """A gate on each device."""
        style: dict[str, Any] = {"style": self.plan.clipping, "weighted": self.plan.weighted}
        if self.secure is None:
            return [Gate(model, norms, **style) for model in models]
        round = self.secure.open(cohort)
        return [SecureGate(model, norms, round, **style) for model in models]

    def prepare(self, cohort: NDArray[np.int64]) -> Iterator[Chunk]:
        """Gather the cohort's users, a few chunks at a time."""
        together = self.chunk * GATHERED_CHUNKS
        for start in range(0, len(cohort), together):
            rows = to_rows(
                self.users.gather(cohort[start : start + together]),
                layout=self.shape.layout,
                length=self.shape.length,
                max_rows=self.shape.steps * self.shape.batch_size,
            )
            sizes, predictions = rows.sizes(), rows.predictions()
            order = np.argsort(-sizes, kind="stable")
            for first in range(0, len(order), self.chunk):
                chosen = order[first : first + self.chunk]
                tokens = pack(rows, chosen, batch_size=self.shape.batch_size, steps=self.shape.steps)
                yield self._chunk(tokens, int(sizes[chosen].max()), predictions[chosen])

    def _chunk(self, tokens: NDArray[np.int32], rows: int, predictions: NDArray[np.int64]) -> Chunk:
        """Pad to a full chunk."""
        missing = self.chunk - len(tokens)
        cap = self.plan.example_cap
        weights = np.minimum(predictions / cap, 1) if cap is not None else predictions > 0
        return Chunk(
            np.pad(tokens, ((0, missing), (0, 0), (0, 0), (0, 0))),
            -(-rows // self.shape.batch_size),
            np.pad(weights.astype(np.float32), (0, missing)),
            np.pad(np.ones(len(predictions), bool), (0, missing)),
        )


def _updates(work: Work, lanes: int, model: Any, tokens: jax.Array, steps: jax.Array, clip_norm: jax.Array) -> Any:
    return jax.lax.map(lambda one: work(model, one, steps, clip_norm), tokens, batch_size=lanes)
