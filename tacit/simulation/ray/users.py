"""The engine on Ray: cut a cohort into pieces, have them trained, and merge their sums in the order of the pieces.

**The same bytes with any number of workers.** A piece is cut from the cohort without regard to workers (`pieces.py`), and is
summed by one gate on one accelerator. Sums are added here in the order of the pieces, whoever computed them and whenever they
arrive. Workers of one kind compute the same sum for the same piece, so neither how many there are nor who was lost changes a
bit. (Accelerators of different kinds may round a product differently. Then the updates differ, as they do between any two
machines; each is clipped, so the guarantee holds.)

**The bound on rounding** (`tacit.privacy.gate.rounding`) holds for any order of addition of at most `MOST_USERS` contributions.
A partial sum is a sum of some of them, and merging adds each contribution once, so the merged sum is one such order.

The driver's part of a round is small: it sends the model once, adds up the partial sums, and computes the noise and the
server's step, on its CPU where the accelerators are the workers'.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.data.sharded import sharded
from tacit.data.users import Users
from tacit.errors import WorkerError
from tacit.learning.batches import Batching, user_by_user
from tacit.learning.secure_sums import SecureSums
from tacit.learning.work import UserWork, learned_by
from tacit.privacy.gate.sums import BoundedSum, ClipThresholds, Diagnostics, Gate
from tacit.privacy.plan import PrivacyPlan
from tacit.recipe.engine import Ray
from tacit.runs.callbacks import WorkersReport
from tacit.simulation.batched import require_proven
from tacit.simulation.engine import Synthetic
from tacit.simulation.placement import suitable_lanes, usual_cohort
from tacit.simulation.ray.pieces import Piece, cut, predicted_sizes, shards_of
from tacit.simulation.ray.pool import Pool, RayPool
from tacit.simulation.ray.worker import Measure, PieceEntropy, PieceTask, UsersSide
from tacit.simulation.secure_gate import SecureGate, open_round

_NOBODY = np.empty(0, np.int64)


@runtime_checkable
class InParts(Protocol):
    """An evaluation that several processes can share: `metrics` of the `sums` of its parts is what it measures."""

    def parts(self, count: int) -> Sequence[Any]: ...

    def metrics(self, sums: Sequence[Any]) -> Any: ...


class RayUsers:
    """Simulated users behind the gate, trained by worker processes; see `tacit.simulation.engine` for what it promises."""

    def __init__(
        self,
        users: Users,
        work: UserWork,
        plan: PrivacyPlan,
        shape: Batching,
        *,
        settings: Ray,
        parameters: int,
        chunk: int | None = None,
        secure: SecureSums | None = None,
        pool: Pool | None = None,
    ) -> None:
        self.users, self.work, self.plan, self.secure, self.settings = users, work, plan, secure, settings
        self.shape = user_by_user(shape)
        self.pool: Pool = RayPool(settings) if pool is None else pool
        self._parameters, self._wanted_chunk = parameters, chunk
        self.chunk = 0  # until the workers are there
        self._opened = False

    # Beginning and end.

    def open(self) -> None:
        """Start the workers and give them the users; TacitError for what would prevent a round."""
        if self._opened:
            return
        store = sharded(self.users)
        if store is not None and self._in_one_piece:
            raise WorkerError(
                f"The whole protocol of secure aggregation runs in one worker, and the store {store.path} lies in shards.",
                hint="Use the store that was cut, or set privacy.secagg.protocol to false.",
            )
        abouts = self.pool.open()
        try:
            a_piece = -(-usual_cohort(self.plan) // self._pieces)
            memory = [each.memory for each in abouts if each.memory is not None]
            self.chunk, lanes = suitable_lanes(
                self._parameters,
                a_piece,
                cpu=all(each.backend == "cpu" for each in abouts),
                memory=None if not memory else int(min(memory) * min(1, self.settings.gpus_per_worker or 1)),
                chunk=self._wanted_chunk,
            )
            shards = [] if store is None else store.trained()
            self.pool.prepare(
                UsersSide(self.users, self.work, self.plan, self.shape, self.chunk, lanes, self.secure), shards
            )
        except BaseException:
            self.pool.close()
            raise
        self._opened = True

    def close(self) -> None:
        """Stop the workers."""
        if self._opened:
            self._opened = False
            self.pool.close()

    # A round.

    def prepare(self, cohort: NDArray[np.int64]) -> Iterator[Piece]:
        """The pieces of the cohort. No user is read."""
        require_proven(self.plan, len(cohort))
        sizes, shards = predicted_sizes(self.users, cohort, self.shape), shards_of(self.users, cohort)
        yield from cut(cohort, sizes, chunk=self.chunk, pieces=self._pieces, shards=shards)

    def collect(
        self, broadcast: Any, cohort: Any, norms: ClipThresholds, canaries: Synthetic | None = None
    ) -> tuple[BoundedSum, list[Diagnostics]]:
        """Every user's work on the broadcast model, clipped, weighed and summed by workers, and merged here.

        `canaries` look at the merged sum, and a worker admits them through its gate, as a piece of their own.
        """
        self.open()
        pieces = list(cohort.chunks)
        total, name = self._gate(broadcast, cohort, norms), os.urandom(16).hex()
        tasks = [PieceTask(name, piece, norms, self._entropy(cohort, piece)) for piece in pieces]
        if canaries is not None:
            nobody = Piece(len(pieces), _NOBODY, 0.0, 0)
            tasks.append(PieceTask(name, nobody, norms, canaries=canaries.to_send()))
        diagnostics = []
        for done in self._in_order(tasks, broadcast):
            if canaries is not None and done.number == len(pieces):
                canaries.look([total.close()])
            else:
                diagnostics.append(Diagnostics(done.norms, done.clipped, np.ones(len(done.norms), bool)))  # type: ignore[arg-type]
            total.take(done.partial)
        return total.close(), diagnostics

    def spread(self, evaluate: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The evaluation by workers, if it can be cut into parts; into as many as a round, however many workers there are."""
        if not isinstance(evaluate, InParts):
            return evaluate
        parts = evaluate.parts(self.settings.pieces)

        def spread(model: Any) -> Any:
            self.open()
            name = os.urandom(16).hex()
            tasks = [Measure(number, name, part) for number, part in enumerate(parts)]
            return evaluate.metrics([done.value for done in self._in_order(tasks, model)])

        return spread

    def learned(self, model: Any) -> Any:
        """The subtree of the broadcast model that users update."""
        return learned_by(self.work, model)

    def report(self) -> WorkersReport | None:
        """How the workers do."""
        return self.pool.report()

    def idle_workers(self) -> str | None:
        """A warning if there are more workers than pieces of a round; None otherwise. The engine is open."""
        report = self.pool.report()
        workers = max(0 if report is None else report.workers, self.settings.workers or 0)
        if self._in_one_piece or workers <= self._pieces:
            return None
        return (
            f"With engine.pieces = {self._pieces}, a round keeps at most {self._pieces} of {workers} workers busy: set it to "
            f"about {3 * workers}."
        )

    def update_bound(self, clip: float) -> float:
        """The bound on one user's share of the sum of updates that are clipped to this norm."""
        return clip if self.secure is None else self.secure.bound(clip)

    @property
    def _pieces(self) -> int:
        """Into how many pieces a round is cut."""
        return 1 if self._in_one_piece else self.settings.pieces

    @property
    def _in_one_piece(self) -> bool:
        """Whether the whole protocol of secure aggregation runs among the users of a round."""
        return self.secure is not None and self.secure.section.protocol

    def _in_order(self, tasks: Sequence[PieceTask | Measure], broadcast: Any) -> Iterator[Any]:
        """The results in the order of the pieces, each as soon as those before it are there."""
        if not tasks:
            return
        early: dict[int, Any] = {}
        following = 0
        for done in self.pool.do(tasks, self.pool.broadcast(broadcast)):
            early[done.number] = done
            while following in early:
                yield early.pop(following)
                following += 1

    def _gate(self, broadcast: Any, cohort: Any, norms: ClipThresholds) -> Any:
        """An empty gate on this process's first device, for the partial sums."""
        template = jax.tree.map(np.asarray, self.learned(broadcast))
        template = jax.device_put(template, jax.devices()[0])
        style: dict[str, Any] = {"style": self.plan.clipping, "weighted": self.plan.weighted}
        if self.secure is None:
            return Gate(template, norms, **style)
        return SecureGate(template, norms, open_round(self.secure, cohort), **style)

    def _entropy(self, cohort: Any, piece: Piece) -> PieceEntropy | None:
        """Secrets for the users of a piece, where secure sums need them."""
        if self.secure is None:
            return None
        shared = {purpose: cohort.entropy(purpose) for purpose in ("rotation", "rounding")}
        return PieceEntropy(shared, cohort.entropy(f"piece {piece.number}"))
