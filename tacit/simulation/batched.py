"""Simulate whole cohorts on one machine: users in chunks, each chunk one compiled call.

A chunk holds a fixed number of users of similar size; chunks go to the machine's accelerators in turn. Local steps run in
lockstep for as many users as suit the accelerator (`placement.py`), in a loop that ends with the chunk's largest user. Batches
are padded to about the size of the users in the chunk, not to the cap. Work whose steps on padding are not known to change
nothing gets each user's own number of steps. Updates go directly into the accelerator's gate, and the chunk's memory is reused.
Short chunks are padded with absent users of weight 0. No call waits for a GPU; CPU cores get a thread each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.data.sharded import sharded
from tacit.data.users import Examples, Users
from tacit.errors import DataError, PrivacyError
from tacit.learning.batches import Batching, LaidOut, user_by_user
from tacit.learning.purity import may_be_impure, require_pure
from tacit.learning.secure_sums import SecureSums
from tacit.learning.trainable import EVERYTHING, place
from tacit.learning.work import UserWork, ignores_padding, learned_by, reads_one_batch_at_a_time, require_update_of
from tacit.privacy.gate.rounding import MOST_USERS
from tacit.privacy.gate.sums import BoundedSum, ClipThresholds, Contributions, Diagnostics, Gate
from tacit.privacy.plan import PrivacyPlan
from tacit.runs.gate_audit.layout import MOST_CANARIES
from tacit.simulation.engine import Synthetic
from tacit.simulation.placement import Spread
from tacit.simulation.secure_gate import SecureGate, open_round

# The number of chunks that are gathered together and sorted by size, so that users of similar size share a chunk.
GATHERED_CHUNKS = 8


@dataclass(frozen=True)
class Chunk:
    """Users' examples as batches [users, steps, rows, ...], and how many batches each of them has."""

    batches: Any
    own_steps: NDArray[np.int32]
    weights: NDArray[np.float32]
    present: NDArray[np.bool_]

    @property
    def steps(self) -> int:
        """The largest number of batches that a user has."""
        return int(self.own_steps.max(initial=0))


class BatchedUsers:
    """Simulated users behind the gate; with `secure`, behind a gate that sums integers, as secure aggregation does."""

    def __init__(
        self,
        users: Users,
        work: UserWork,
        plan: PrivacyPlan,
        shape: Batching,
        spread: Spread,
        secure: SecureSums | None = None,
    ) -> None:
        self.users, self.plan, self.chunk, self.secure = users, plan, spread.chunk, secure
        self.shape = user_by_user(shape)
        self.work, self._devices, self._lanes = work, spread.devices, spread.lanes
        self._updates: Callable[[Any, Any, Any, Any], Any] | None = None
        self._known_pure = not plan.claims
        # Other work may look at all batches together, so their number is the same for all users: the cap.
        self._trims = reads_one_batch_at_a_time(work)

    def collect(
        self, broadcast: Any, cohort: Any, norms: ClipThresholds, canaries: Synthetic | None = None
    ) -> tuple[BoundedSum, list[Diagnostics]]:
        """Every user's work on the broadcast model, clipped, weighed and summed.

        `canaries` look at the sums of all users, and are then admitted through the last accelerator's gate.
        """
        gates, diagnostics = self.admitted(broadcast, cohort, norms)
        if canaries is not None:
            canaries.look([gate.close() for gate in gates])
            canaries.admit(gates[-1])
        for gate in gates[1:]:
            gates[0].merge(gate)
        return _at_home(gates[0].close()), diagnostics

    def admitted(
        self, broadcast: Any, cohort: Any, norms: ClipThresholds, first: int = 0
    ) -> tuple[list[Any], list[Diagnostics]]:
        """The gates, one an accelerator, that have admitted these users, whose indices in the round begin at `first`."""
        models = [place(broadcast, device) for device in self._devices]
        gates = self._gates(models, cohort, norms, first)
        diagnostics = []
        for number, (chunk, updates) in enumerate(self._trained(broadcast, models, cohort, norms)):
            contributions = Contributions(updates, chunk.weights, chunk.present)
            diagnostics.append(gates[number % len(gates)].admit(contributions))
        return gates, diagnostics

    def _trained(
        self, broadcast: Any, models: list[Any], cohort: Any, norms: ClipThresholds
    ) -> Iterator[tuple[Any, Any]]:
        """Each chunk with its users' updates, in order. CPU cores get a thread each, because a call on one of them (`cores.py`)
        returns when it is done, and about two chunks a core wait for the gate."""
        updates_of = self._compiled(broadcast)

        def train(chunk: Chunk, turn: int) -> Any:
            batches = jax.device_put(chunk.batches, self._devices[turn])
            steps = np.int32(chunk.steps) if ignores_padding(self.work) else chunk.own_steps
            return updates_of(models[turn], batches, steps, np.float32(norms.clip))

        if len(models) == 1 or self._devices[0].platform != "cpu":
            for number, chunk in enumerate(cohort.chunks):
                self._require_pure(broadcast, chunk, norms)
                yield chunk, train(chunk, number % len(models))
            return
        ahead: deque[tuple[Chunk, Future[Any]]] = deque()
        with ThreadPoolExecutor(len(models)) as threads:
            for number, chunk in enumerate(cohort.chunks):
                self._require_pure(broadcast, chunk, norms)
                ahead.append((chunk, threads.submit(train, chunk, number % len(models))))
                if len(ahead) > 2 * len(models):
                    done, updates = ahead.popleft()
                    yield done, updates.result()
            for done, updates in ahead:
                yield done, updates.result()

    def _compiled(self, model: Any) -> Callable[[Any, Any, Any, Any], Any]:
        """The work of a chunk of users, compiled; shared with later runs whose work is equal and Tacit's own.

        Other code may have changed between two runs in a way that equality does not show: it is compiled for each run.
        """
        if self._updates is None:
            own = ignores_padding(self.work) and type(model).__module__.startswith("tacit.")
            own = own and getattr(self.work, "trainable", EVERYTHING) == EVERYTHING
            self._updates = (_shared_updates_of if own else _updates_of)(self.work, self._lanes)
        return self._updates

    def _require_pure(self, model: Any, chunk: Chunk, norms: ClipThresholds) -> None:
        """PrivacyError if work that is not Tacit's own calls code on the host; looked at once, and where privacy is claimed."""
        if not self._known_pure and may_be_impure(self.work, model):
            one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), chunk.batches)
            require_pure(self.work, model, one, np.float32(norms.clip))
        self._known_pure = True

    def learned(self, model: Any) -> Any:
        """The subtree of the broadcast model that users update."""
        return learned_by(self.work, model)

    def spread(self, evaluate: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The evaluation as it is: this process computes it."""
        return evaluate

    def open(self) -> None:
        """This process is ready; StoreError if the users lie in shards that are not all on this machine."""
        store = sharded(self.users)
        if store is not None:
            store.require_here()

    def close(self) -> None:
        """Nothing to give back."""

    def update_bound(self, clip: float) -> float:
        """The bound on one user's share of the sum of updates that are clipped to this norm."""
        return clip if self.secure is None else self.secure.bound(clip)

    def _gates(self, models: list[Any], cohort: Any, norms: ClipThresholds, first: int) -> list[Any]:
        """One gate per accelerator, for the subtree that users update."""
        learned = [self.learned(model) for model in models]
        style: dict[str, Any] = {"style": self.plan.clipping, "weighted": self.plan.weighted}
        if self.secure is None:
            return [Gate(part, norms, **style) for part in learned]
        round = open_round(self.secure, cohort, first)
        return [SecureGate(part, norms, round, **style) for part in learned]

    def prepare(self, cohort: NDArray[np.int64]) -> Iterator[Chunk]:
        """Gather the cohort's users, a few chunks at a time; PrivacyError if rounding is not proven for so many users."""
        require_proven(self.plan, len(cohort))
        together = self.chunk * GATHERED_CHUNKS
        for start in range(0, len(cohort), together):
            laid_out = self.shape.lay_out(self._gather(cohort[start : start + together]))
            order = np.argsort(-laid_out.sizes, kind="stable")
            for chosen in self._chunks(laid_out, order):
                batches = laid_out.as_needed(chosen, self.shape.batch_size) if self._trims else laid_out.batches(chosen)
                yield self._chunk(batches, laid_out.sizes[chosen], laid_out.predictions[chosen])

    def _chunks(self, laid_out: LaidOut, order: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Users in this order, a chunk at a time. All users of a chunk need the same padding, so the shape with which a user's
        work is compiled depends on that user alone: two compilations might round differently."""
        needed = laid_out.needed(self.shape.batch_size)[order] if self._trims else np.zeros(len(order), np.int64)
        for alike in np.split(order, np.flatnonzero(np.diff(needed)) + 1):
            for first in range(0, len(alike), self.chunk):
                yield alike[first : first + self.chunk]

    def _gather(self, cohort: NDArray[np.int64]) -> Examples:
        """The examples of these users. DataError if there are more or fewer users: one who was not drawn would count."""
        examples = self.users.gather(cohort)
        offsets = np.asarray(examples.user_offsets)
        if offsets.shape != (len(cohort) + 1,) or np.any(np.diff(offsets) < 0):
            raise DataError(
                f"{type(self.users).__name__}.gather did not return the examples of the users that it was asked for.",
                hint="user_offsets has one number more than there are users asked for, and they ascend.",
            )
        return examples

    def _chunk(self, batches: Any, rows: NDArray[np.int64], predictions: NDArray[np.int64]) -> Chunk:
        """Pad to a full chunk."""
        missing = self.chunk - len(predictions)
        cap = self.plan.example_cap
        weights = np.minimum(predictions / cap, 1) if cap is not None else predictions > 0
        return Chunk(
            jax.tree.map(lambda leaf: _padded(leaf, missing), batches),
            _padded((-(-rows // self.shape.batch_size)).astype(np.int32), missing),
            _padded(weights.astype(np.float32), missing),
            _padded(np.ones(len(predictions), bool), missing),
        )


def _at_home(bounded: BoundedSum) -> BoundedSum:
    """The sum on the device on which the server's step computes."""
    home = jax.devices()[0]
    with jax.enable_x64(True):
        return BoundedSum(
            {name: replace(each, total=jax.device_put(each.total, home)) for name, each in bounded.blocks.items()}
        )


def require_proven(plan: PrivacyPlan, users: int) -> None:
    """PrivacyError if the plan claims privacy and rounding is not proven for so many users in a round."""
    if plan.claims and users + MOST_CANARIES > MOST_USERS:
        raise PrivacyError(
            f"Rounding is proven for at most {MOST_USERS - MOST_CANARIES:,} users in a round, and this round has more.",
            hint="There are more users than privacy.population states: raise it, or lower privacy.cohort.",
        )


def _padded(values: NDArray[Any], missing: int) -> NDArray[Any]:
    """The values and so many zeros; most chunks are full, and `np.pad` would take longer than all the rest of a small one."""
    if missing == 0:
        return values
    return np.concatenate([values, np.zeros((missing, *values.shape[1:]), values.dtype)])


def _updates_of(work: UserWork, lanes: int) -> Callable[[Any, Any, Any, Any], Any]:
    """The work of a chunk of users, compiled; functions and other leaves of a model that are not arrays are constants.

    `steps` is one number for all, or each user's own [users].
    """

    @eqx.filter_jit
    def updates(model: Any, batches: Any, steps: jax.Array, clip_norm: jax.Array) -> Any:
        learned = learned_by(work, model)

        def of_user(one: Any, steps: jax.Array) -> Any:
            return require_update_of(learned, work(model, one, steps, clip_norm))

        if jnp.ndim(steps) == 0:
            return jax.lax.map(lambda one: of_user(one, steps), batches, batch_size=lanes)
        return jax.lax.map(lambda pair: of_user(*pair), (batches, steps), batch_size=lanes)

    return updates


_shared_updates_of = lru_cache(maxsize=16)(_updates_of)
