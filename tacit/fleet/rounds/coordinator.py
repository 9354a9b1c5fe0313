"""Starts a run on devices and continues it from the ledger after every failure, while it holds the lease.

The run uses the same loop, ledger and mechanisms as a simulation, with `DeviceRounds` in place of simulated cohorts. The run
folder is authoritative. After a failure (of the database, the disk, a process, the lease) the coordinator releases the lease,
waits, and continues from the ledger; another process that gets the lease and can read the folder does the same. The run's own
record says who took part; the database's copy is made to agree with it before the first round.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tacit.errors import BudgetError, DivergedError, FleetError, RunError, WitnessError
from tacit.files import is_being_written, write_atomic
from tacit.fleet.database import leases, task_table
from tacit.fleet.database.budget_table import FleetAccount
from tacit.fleet.database.heartbeat import Heartbeat
from tacit.fleet.database.leases import Lease, LeaseLost
from tacit.fleet.database.transactions import may_pass
from tacit.fleet.rounds.evaluation import evaluated_model, evaluation_program
from tacit.fleet.rounds.fleet_context import FleetContext, Log, RunLink, enough_room_in
from tacit.fleet.rounds.peers import Peers
from tacit.fleet.rounds.program import FleetProgram
from tacit.fleet.rounds.round_attempt import RoundLost
from tacit.fleet.rounds.task_compiler import (
    PreparedTask,
    checkpoint_bytes,
    prepare,
    prepare_discovery,
    prepare_evaluation,
)
from tacit.fleet.wire.blobs import sha256_of
from tacit.fleet.wire.task import DeviceTask
from tacit.learning.secure_sums import SecureSums
from tacit.recipe.sections import FleetSection
from tacit.recipe.training import Recipe
from tacit.runs import odometer
from tacit.runs.budget.listed import charge_of_ledger
from tacit.runs.budget.reservation import Reservation
from tacit.runs.callbacks import Callback
from tacit.runs.driver import begin, go_on
from tacit.runs.finding import is_run
from tacit.runs.folder import RunFolder
from tacit.runs.journal import StopRequested
from tacit.runs.metrics import EPSILON_SO_FAR
from tacit.runs.provenance import with_reasons
from tacit.training.letter_discovery import LettersSetup
from tacit.training.pretraining import open_public
from tacit.training.recipes import RecipeSetup, setup_of

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
# In the run folder: the task description that devices download; the files it names are beside it.
_TASK = "task.json"


class Coordinator:
    """Runs one recipe while it holds the lease."""

    def __init__(
        self,
        engine: Engine,
        recipe: Recipe,
        out: Path,
        *,
        heartbeat: Heartbeat,
        peers: Peers,
        transport: str,
        stopping: threading.Event,
        log: Log,
        odometer: Path,
    ) -> None:
        if recipe.fleet is None:
            raise FleetError(f"Expected a recipe with a [fleet] section, got {recipe.name!r}, which has none.")
        self._engine, self._recipe, self._section, self._out = engine, recipe, recipe.fleet, out
        self._heartbeat, self._peers, self._transport = heartbeat, peers, transport
        self._stopping, self._log, self._odometer = stopping, log, odometer
        self._setup: RecipeSetup | None = None
        self._lost: str | None = None

    def run(self) -> dict[str, Any] | None:
        """Coordinate until the run is finished (returns its summary) or the process is to stop (returns None)."""
        pause, waits = _FIRST_PAUSE_S, False
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                lease = self._heartbeat.acquire(f"run:{self._recipe.name}")
                if lease is None:
                    if not waits:
                        self._log("waiting for the lease: another process coordinates")
                    waits = True
                    self._stopping.wait(leases.RENEW_S)
                    continue
                waits = False
                return self._lead(lease)
            except StopRequested:
                return None
            except (SQLAlchemyError, LeaseLost, RoundLost, OSError, RunError) as error:
                if not self._is_temporary(error):
                    raise
                self._lost = error.sentence if isinstance(error, RoundLost) else None
                self._log("continuing from the ledger after a failure", cause=type(error).__name__, pause_s=pause)
            finally:
                self._heartbeat.release()
            self._stopping.wait(pause)
            # Start again with a short pause after a long success; after a quick failure the pause grows.
            lasted = time.monotonic() - began > _LONGEST_PAUSE_S
            pause = _FIRST_PAUSE_S if lasted else min(2 * pause, _LONGEST_PAUSE_S)
        return None

    def _lead(self, lease: Lease) -> dict[str, Any] | None:
        """Begin or continue the run until it ends."""
        folder = self._folder()
        if folder.begun and (closed := folder.ledger().closed) is not None and closed.outcome == "finished":
            # In case the process was killed before it did this.
            place, charge = str(folder.path.resolve()), partial(charge_of_ledger, folder.ledger())
            FleetAccount(self._engine, lease).enter(folder.run_id, place, charge)
            task_table.retire_tasks(self._engine, lease, run=folder.run_id)
            return folder.summary()
        if self._setup is None:
            self._setup = setup_of(folder, _LogCallback(self._log))
        setup, section = self._setup, self._section
        prepared = _prepared(folder, setup, section)
        evaluated = None if section.evaluates is None else evaluated_model(setup, Path(section.evaluates))
        for content in prepared.blobs.values():
            task_table.put_blob(self._engine, content)
        context = FleetContext(
            engine=self._engine,
            lease=lease,
            heartbeat=self._heartbeat,
            peers=self._peers,
            name=prepared.name,
            task=prepared.task,
            section=section,
            secure=setup.secure if evaluated is None else SecureSums.of_plan(setup.plan, prepared.task.dimension),
            content=_content(setup) if evaluated is None else lambda _: evaluated,
            enough_room=enough_room_in(folder.checkpoints_path, folder.private_path),
            stopping=self._stopping,
            log=self._log,
            run=RunLink(lost=self._lost),
        )
        where: dict[str, Any] = {"transport": self._transport, "odometer": self._odometer}
        if evaluated is None:
            program = FleetProgram.of(setup, folder, context, **where)
        else:
            program = evaluation_program(setup, folder, context, evaluated, **where)
        self._publish(lease, folder, setup, prepared, program)
        try:
            follow = go_on if folder.begun else begin
            summary = follow(program, folder, _LogCallback(self._log, context))
        except (DivergedError, BudgetError):
            task_table.retire_tasks(self._engine, lease, run=folder.run_id)
            raise
        task_table.retire_tasks(self._engine, lease, run=folder.run_id)
        return summary

    def _publish(
        self, lease: Lease, folder: RunFolder, setup: RecipeSetup, prepared: PreparedTask, program: FleetProgram
    ) -> None:
        """Show the task to devices; BudgetError, and it is not shown, if a new run does not fit into their budget."""
        account = FleetAccount(self._engine, lease)
        if not folder.begun:
            Reservation(folder, None, account).reserve(with_reasons(program))
        shown = {"task": prepared.name, "name": prepared.task.name, "description": prepared.task_bytes.decode()}
        try:
            task_table.publish_task(self._engine, lease, **shown, register=partial(self._register, folder, setup))
        except (FleetError, RunError):
            if not folder.begun:
                account.settle(folder.run_id, lambda: None)
            raise

    def _register(self, folder: RunFolder, setup: RecipeSetup) -> Container[str]:
        """Enter the run into the odometer of these devices; returns all runs that are listed there."""
        claims = not setup.reasons_not_private
        odometer.register(self._odometer, run_id=folder.run_id, run=folder.path, claims_privacy=claims)
        return odometer.runs_of(self._odometer)

    def _folder(self) -> RunFolder:
        recipe, out = self._recipe, self._out
        if is_run(out):
            folder = RunFolder.open(out)
            folder.require_same_recipe(recipe.model_dump(mode="json", exclude_none=True))
            return folder
        setup = RecipeSetup.build(recipe)
        open_public(recipe, setup.dataset)  # so that a mistake in it is reported before a folder exists
        return RunFolder.create(
            out, recipe.to_toml(), vocabulary=setup.dataset.words or None, provenance=setup.dataset.provenance
        )

    def _is_temporary(self, error: Exception) -> bool:
        """Whether waiting can help: the database, the disk or the witness is unavailable, or the round or lease is lost."""
        if isinstance(error, WitnessError):
            return True
        if isinstance(error, RunError):
            ledger = self._out / "ledger.jsonl"
            return isinstance(error.__cause__, OSError) or (ledger.exists() and is_being_written(ledger))
        if isinstance(error, SQLAlchemyError):
            return may_pass(error)
        return isinstance(error, LeaseLost | RoundLost | OSError)


def _content(setup: RecipeSetup) -> Callable[[Any], bytes]:
    """What devices download in a round that begins with this model: of a discovery of words, the tree alone."""
    return (lambda model: checkpoint_bytes(model.tree)) if isinstance(setup, LettersSetup) else checkpoint_bytes


class _LogCallback(Callback):
    """Writes evaluations to the server's log; rounds are logged when they are committed."""

    def __init__(self, log: Log, context: FleetContext | None = None) -> None:
        self._log, self._context = log, context

    def on_warning(self, sentence: str) -> None:
        self._log("warning", sentence=sentence)

    def on_evaluation(self, round: int, metrics: Mapping[str, Any]) -> None:
        self._log("evaluated", round=round, **metrics)
        context, epsilon = self._context, metrics.get(EPSILON_SO_FAR)
        if context is not None and epsilon is not None:
            with suppress(SQLAlchemyError, LeaseLost):  # for metrics alone
                task_table.tell(context.engine, context.lease, context.name, epsilon=float(epsilon))


def _prepared(folder: RunFolder, setup: RecipeSetup, section: FleetSection) -> PreparedTask:
    """The run's task. It is made once and kept in the run's folder, because devices count their rounds by its name."""
    kept = folder.path / "fleet"
    if (kept / _TASK).is_file():
        content = (kept / _TASK).read_bytes()
        task = DeviceTask.model_validate_json(content)
        blobs = {name: (kept / name).read_bytes() for name in (task.plan, task.vocabulary)}
        if any(sha256_of(blob) != name for name, blob in blobs.items()):
            raise RunError(f"The run {folder.path} is damaged: the files of its task in {kept} have changed.")
        return PreparedTask(task, content, {**blobs, sha256_of(content): content})
    if isinstance(setup, LettersSetup):
        prepared = prepare_discovery(setup, timer_s=section.timer_s)
    else:
        prepared = (prepare if section.evaluates is None else prepare_evaluation)(setup, timer_s=section.timer_s)
    made = prepared.of_run(folder.run_id)
    kept.mkdir(exist_ok=True)
    for name in (made.task.plan, made.task.vocabulary):
        write_atomic(kept / name, made.blobs[name])
    write_atomic(kept / _TASK, made.task_bytes)  # last: if it exists, all other files do
    return made
