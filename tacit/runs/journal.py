"""What makes a round durable, and in which order.

Before a round touches users: the cohort's record is on disk, then the intent in the ledger that is bound to it. After the
round: numbers are fetched from the device two rounds late, so that nothing waits for it; every so many rounds the model
is evaluated, and every so many a checkpoint is written and committed in the ledger. Nothing that depends on a round is
written or shown before its intent is durable, and before the store's odometer knows a head of the ledger that holds it
(`record_head`): otherwise a copy of the run folder could go on as if the round had not been.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tacit.errors import DivergedError
from tacit.privacy.accounting.noise_split import BIT_BOUND
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.participation.log import ParticipationWriter
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.ledger import LedgerWriter
from tacit.privacy.record.records import UPDATE, WEIGHT, WITHIN, Closed, Committed, Intent
from tacit.runs import checkpoints
from tacit.runs.callbacks import Notifier, RunEnd, RunStart, StopRequested
from tacit.runs.consistency import OPENED
from tacit.runs.folder import NOISE, RunFolder
from tacit.runs.metrics import EPSILON_SO_FAR, MetricsWriter, read_metrics

if TYPE_CHECKING:
    from tacit.privacy.gate.sums import ClipThresholds

# How many rounds the device may be ahead of what has been looked at.
LAG = 2
NORM_QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Schedule:
    """How many rounds there are, and every how many the model is measured and saved."""

    rounds: int
    evaluate_every: int
    checkpoint_every: int


class RunJournal:
    """Writes a run down as it happens. One process at a time holds it, through the ledger's lock."""

    def __init__(
        self,
        folder: RunFolder,
        ledger: LedgerWriter,
        plan: PrivacyPlan,
        schedule: Schedule,
        *,
        to_arrays: Callable[[Any], tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]],
        evaluate: Callable[[Any], Mapping[str, float]],
        cost_so_far: Callable[[list[Intent]], Spent],
        update_bound: Callable[[float], float],
        record_head: Callable[[], None],
        notifier: Notifier,
        settled: Callable[[int], None] = lambda rounds_done: None,
    ) -> None:
        self._folder, self._ledger, self._plan, self._schedule = folder, ledger, plan, schedule
        self._to_arrays, self._evaluate, self._notifier = to_arrays, evaluate, notifier
        self._cost_so_far, self._update_bound = cost_so_far, update_bound
        self._record_head, self._settled = record_head, settled
        self._sampling = plan.sampling_constants
        self._participation = ParticipationWriter(folder.participation_path)
        self._metrics = MetricsWriter(folder.metrics_path)
        self._diagnostics = MetricsWriter(folder.diagnostics_path, mode=0o600)
        self._pending: deque[tuple[Any, list[Any]]] = deque()
        self._started = time.monotonic()
        self.intents = list(ledger.ledger.intents)
        self._opened = ledger.ledger.digests()[0]
        self.stop_requested = False

    def start(self, round: int) -> None:
        """Tell callbacks that the rounds from `round` on are about to run; if one of them fails, no round does."""
        plan = json.loads(json.dumps(self._ledger.ledger.opened.plan))
        run = RunStart(self._folder.path.name, self._folder.run_id, plan, self._schedule.rounds, round)
        self._notifier.start(run)
        if self._stopping:
            self._stop()

    def begin(self, state: Any) -> None:
        """Evaluate the model that the first round starts from, once: a curve then begins where pre-training left it."""
        if next(read_metrics(self._folder.metrics_path), None) is None:
            self._note(state)
            if self._stopping:
                self._stop()

    def before(self, cohort: Any, norms: ClipThresholds) -> None:
        """Make the intent durable."""
        digest = self._participation.append(cohort.round, cohort.attempt, cohort.users)
        bound = self._update_bound(norms.clip)
        bounds = {UPDATE: bound if math.isfinite(bound) else None, WEIGHT: 1.0, WITHIN: BIT_BOUND}
        intent = Intent(
            round=cohort.round,
            attempt=cohort.attempt,
            sampling=self._sampling,
            blocks={
                name: {"bound": bounds[name], "noise_multiplier": z} for name, z in self._plan.noise_multipliers.items()
            },
            denominator=self._plan.denominator,
            participation=digest,
            restart=cohort.round in self._plan.restarts,
        )
        self._ledger.append(intent)
        self.intents.append(intent)

    def after(self, state: Any, diagnostics: list[Any]) -> None:
        """Look at what the device has finished; evaluate and save where it is due."""
        self._pending.append((state, diagnostics))
        last = state.round == self._schedule.rounds
        evaluate = last or state.round % self._schedule.evaluate_every == 0
        save = last or state.round % self._schedule.checkpoint_every == 0 or self._stopping
        self._settle(all=evaluate or save)
        if evaluate:
            self._note(state)
        stop = self._stopping and not last
        if stop and not save:  # asked for since this round was settled
            self._settle(all=True)
        if save or stop:
            self._save(state)
        if stop:
            self._stop()

    def before_showing(self) -> None:
        """Called before somebody outside sees the model of the last round: the odometer knows the round first."""
        self._record_head()

    def stop(self, state: Any) -> None:
        """Save the state after the last round and close the run, which can be resumed from there."""
        self._settle(all=True)
        if self._ledger.ledger.rounds_committed < state.round:
            self._save(state)
        self.close("stopped")

    def close(self, outcome: str) -> None:
        """Write how the run ended and let go of it."""
        self._ledger.append(Closed(self._ledger.ledger.next_round, outcome))
        self._record_head()
        self.release()

    def release(self) -> None:
        """Let go of the files, whatever happened."""
        for writer in (self._participation, self._metrics, self._diagnostics, self._ledger):
            writer.close()

    @property
    def _stopping(self) -> bool:
        return self.stop_requested or self._notifier.error is not None

    def _stop(self) -> NoReturn:
        """Leave the run so that it can be resumed; raises the error of a callback, where that is why."""
        self.close("stopped")
        self._notifier.end(RunEnd("stopped"))
        raise self._notifier.error or StopRequested

    def _note(self, state: Any) -> None:
        """Evaluate a model and write down what came out."""
        record = {
            "round": state.round,
            "measured_on": "held-out users, outside the guarantee",
            **self._evaluate(state.model),
            EPSILON_SO_FAR: self._cost_so_far(self.intents).epsilon,
        }
        written = self._metrics.append(record)
        if not math.isfinite(float(record.get("perplexity", 0.0))):
            self._diverged(state.round)
        self._notifier.evaluation(written.pop("round"), written)

    def _settle(self, *, all: bool) -> None:
        """Look at the rounds that the device has finished; at all of them before something is shown or saved."""
        if all:
            self._record_head()
        while len(self._pending) > (0 if all else LAG):
            state, diagnostics = self._pending.popleft()
            if not bool(state.finite) or self._nobody_is_finite(diagnostics):
                self._diverged(state.round)
            self._diagnose(state.round, diagnostics)
            self._settled(state.round)
            self._notifier.round(state.round, self._schedule.rounds)

    def _diverged(self, round: int) -> NoReturn:
        kept = checkpoints.rounds_kept(self._folder.checkpoints_path)
        where = f"the checkpoint after {kept[-1]} rounds is kept" if kept else "there is no checkpoint yet"
        self.close("diverged")
        checkpoints.remove_all(self._folder.private_path)  # what was left of the noise
        self._notifier.end(RunEnd("diverged"))
        raise DivergedError(
            f"Training diverged by round {round}: the model, or what it computes, is not finite; {where}.",
            hint="Lower server.learning_rate, server.momentum or work.learning_rate, or clip harder.",
        ) from self._notifier.error

    def _nobody_is_finite(self, diagnostics: list[Any]) -> bool:
        """Every update overflowed, so the model stands still. Looked at only where no privacy is claimed."""
        if self._plan.claims or not diagnostics:
            return False
        norms, _ = _of_those_present(diagnostics)
        return len(norms) > 0 and not np.isfinite(norms).any()

    def _diagnose(self, round: int, diagnostics: list[Any]) -> None:
        """Norms and the clipped share: allowed in a simulation, outside the guarantee, and marked so."""
        if not diagnostics:
            return
        norms, clipped = _of_those_present(diagnostics)
        finite = norms[np.isfinite(norms)]
        self._diagnostics.append(
            {
                "round": round,
                "outside_the_guarantee": True,
                # How long users take depends on what they hold, so the time is the owner's to know.
                "seconds": time.monotonic() - self._started,
                "users": len(norms),
                "clipped": float(clipped.mean()),
                "not_finite": len(norms) - len(finite),
                "norm_quantiles": dict(zip(map(str, NORM_QUANTILES), _quantiles(finite), strict=True)),
            }
        )

    def _save(self, state: Any) -> None:
        public, private = self._to_arrays(state)
        saved = {OPENED: self._opened}
        if private:
            # The digest binds the two files, so that a checkpoint never goes on with the noise of another time.
            saved[NOISE] = checkpoints.save(self._folder.private_path, state.round, private, {}, mode=0o600)
        digest = checkpoints.save(self._folder.checkpoints_path, state.round, public, saved)
        self._ledger.append(Committed(state.round, digest))


def _of_those_present(diagnostics: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The norms, and whether they were clipped, without the absent users that pad a chunk."""
    chunks = [np.asarray(each.present) for each in diagnostics]
    norms = [np.asarray(each.norms)[present] for each, present in zip(diagnostics, chunks, strict=True)]
    clipped = [np.asarray(each.clipped)[present] for each, present in zip(diagnostics, chunks, strict=True)]
    return np.concatenate(norms), np.concatenate(clipped)


def _quantiles(values: np.ndarray) -> list[float]:
    return [float(q) for q in np.quantile(values, NORM_QUANTILES)] if len(values) else [math.nan] * len(NORM_QUANTILES)
