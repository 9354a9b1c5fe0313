"""A run on devices, from the first round to the last, whatever is in its way."""

from __future__ import annotations

import dataclasses
import errno
import json
import re
import shutil
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

import jax
import pytest
from sqlalchemy import Engine, delete, func, insert, select, update

from tacit import files as durable
from tacit.errors import FleetError, LedgerError, PrivacyError, RunError
from tacit.fleet.database import leases, participation_table, round_table, schema, task_table
from tacit.fleet.database.heartbeat import Heartbeat
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database
from tacit.fleet.rounds import coordinator, device_rounds, round_attempt
from tacit.fleet.rounds.aggregator import Aggregator
from tacit.fleet.rounds.program import DeviceUsers
from tacit.fleet.rounds.task_compiler import prepare
from tacit.fleet.wire.public_log import TryEntry
from tacit.privacy.record.ledger import LedgerWriter, read_ledger
from tacit.privacy.record.records import Intent
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs import checkpoints, heads, odometer
from tacit.runs.folder import RunFolder
from tacit.runs.journal import StopRequested
from tacit.runs.provenance import reasons_of
from tacit.runs.witness_check import check_witness
from tacit.training.recipes import RecipeSetup
from tacit.transparency.client import WitnessClient, WitnessSilent
from tests.support.fleet.crowd import Crowd, Server, fleet_recipe, in_background, wait_for
from tests.support.fleet.people import enrolled_many
from tests.support.fleet.soundness import built, cohorts, require_sound, states
from tests.support.witnesses import listening
from tests.support.witnesses_at_rest import witness_in


@pytest.fixture(autouse=True)
def built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a recipe builds is built, and compiled, once for all tests."""
    monkeypatch.setattr(round_attempt, "POLL_S", 0.02)
    monkeypatch.setattr(round_attempt, "_RETRY_S", 0.05)
    monkeypatch.setattr(coordinator, "_FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(coordinator, "prepare", prepared_once)
    monkeypatch.setattr(coordinator, "setup_of", lambda folder, callback: built(folder.recipe_path.read_text()))


@cache
def _prepared(text: str, timer_s: float) -> Any:
    return prepare(built(text), timer_s=timer_s)


def prepared_once(setup: RecipeSetup, *, timer_s: float) -> Any:
    return _prepared(setup.recipe.to_toml(), timer_s)


@pytest.fixture
def sqlite(tmp_path: Path) -> Engine:
    engine = open_database(f"sqlite:///{tmp_path}/fleet.db")
    migrate(engine)
    return engine


def size_of(model: object) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(model))


@pytest.fixture
def recipe() -> Recipe:
    return fleet_recipe()


@pytest.fixture
def size(recipe: Recipe) -> int:
    return size_of(built(recipe.to_toml()).start.model)


def test_the_model_is_made_of_what_those_in_the_record_sent(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path
) -> None:
    devices, run = enrolled_many(sqlite, 12), tmp_path / "run"
    with Server(sqlite, recipe, run, aggregators=2) as server, Crowd(sqlite, server.aggregators, devices, size):
        summary = server.coordinator.run()
    assert RunFolder.open(run).summary() == summary
    require_sound(sqlite, recipe, run)
    assert [(round, attempt) for round, attempt, _ in cohorts(run)] == [(0, 0), (1, 0), (2, 0)]
    with sqlite.connect() as connection:
        assert connection.execute(select(schema.assignments)).first() is None
        task = connection.execute(select(schema.tasks)).one()
        kept = set(connection.execute(select(schema.blobs.c.sha256)).scalars())
        logged = connection.execute(select(schema.log_entries.c.entry).where(schema.log_entries.c.tried.is_not(None)))
        closed = [TryEntry.model_validate_json(entry) for entry in logged.scalars()]
        receipts = connection.execute(select(func.count()).select_from(schema.receipts)).scalar_one()
    assert not task.active
    assert len({each.ledger for each in closed} - {None}) == 3  # each names the ledger's last record of then
    assert receipts == sum(each.counted for each in closed) >= 12
    # The plan, the words and the description stay; checkpoints of rounds that are over do not.
    described = json.loads(task.description)
    assert kept == {task.task, described["plan"], described["vocabulary"]}


def test_a_round_with_too_few_reports_costs_nothing_and_is_opened_again(
    sqlite: Engine, size: int, tmp_path: Path
) -> None:
    recipe, run, devices = fleet_recipe(fleet={"deadline_s": 1.0}), tmp_path / "run", enrolled_many(sqlite, 12)
    with Server(sqlite, recipe, run) as server:
        few = Crowd(sqlite, server.aggregators, devices[:3], size)
        with few, in_background(server.coordinator.run) as result:
            wait_for(lambda: len(server.named("round abandoned")) >= 2)
            assert not read_ledger(run / "ledger.jsonl").intents
            # Three on any machine that is not too busy to hear them all in time.
            assert all(
                re.match("Expected 4 reports before the deadline, got [0-3]", each["reason"])
                for each in server.named("round abandoned")
            )
            few.join(devices[3:])
            assert result() is not None
    require_sound(sqlite, recipe, run)
    assert all(attempt == 0 for _, attempt, _ in cohorts(run))


def test_a_round_that_cannot_be_filled_says_why(sqlite: Engine, size: int, tmp_path: Path) -> None:
    recipe, run, devices = fleet_recipe(fleet={"deadline_s": 2.0}), tmp_path / "run", enrolled_many(sqlite, 7)
    with Server(sqlite, recipe, run) as server:
        crowd = Crowd(sqlite, server.aggregators, devices, size)
        with crowd, in_background(server.coordinator.run) as result:
            # Three are left for the second round.
            wait_for(lambda: any("devices may take part" in each["reason"] for each in server.named("round abandoned")))
            assert len(server.named("round committed")) == 1
            crowd.join(enrolled_many(sqlite, 5))
            assert result() is not None
    require_sound(sqlite, recipe, run)


def test_a_process_that_is_lost_with_its_part_of_the_sum_costs_nothing(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices, run, lost = enrolled_many(sqlite, 12), tmp_path / "run", list[str]()

    def dies_once(self: Aggregator, round_id: str, what: str, content: bytes = b"") -> bytes:
        if not lost:
            lost.append(round_id)
            self._sums.clear()  # a new process under an old name would have no memory either
        return asked(self, round_id, what, content)

    asked = Aggregator.ask
    monkeypatch.setattr(Aggregator, "ask", dies_once)
    with Server(sqlite, recipe, run, aggregators=2) as server, Crowd(sqlite, server.aggregators, devices, size):
        assert server.coordinator.run() is not None
    require_sound(sqlite, recipe, run)
    assert [each["reason"][:21] for each in server.named("round abandoned")] == ["A partial sum is lost"]
    assert all(attempt == 0 for _, attempt, _ in cohorts(run))


def test_a_sum_of_other_devices_than_were_counted_is_not_used(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices, run, forged = enrolled_many(sqlite, 12), tmp_path / "run", list[str]()

    def forges_once(self: Aggregator, round_id: str, what: str, content: bytes = b"") -> bytes:
        if not forged:
            forged.append(round_id)
            self._sums[round_id].total.devices[0] = 999
        return asked(self, round_id, what, content)

    asked = Aggregator.ask
    monkeypatch.setattr(Aggregator, "ask", forges_once)
    with Server(sqlite, recipe, run) as server, Crowd(sqlite, server.aggregators, devices, size):
        assert server.coordinator.run() is not None
    require_sound(sqlite, recipe, run)
    assert [each["reason"] for each in server.named("round abandoned")] == [
        "A partial sum has other devices than the database counted."
    ]


def test_nothing_leaves_memory_before_the_intent_is_on_disk(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices, run, order = enrolled_many(sqlite, 12), tmp_path / "run", list[str]()
    collect = DeviceUsers.collect

    def collected(self: DeviceUsers, broadcast: Any, cohort: Any, norms: Any) -> Any:
        written = [(intent.round, intent.attempt) for intent in read_ledger(run / "ledger.jsonl").intents]
        order.append("durable" if (cohort.round, cohort.attempt) in written else "not durable")
        return collect(self, broadcast, cohort, norms)

    monkeypatch.setattr(DeviceUsers, "collect", collected)
    with Server(sqlite, recipe, run) as server, Crowd(sqlite, server.aggregators, devices, size):
        assert server.coordinator.run() is not None
    assert order == ["durable"] * 3


def test_a_disk_that_fails_at_the_intent_is_waited_for(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices, run, failures = enrolled_many(sqlite, 12), tmp_path / "run", list[int]()

    def full(descriptor: int, data: bytes) -> None:
        if b'"kind":"intent"' in data and len(failures) < 2:
            failures.append(1)
            raise OSError(errno.ENOSPC, "No space left on device")
        append(descriptor, data)

    append = durable.append_synced
    monkeypatch.setattr(durable, "append_synced", full)
    with Server(sqlite, recipe, run) as server, Crowd(sqlite, server.aggregators, devices, size):
        assert server.coordinator.run() is not None
    assert len(failures) == 2
    require_sound(sqlite, recipe, run)
    # Nothing was released in the rounds that could not be written down, so nothing was spent on them.
    assert all(attempt == 0 for _, attempt, _ in cohorts(run))
    assert [each["cause"] for each in server.named("continuing from the ledger after a failure")] == ["RunError"] * 2


def test_a_witness_that_does_not_answer_is_waited_for_and_no_round_is_lost(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices, run, asked = enrolled_many(sqlite, 12), tmp_path / "run", list[int]()
    countersign = WitnessClient.countersign

    def away(self: WitnessClient, *arguments: Any) -> Any:
        asked.append(1)
        if len(asked) in (3, 4):  # in the second round, and when it is gone on with
            raise WitnessSilent("The witness does not answer.")
        return countersign(self, *arguments)

    monkeypatch.setattr(WitnessClient, "countersign", away)
    monkeypatch.setattr(heads, "PATIENCE_S", 0.0)
    signer = witness_in(tmp_path / "witness")
    with listening(signer) as address:
        section = {"address": address, "key": signer.key.public.text()}
        watched = parse_recipe({**recipe.model_dump(exclude_none=True), "witness": section})
        with Server(sqlite, watched, run) as server, Crowd(sqlite, server.aggregators, devices, size):
            assert server.coordinator.run() is not None
        assert check_witness(RunFolder.open(run)).signed == len(read_ledger(run / "ledger.jsonl").records)
    require_sound(sqlite, watched, run)
    waited = [each["cause"] for each in server.named("continuing from the ledger after a failure")]
    assert waited == ["WitnessSilent"] * 2
    assert all(attempt == 0 for _, attempt, _ in cohorts(run))  # the sum was still there


def test_a_full_disk_holds_the_next_round_up_before_it_can_cost_anything(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices, run, room = enrolled_many(sqlite, 12), tmp_path / "run", threading.Event()
    monkeypatch.setattr(coordinator, "enough_room_in", lambda *folders: lambda size: room.is_set())
    with (
        Server(sqlite, recipe, run) as server,
        Crowd(sqlite, server.aggregators, devices, size),
        in_background(server.coordinator.run) as result,
    ):
        wait_for(lambda: bool(server.named("waiting for disk space")))
        assert states(sqlite) == []
        room.set()
        assert result() is not None
    require_sound(sqlite, recipe, run)


def test_a_coordinator_that_was_stopped_is_followed_by_another(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path
) -> None:
    devices, run = enrolled_many(sqlite, 12), tmp_path / "run"
    with Server(sqlite, recipe, run, stop_after=1) as first, Crowd(sqlite, first.aggregators, devices, size):
        assert first.coordinator.run() is None
    assert all(state in ("committed", "abandoned") for _, state in states(sqlite))
    with Server(sqlite, recipe, run) as second, Crowd(sqlite, second.aggregators, devices, size):
        assert second.coordinator.run() is not None
    require_sound(sqlite, recipe, run)
    assert all(attempt == 0 for _, attempt, _ in cohorts(run))


class Killed(BaseException):
    """As much of kill -9 as one process can bear: nothing is put in order on the way out."""


@pytest.mark.parametrize(
    ("where", "what", "released"),
    [
        (round_table, "open_round", False),
        (round_table, "settle", False),
        (participation_table, "record_participation", False),
        (LedgerWriter, "append", True),
        (checkpoints, "save", False),  # the model is whole; the round is not lost
        (round_table, "commit", False),
    ],
)
def test_a_coordinator_killed_at_any_point_is_followed_by_another(
    sqlite: Engine,
    recipe: Recipe,
    size: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: Any,
    what: str,
    released: bool,
) -> None:
    devices, run, real = enrolled_many(sqlite, 12), tmp_path / "run", getattr(where, what)
    calls = list[int]()

    def killed_after(*arguments: Any, **options: Any) -> Any:
        found = real(*arguments, **options)
        if what != "append" or isinstance(arguments[1], Intent):
            calls.append(1)
            if len(calls) == 2:
                raise Killed
        return found

    monkeypatch.setattr(where, what, killed_after)
    with monkeypatch.context() as dying:
        dying.setattr(device_rounds.DeviceRounds, "close", lambda self: None)
        dying.setattr(Heartbeat, "release", lambda self: None)
        with (
            Server(sqlite, recipe, run) as first,
            Crowd(sqlite, first.aggregators, devices, size),
            pytest.raises(Killed),
        ):
            first.coordinator.run()
    with sqlite.begin() as connection:  # ten seconds later
        connection.execute(update(schema.leases).values(expires_at=0.0))
    with Server(sqlite, recipe, run) as second, Crowd(sqlite, second.aggregators, devices, size):
        assert second.coordinator.run() is not None
    require_sound(sqlite, recipe, run)
    attempts = [(round, attempt) for round, attempt, _ in cohorts(run)]
    assert attempts == [(0, 0), (1, 0), *([(1, 1)] if released else []), (2, 0)]


def test_a_coordinator_that_loses_its_lease_stops_and_the_other_goes_on(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path
) -> None:
    devices, run = enrolled_many(sqlite, 12), tmp_path / "run"
    with Server(sqlite, recipe, run) as server, in_background(server.coordinator.run) as result:
        wait_for(lambda: states(sqlite) == [(0, "open")])
        theirs = {
            "holder": "thief",
            "epoch": schema.leases.c.epoch + 1,
            "expires_at": time.time() + leases.GONE_AFTER_S,
        }
        with sqlite.begin() as connection:
            connection.execute(update(schema.leases).values(**theirs))
        with Crowd(sqlite, server.aggregators, devices, size):
            wait_for(lambda: bool(server.named("waiting for the lease: another process coordinates")))
            assert not read_ledger(run / "ledger.jsonl").intents
            with sqlite.begin() as connection:
                connection.execute(
                    update(schema.leases).where(schema.leases.c.holder == "thief").values(expires_at=0.0)
                )
            assert result() is not None
    require_sound(sqlite, recipe, run)


def test_the_table_of_participations_is_made_to_match_the_runs_own_record(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path
) -> None:
    devices, run = enrolled_many(sqlite, 12), tmp_path / "run"
    with Server(sqlite, recipe, run, stop_after=1) as first, Crowd(sqlite, first.aggregators, devices, size):
        assert first.coordinator.run() is None
    with sqlite.begin() as connection:
        task = connection.execute(select(schema.tasks.c.task)).scalar_one()
        connection.execute(delete(schema.participations))  # the database was put back to an earlier day
        ghost = {"task": task, "device": devices[0], "round": 2, "attempt": 5}
        connection.execute(insert(schema.participations).values(**ghost))
    with Server(sqlite, recipe, run) as second, Crowd(sqlite, second.aggregators, devices, size):
        assert second.coordinator.run() is not None
    require_sound(sqlite, recipe, run)


def test_a_database_that_forgets_during_a_run_lets_no_device_in_too_early(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices, run, real, forgot = enrolled_many(sqlite, 12), tmp_path / "run", round_table.open_round, list[int]()

    def forgets(*arguments: Any, **options: Any) -> Any:
        if options["round"] == 1 and not forgot:
            forgot.append(1)
            with sqlite.begin() as connection:  # a copy that was a little behind took over
                connection.execute(delete(schema.participations))
        return real(*arguments, **options)

    monkeypatch.setattr(round_table, "open_round", forgets)
    with Server(sqlite, recipe, run) as server:
        same = Crowd(sqlite, server.aggregators, devices[:4], size)
        with same, in_background(server.coordinator.run) as result:
            wait_for(lambda: bool(server.named("round abandoned")))
            same.join(devices[4:])
            assert result() is not None
    require_sound(sqlite, recipe, run)
    assert [each["reason"][:30] for each in server.named("round abandoned")] == ["A device took part too early, "]


def test_a_run_folder_that_was_put_back_does_not_release_anew_what_its_ledger_has_forgotten(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path
) -> None:
    devices, run, copy = enrolled_many(sqlite, 12), tmp_path / "run", tmp_path / "copy"

    def another_round() -> None:
        with (
            Server(sqlite, recipe, run, stop_after=1) as server,
            Crowd(sqlite, server.aggregators, devices, size),
        ):
            assert server.coordinator.run() is None

    another_round()
    shutil.copytree(run, copy)
    listed = (tmp_path / odometer.NAME).read_bytes()
    another_round()
    with sqlite.connect() as connection:
        before = connection.execute(select(schema.participations)).all()
    shutil.rmtree(run)
    shutil.copytree(copy, run)
    with Server(sqlite, recipe, run) as server, pytest.raises(LedgerError, match="not the one that the odometer"):
        server.coordinator.run()
    (tmp_path / odometer.NAME).write_bytes(listed)  # put back as well
    with Server(sqlite, recipe, run) as server, pytest.raises(LedgerError, match="restored to an earlier state"):
        server.coordinator.run()
    with sqlite.connect() as connection:
        assert connection.execute(select(schema.participations)).all() == before


def test_a_run_under_way_is_not_begun_again_in_another_folder(sqlite: Engine, size: int, tmp_path: Path) -> None:
    recipe = fleet_recipe(run={"rounds": 8}, privacy={"max_participation": 9})
    devices, run, other = enrolled_many(sqlite, 12), tmp_path / "run", tmp_path / "other"
    with Server(sqlite, recipe, run, stop_after=1) as first, Crowd(sqlite, first.aggregators, devices, size):
        assert first.coordinator.run() is None
    with Server(sqlite, recipe, other) as stranger, pytest.raises(FleetError, match="which is not finished"):
        stranger.coordinator.run()
    assert not (other / "ledger.jsonl").exists()
    with Server(sqlite, recipe, run) as second, Crowd(sqlite, second.aggregators, devices, size):
        assert second.coordinator.run() is not None
    require_sound(sqlite, recipe, run, wanted=8, often=9)
    # Once it is finished, another may follow: a run of its own, with its own count of who took part.
    with Server(sqlite, recipe, other) as third, Crowd(sqlite, third.aggregators, devices, size):
        assert third.coordinator.run() is not None
    assert [len(users) for _, _, users in cohorts(other)] == [4] * 8
    with sqlite.connect() as connection:
        counted = connection.execute(select(schema.participations.c.task)).scalars().all()
    assert sorted(counted.count(task) for task in set(counted)) == [32, 32]


def test_runs_on_the_same_devices_are_listed_in_one_place_or_not_begun(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path
) -> None:
    devices, (here, elsewhere) = enrolled_many(sqlite, 12), (tmp_path / "here", tmp_path / "elsewhere")
    other = fleet_recipe(name="other")
    for folder in (here, elsewhere):
        folder.mkdir()

    def served(recipe: Recipe, run: Path, odometer: Path) -> Any:
        with (
            Server(sqlite, recipe, run, odometer=odometer) as server,
            Crowd(sqlite, server.aggregators, devices, size),
        ):
            return server.coordinator.run()

    assert served(recipe, tmp_path / "run", here) is not None
    with pytest.raises(FleetError, match=r"without the run \w+ of 'small'"):
        served(other, tmp_path / "other", elsewhere)
    # Nor a run of the same name, which one that waited for the lease with a folder of its own would begin.
    with pytest.raises(FleetError, match=r"without the run \w+ of 'small'"):
        served(recipe, tmp_path / "again", elsewhere)
    assert not any((tmp_path / run / "ledger.jsonl").exists() for run in ("other", "again"))
    assert served(other, tmp_path / "other", here) is not None
    assert [Path(entries[-1].path).name for entries in odometer.runs_of(here).values()] == ["run", "other"]


def test_a_coordinator_killed_after_the_last_round_takes_the_task_away_when_it_is_back(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices, run = enrolled_many(sqlite, 12), tmp_path / "run"

    def killed(*arguments: Any, **options: Any) -> None:
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(task_table, "retire_tasks", killed)
        with (
            Server(sqlite, recipe, run) as first,
            Crowd(sqlite, first.aggregators, devices, size),
            pytest.raises(Killed),
        ):
            first.coordinator.run()
    with Server(sqlite, recipe, run) as second:
        assert second.coordinator.run() is not None
    with sqlite.connect() as connection:
        assert connection.execute(select(schema.tasks.c.active)).scalars().all() == [False]


def test_a_finished_run_is_left_as_it_is(sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path) -> None:
    devices, run = enrolled_many(sqlite, 12), tmp_path / "run"
    with Server(sqlite, recipe, run) as server, Crowd(sqlite, server.aggregators, devices, size):
        summary = server.coordinator.run()
    before = (run / "ledger.jsonl").read_bytes()
    with Server(sqlite, recipe, run) as server:
        assert server.coordinator.run() == summary
    assert (run / "ledger.jsonl").read_bytes() == before


def test_another_recipe_is_refused(sqlite: Engine, recipe: Recipe, tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", fleet_recipe(privacy={"clip_norm": 0.4}).to_toml())
    with Server(sqlite, recipe, tmp_path / "run") as server, pytest.raises(RunError, match="clip_norm"):
        server.coordinator.run()


def test_a_run_that_loses_rounds_again_and_again_stops_before_it_costs_any_more(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = fleet_recipe(privacy={"min_separation": 0, "max_participation": 9, "population": 40})
    devices, run = enrolled_many(sqlite, 40), tmp_path / "run"

    def lost(self: DeviceUsers, broadcast: Any, cohort: Any, norms: Any) -> Any:
        raise round_attempt.RoundLost("A device revealed a false share.")

    monkeypatch.setattr(DeviceUsers, "collect", lost)
    monkeypatch.setattr(coordinator, "_LONGEST_PAUSE_S", 0.05)
    with (
        Server(sqlite, recipe, run) as server,
        Crowd(sqlite, server.aggregators, devices, size),
        pytest.raises(PrivacyError, match="fewer than 8 rounds to be lost"),
    ):
        server.coordinator.run()
    assert [attempt for _, attempt, _ in cohorts(run)] == list(range(8))
    assert {state for _, state in states(sqlite)} == {"abandoned"}
    assert all("it counts" in each["reason"] for each in server.named("round abandoned"))


@pytest.mark.parametrize("secagg", [None, {"bits": 24}])
def test_what_a_server_runs_came_from_its_plan_and_a_gate_of_ones_own_did_not(
    sqlite: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secagg: dict[str, Any] | None
) -> None:
    seen: list[Any] = []

    def watched(program: Any, *_: Any) -> None:
        seen.append(program)
        raise StopRequested

    class Louder(DeviceUsers):
        pass

    monkeypatch.setattr(coordinator, "begin", watched)
    recipe = fleet_recipe(privacy={} if secagg is None else {"secagg": secagg})
    with Server(sqlite, recipe, tmp_path / "run") as server:
        assert server.coordinator.run() is None
    [program] = seen
    assert reasons_of(program) == []
    users, plan = program.users, program.plan
    bolder = plan.model_copy(update={"clip_norm": 9.0})
    for other, said in (
        (Louder(plan, users._secure), "gate is not Tacit's"),
        (DeviceUsers(bolder, users._secure), "another plan"),
    ):
        assert said in reasons_of(dataclasses.replace(program, users=other))[0].sentence
