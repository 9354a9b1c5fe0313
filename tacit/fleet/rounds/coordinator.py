"""A run on devices: the same loop, ledger and mechanisms as a simulation's, with `gathering` in place of simulated cohorts.

The run folder is the truth. Whatever fails (the database, the disk, a process, the lease), the coordinator lets go, waits, and
goes on from the ledger; another process that gets the lease, and reaches the folder, does the same. Who took part is in the
run's own record; the database's copy of it is made to match before the first round.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Container, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tacit.errors import DivergedError, FleetError, RunError
from tacit.files import write_atomic
from tacit.fleet.rounds import lifecycle as rounds
from tacit.fleet.rounds.evaluation import evaluated_model, evaluation_program
from tacit.fleet.rounds.gathering import Log, Peers, RoundContext, RoundLost, enough_room_in
from tacit.fleet.rounds.program import FleetProgram
from tacit.fleet.rounds.tasks import Prepared, checkpoint_bytes, prepare, prepare_evaluation
from tacit.fleet.server import leases
from tacit.fleet.server.heartbeat import Heartbeat
from tacit.fleet.server.leases import Lease, LeaseLost
from tacit.fleet.wire.blobs import sha256_of
from tacit.fleet.wire.messages import Task
from tacit.learning.secure_sums import SecureSums
from tacit.privacy.record.ledger import is_being_written
from tacit.recipe.sections import FleetSection
from tacit.recipe.training import Recipe
from tacit.runs import odometer
from tacit.runs.callbacks import Callback
from tacit.runs.driver import begin, go_on
from tacit.runs.folder import RunFolder, is_run
from tacit.runs.journal import StopRequested
from tacit.training.pretraining import open_public
from tacit.training.recipes import RecipeSetup, setup_of

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
# In the run folder: the task as devices have it, and beside it what it names.
_TASK = "task.json"


class Coordinator:
    """Drives one recipe's run while it holds the lease."""

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

    def run(self) -> dict[str, Any] | None:
        """Coordinate until the run is finished (its summary) or the process is to stop (None)."""
        pause, waits = _FIRST_PAUSE_S, False
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                lease = self._heartbeat.acquire(f"run:{self._recipe.name}")
                if lease is None:
                    if not waits:
                        self._log("waiting: another process coordinates")
                    waits = True
                    self._stopping.wait(leases.RENEW_S)
                    continue
                waits = False
                return self._lead(lease)
            except StopRequested:
                return None
            except (SQLAlchemyError, LeaseLost, RoundLost, OSError, RunError) as error:
                if not self._may_pass(error):
                    raise
                self._log("going on from the ledger", cause=type(error).__name__, pause_s=pause)
            finally:
                self._heartbeat.release()
            self._stopping.wait(pause)
            # What held for a while has recovered; what failed at once is not to be hammered.
            lasted = time.monotonic() - began > _LONGEST_PAUSE_S
            pause = _FIRST_PAUSE_S if lasted else min(2 * pause, _LONGEST_PAUSE_S)
        return None

    def _lead(self, lease: Lease) -> dict[str, Any] | None:
        """Begin the run or go on with it, to its end."""
        folder = self._folder()
        if folder.begun and (closed := folder.ledger().closed) is not None and closed.outcome == "finished":
            rounds.retire_tasks(self._engine, lease, run=folder.run_id)  # or it was killed before it could
            return folder.summary()
        if self._setup is None:
            self._setup = setup_of(folder, _Logged(self._log))
        setup, section = self._setup, self._section
        prepared = _prepared(folder, setup, section)
        looked_at = None if section.evaluates is None else evaluated_model(setup, Path(section.evaluates))
        for content in prepared.blobs.values():
            rounds.put_blob(self._engine, content)
        shown = {"task": prepared.name, "name": prepared.task.name, "description": prepared.task_bytes.decode()}
        rounds.publish_task(self._engine, lease, **shown, enter=partial(self._enter, folder, setup))
        context = RoundContext(
            engine=self._engine,
            lease=lease,
            heartbeat=self._heartbeat,
            peers=self._peers,
            name=prepared.name,
            task=prepared.task,
            section=section,
            secure=SecureSums.of_plan(setup.recipe.privacy, prepared.task.dimension),
            content=checkpoint_bytes if looked_at is None else lambda _: looked_at,
            enough_room=enough_room_in(folder.checkpoints_path, folder.private_path),
            stopping=self._stopping,
            log=self._log,
        )
        where: dict[str, Any] = {"transport": self._transport, "odometer": self._odometer}
        if looked_at is None:
            program = FleetProgram.of(setup, folder, context, **where)
        else:
            program = evaluation_program(setup, folder, context, looked_at, **where)
        try:
            follow = go_on if folder.begun else begin
            summary = follow(program, folder, _Logged(self._log))
        except DivergedError:
            rounds.retire_tasks(self._engine, lease, run=folder.run_id)
            raise
        rounds.retire_tasks(self._engine, lease, run=folder.run_id)
        return summary

    def _enter(self, folder: RunFolder, setup: RecipeSetup) -> Container[str]:
        """Write the run into the odometer of these devices; all runs that are in it."""
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
        open_public(recipe, setup.dataset)  # a mistake in it is told before there is a folder
        return RunFolder.create(out, recipe.to_toml(), vocabulary=setup.dataset.words)

    def _may_pass(self, error: Exception) -> bool:
        """Whether waiting can help: a database or a disk that is away, a round or a lease that is lost."""
        if isinstance(error, RunError):
            ledger = self._out / "ledger.jsonl"
            return isinstance(error.__cause__, OSError) or (ledger.exists() and is_being_written(ledger))
        if isinstance(error, DBAPIError):
            return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
        return isinstance(error, LeaseLost | RoundLost | OSError | PoolTimeout)


class _Logged(Callback):
    """Writes evaluations to the server's log; rounds are logged when they are committed."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def on_warning(self, sentence: str) -> None:
        self._log("warning", sentence=sentence)

    def on_evaluation(self, round: int, metrics: Mapping[str, Any]) -> None:
        self._log("evaluated", round=round, **metrics)


def _prepared(folder: RunFolder, setup: RecipeSetup, section: FleetSection) -> Prepared:
    """The run's task, made once and kept in its folder: devices count their rounds by its name."""
    kept = folder.path / "fleet"
    if (kept / _TASK).is_file():
        content = (kept / _TASK).read_bytes()
        task = Task.model_validate_json(content)
        blobs = {name: (kept / name).read_bytes() for name in (task.plan, task.vocabulary)}
        if any(sha256_of(blob) != name for name, blob in blobs.items()):
            raise RunError(f"The run {folder.path} is damaged: its task in {kept} is not the one it was begun with.")
        return Prepared(task, content, {**blobs, sha256_of(content): content})
    make = prepare if section.evaluates is None else prepare_evaluation
    made = make(setup, timer_s=section.timer_s).of_run(folder.run_id)
    kept.mkdir(exist_ok=True)
    for name in (made.task.plan, made.task.vocabulary):
        write_atomic(kept / name, made.blobs[name])
    write_atomic(kept / _TASK, made.task_bytes)  # last: with it, all is there
    return made
