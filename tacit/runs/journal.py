"""Writes a round to disk, in an order that survives a crash at any point.

Before a round touches users, the cohort's record is written to disk, and then the ledger's intent, which holds its digest.
Before either, the run's reservation in the account of these people covers the round (`tacit.runs.budget`).
After the round, numbers are fetched from the accelerator two rounds late, so that nothing waits for it. The schedule says in
which rounds the model is evaluated, and in which a checkpoint is written and committed in the ledger. Nothing that depends on
a round is written or shown before its intent is on disk, and the store's odometer and the run's witness have recorded a head
of the ledger that includes it (`tacit.runs.heads`): otherwise a copy of the run folder could go on as if the round had not
happened.
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

from tacit.errors import DivergedError, PrivacyError, WitnessError
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
from tacit.runs.heads import Heads
from tacit.runs.metrics import EPSILON_SO_FAR, MetricsWriter, read_metrics

if TYPE_CHECKING:
    from tacit.privacy.gate.sums import ClipThresholds

# How many rounds the accelerator may be ahead of the rounds whose numbers were fetched.
LAG = 2
NORM_QUANTILES = (0.1, 0.5, 0.9)
# Evaluations are rare if there are at least so many rounds between them; then these rounds are evaluated, too.
RARE, EARLY = 5, (0, 1, 2, 5, 10)


@dataclass(frozen=True)
class Schedule:
    """How many rounds there are, and after how many of them the model is evaluated and saved each time.

    If evaluations are rare, the model is also evaluated before the first round and after the first few, so that there is
    something to see. Nothing about training depends on it.

    With `save_first` a round is saved before it is evaluated, so that nothing of it is shown before its checkpoint is durable.
    """

    rounds: int
    evaluate_every: int
    checkpoint_every: int
    save_first: bool = False

    @property
    def early(self) -> tuple[int, ...]:
        """The rounds after which the model is evaluated beside the usual pace; 0 is before the first round."""
        return tuple(round for round in EARLY if round < self.evaluate_every) if self.evaluate_every >= RARE else ()

    def evaluates(self, round: int) -> bool:
        """Whether the model is evaluated after so many rounds."""
        return round == self.rounds or round % self.evaluate_every == 0 or round in self.early


class RunJournal:
    """Records a run as it happens. The ledger's lock allows one process at a time."""

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
        heads: Heads,
        admit: Callable[[list[Intent], int], None],
        confirm: Callable[[], None],
        settle: Callable[[], None],
        notifier: Notifier,
        settled: Callable[[int], None] = lambda rounds_done: None,
        unfinished: tuple[int, int, np.ndarray] | None = None,
    ) -> None:
        """`unfinished`: round, attempt and users of the last intent, if the run goes on with the sum that was begun then.

        `admit` is called before an intent with those so far and its round, and raises if the people's budget does not suffice
        for it; `confirm` when the intent is on disk; `settle` when the run has ended.
        """
        self._folder, self._ledger, self._plan, self._schedule = folder, ledger, plan, schedule
        self._to_arrays, self._evaluate, self._notifier = to_arrays, evaluate, notifier
        self._cost_so_far, self._update_bound = cost_so_far, update_bound
        self._heads, self._settled = heads, settled
        self._admit, self._confirm, self._end_reservation = admit, confirm, settle
        self._sampling = plan.sampling_constants
        self._participation = ParticipationWriter(folder.participation_path)
        self._metrics = MetricsWriter(folder.metrics_path)
        self._diagnostics = MetricsWriter(folder.diagnostics_path, mode=0o600)
        self._pending: deque[tuple[Any, list[Any]]] = deque()
        self._started = time.monotonic()
        self.intents = list(ledger.ledger.intents)
        self._opened = ledger.ledger.digests()[0]
        self.stop_requested = False
        self._unfinished = unfinished

    def start(self, round: int) -> None:
        """Call `on_start` before the rounds from `round` on run; if a callback fails, no round runs."""
        plan = json.loads(json.dumps(self._ledger.ledger.opened.plan))
        run = RunStart(self._folder.path.name, self._folder.run_id, plan, self._schedule.rounds, round)
        self._notifier.start(run)
        if self._stopping:
            self._stop()

    def begin(self, state: Any) -> None:
        """Evaluate the model before the first round, so that curves begin with the model that the run starts from."""
        if next(read_metrics(self._folder.metrics_path), None) is None:
            self._note(state)
            if self._stopping:
                self._stop()

    def before(self, cohort: Any, norms: ClipThresholds) -> None:
        """Write the intent to disk; nothing, if it is there and the run goes on with its sum."""
        if self._unfinished is not None:
            number, attempt, users = self._unfinished
            if (cohort.round, cohort.attempt) != (number, attempt) or not np.array_equal(np.sort(cohort.users), users):
                raise PrivacyError(f"Expected the cohort that round {number} was begun with, got another one.")
            self._unfinished = None
            return
        self._admit(self.intents, cohort.round)
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
        self._confirm()

    def after(self, state: Any, diagnostics: list[Any]) -> None:
        """Fetch the numbers of finished rounds; evaluate and save when the schedule says so."""
        self._pending.append((state, diagnostics))
        last = state.round == self._schedule.rounds
        evaluate = self._schedule.evaluates(state.round)
        save = last or state.round % self._schedule.checkpoint_every == 0 or self._stopping
        self._settle(all=evaluate or save)
        saved = save and self._schedule.save_first
        if saved:
            self._save(state)
        if evaluate:
            self._note(state)
        stop = self._stopping and not last
        if stop and not save:  # requested after this round's numbers were fetched
            self._settle(all=True)
        if (save or stop) and not saved:
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
        """Write how the run ended, and close its files."""
        self._ledger.append(Closed(self._ledger.ledger.next_round, outcome))
        self._warn(self._heads.record_end(self._ledger))
        self._end_reservation()
        self.release()

    def _record_head(self) -> None:
        """Record that every round so far was begun. If a required witness does not sign, the run stops before they show."""
        try:
            self._warn(self._heads.record(self._ledger))
        except WitnessError:
            self._ledger.append(Closed(self._ledger.ledger.next_round, "stopped"))
            self.release()
            self._notifier.end(RunEnd("stopped"))
            raise

    def _warn(self, sentence: str | None) -> None:
        if sentence is not None:
            self._notifier.warning(sentence)

    def release(self) -> None:
        """Close the files, whatever happened."""
        for writer in (self._participation, self._metrics, self._diagnostics, self._ledger):
            writer.close()

    @property
    def _stopping(self) -> bool:
        return self.stop_requested or self._notifier.error is not None

    def _stop(self) -> NoReturn:
        """Stop the run so that it can be resumed; raises the callback's error if that is the reason."""
        self.close("stopped")
        self._notifier.end(RunEnd("stopped"))
        raise self._notifier.error or StopRequested

    def _note(self, state: Any) -> None:
        """Evaluate a model and write the metrics."""
        record = {
            "round": state.round,
            "measured_on": "held-out users, outside the guarantee",
            **self._evaluate(state.result),
            EPSILON_SO_FAR: self._cost_so_far(self.intents).epsilon,
        }
        written = self._metrics.append(record)
        if not all(math.isfinite(float(record.get(name, 0.0))) for name in ("perplexity", "loss")):
            self._diverged(state.round)
        self._notifier.evaluation(written.pop("round"), written)

    def _settle(self, *, all: bool) -> None:
        """Fetch the numbers of finished rounds; of all rounds, before anything is shown or saved."""
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
        self._record_head()  # whether the model is finite depends on the round
        kept = checkpoints.rounds_kept(self._folder.checkpoints_path)
        where = f"the checkpoint after {kept[-1]} rounds is kept" if kept else "there is no checkpoint yet"
        self.close("diverged")
        checkpoints.remove_all(self._folder.private_path)  # the noise state, as secret as the noise
        self._notifier.end(RunEnd("diverged"))
        raise DivergedError(
            f"Training diverged by round {round}: the model, or what it computes, is not finite; {where}.",
            hint="Lower server.learning_rate, server.momentum or work.learning_rate, or clip harder. If the first evaluation "
            "is not finite, check the loss on one batch.",
        ) from self._notifier.error

    def _nobody_is_finite(self, diagnostics: list[Any]) -> bool:
        """Whether every update overflowed, so that the model cannot change. Checked only if no privacy is claimed."""
        if self._plan.claims or not diagnostics:
            return False
        norms, _ = _of_those_present(diagnostics)
        return len(norms) > 0 and not np.isfinite(norms).any()

    def _diagnose(self, round: int, diagnostics: list[Any]) -> None:
        """Write norms and the clipped share: only in a simulation, outside the guarantee, and marked as such."""
        if not diagnostics:
            return
        norms, clipped = _of_those_present(diagnostics)
        finite = norms[np.isfinite(norms)]
        self._diagnostics.append(
            {
                "round": round,
                "outside_the_guarantee": True,
                # How long a round takes depends on users' data, so only the owner may know it.
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
            # The digest binds the two files, so that no checkpoint is resumed with the noise state of another one.
            saved[NOISE] = checkpoints.save(self._folder.private_path, state.round, private, {}, mode=0o600)
        digest = checkpoints.save(self._folder.checkpoints_path, state.round, public, saved)
        self._ledger.append(Committed(state.round, digest))


def _of_those_present(diagnostics: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Norms and clip flags of the users who were present; absent users only pad a chunk."""
    chunks = [np.asarray(each.present) for each in diagnostics]
    norms = [np.asarray(each.norms)[present] for each, present in zip(diagnostics, chunks, strict=True)]
    clipped = [np.asarray(each.clipped)[present] for each, present in zip(diagnostics, chunks, strict=True)]
    return np.concatenate(norms), np.concatenate(clipped)


def _quantiles(values: np.ndarray) -> list[float]:
    return [float(q) for q in np.quantile(values, NORM_QUANTILES)] if len(values) else [math.nan] * len(NORM_QUANTILES)
