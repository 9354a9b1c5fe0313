"""A run goes on with the devices that it has: failed tries use up nobody, and silent devices stop nobody."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import pytest
from sqlalchemy import Engine, select, update

from tacit.api.run import open_run
from tacit.fleet.database import schema
from tacit.fleet.rounds import coordinator, device_rounds, round_attempt
from tacit.fleet.rounds.aggregator import Aggregator, PeerQuestion
from tacit.fleet.rounds.fleet_context import RunLink
from tacit.fleet.rounds.secure_aggregation import FAILED, Conduct, SecureRoundTerms, StageProgress
from tacit.fleet.rounds.task_compiler import prepare
from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.records import Adjusted, Resumed
from tacit.recipe.training import parse_recipe
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder
from tests.support.fleet.careful import LOSES, SENDS, SILENT, CarefulCrowd
from tests.support.fleet.crowd import Crowd, Server, fleet_recipe, in_background, wait_for
from tests.support.fleet.people import enrolled_many
from tests.support.fleet.soundness import built, cohorts, states


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_attempt, "POLL_S", 0.02)
    monkeypatch.setattr(round_attempt, "_RETRY_S", 0.05)
    monkeypatch.setattr(round_attempt, "_LOOK_S", 0.05)
    monkeypatch.setattr(coordinator, "_FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(coordinator, "setup_of", lambda folder, callback: built(folder.recipe_path.read_text()))
    monkeypatch.setattr(coordinator, "prepare", lambda setup, timer_s: prepare(setup, timer_s=timer_s))


def small(devices: int, goal: int, *, rounds: int, separation: int, most: int, **fleet: Any) -> Any:
    plan = {"population": devices, "cohort": goal, "min_separation": separation, "max_participation": most}
    limits = {"over_selection": 1.3, "deadline_s": 1.0, "replace_s": 0.2} | fleet
    return fleet_recipe(data={"users": devices}, privacy=plan, run={"rounds": rounds}, fleet=limits)


def size_of(recipe: Any) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(built(recipe.to_toml()).start.model))


def require_kept(run: Path, *, goal: int, rounds: int, separation: int, most: int) -> None:
    """Every round is there, and in the rounds that the model is made of nobody came too early or too often."""
    assert RunFolder.open(run).summary() is not None
    last = {round: users for round, _, users in cohorts(run)}
    assert sorted(last) == list(range(rounds))
    assert all(len(set(users)) == goal for users in last.values())
    for device in {device for users in last.values() for device in users}:
        when = [round for round, users in sorted(last.items()) if device in users]
        assert len(when) <= most
        assert all(later - earlier > separation for earlier, later in pairwise(when))


def abandoned(engine: Engine) -> int:
    return sum(state == "abandoned" for _, state in states(engine))


def loses_the_first(count: int, engine: Engine, *, places: int) -> Callable[[int, Any], str]:
    """Every report of the first so many tries is lost on its way, after the device has counted it.

    When so many devices have lost theirs, the try's deadline is over, and its places are as old as they then would be.
    """
    lost: dict[str, set[int]] = {}

    def habit(device: int, place: Any) -> str:
        if place.round_id not in lost:
            lost[place.round_id] = set()
        if list(lost).index(place.round_id) >= count:
            return SENDS
        lost[place.round_id].add(device)
        if len(lost[place.round_id]) == places:
            with engine.begin() as connection:
                for table, column in ((schema.rounds, "deadline"), (schema.assignments, "since")):
                    this = table.c.round_id == place.round_id
                    connection.execute(update(table).where(this).values({column: 0.0}))
        return LOSES

    return habit


def test_forty_devices_and_five_failed_tries(sqlite_engine: Engine, tmp_path: Path) -> None:
    terms = {"rounds": 4, "separation": 3, "most": 1}
    recipe, run, devices = small(40, 6, **terms, deadline_s=600.0), tmp_path / "run", enrolled_many(sqlite_engine, 40)
    habit = loses_the_first(5, sqlite_engine, places=8)
    with Server(sqlite_engine, recipe, run) as server:
        crowd = CarefulCrowd(sqlite_engine, server.aggregators, devices, size_of(recipe), habit)
        with crowd, in_background(server.coordinator.run) as result:
            assert result() is not None
    assert abandoned(sqlite_engine) == 5
    require_kept(run, goal=6, **terms)


def test_four_silent_devices_against_thirty_six(sqlite_engine: Engine, tmp_path: Path) -> None:
    terms = {"rounds": 4, "separation": 1, "most": 4}
    recipe, run = small(40, 6, **terms, deadline_s=600.0), tmp_path / "run"
    devices = enrolled_many(sqlite_engine, 40)

    silent: dict[int, None] = {}  # the first four that get a place

    def habit(device: int, place: Any) -> str:
        if len(silent) < 4:
            silent.setdefault(device)
        return SILENT if device in silent else SENDS

    with Server(sqlite_engine, recipe, run) as server:
        crowd = CarefulCrowd(sqlite_engine, server.aggregators, devices, size_of(recipe), habit)
        with crowd, in_background(server.coordinator.run) as result:
            assert result() is not None
    assert abandoned(sqlite_engine) == 0  # their places went to others in time
    require_kept(run, goal=6, **terms)
    with sqlite_engine.connect() as connection:
        words = dict(connection.execute(select(schema.devices.c.device, schema.devices.c.last_word)).all())
    assert silent
    assert any("sent nothing" in (words[device] or "") for device in silent)


def test_the_shipped_recipe_at_a_fifth_of_its_size_after_five_bad_tries(sqlite_engine: Engine, tmp_path: Path) -> None:
    """A thousand devices, fifty a round, nine rounds between is what recipes/fleet.toml has."""
    terms = {"rounds": 11, "separation": 9, "most": 2}
    recipe, run = small(200, 10, **terms, deadline_s=600.0, replace_s=1.0), tmp_path / "run"
    devices = enrolled_many(sqlite_engine, 112)  # as many as ten rounds and a little need
    habit = loses_the_first(5, sqlite_engine, places=13)
    with Server(sqlite_engine, recipe, run) as server:
        crowd = CarefulCrowd(sqlite_engine, server.aggregators, devices, size_of(recipe), habit)
        with crowd, in_background(server.coordinator.run) as result:
            assert result() is not None
    assert abandoned(sqlite_engine) == 5
    require_kept(run, goal=10, **terms)


def test_a_round_lost_after_its_intent_runs_again_with_the_same_devices(
    sqlite_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve devices, six a round, one round between: the other six are in the round before."""
    terms = {"rounds": 3, "separation": 1, "most": 2}
    tree = small(12, 6, **terms).model_dump(mode="json", exclude_none=True)
    tree["privacy"] |= {"mechanism": "blt", "noise_multiplier": 4.0, "delta": 1e-4}
    recipe, run, devices = parse_recipe(tree), tmp_path / "run", enrolled_many(sqlite_engine, 12)
    collect, left = device_rounds.RoundAttempt.settle, [1]

    def settle(self: Any, *arguments: Any) -> Any:
        cohort = collect(self, *arguments)
        if cohort.round == 1 and left:
            left.pop()
            monkeypatch.setattr("tacit.fleet.rounds.program.DeviceUsers.collect", lost_once)
        return cohort

    from tacit.fleet.rounds.program import DeviceUsers

    really = DeviceUsers.collect

    def lost_once(self: Any, broadcast: Any, cohort: Any, norms: Any) -> Any:
        monkeypatch.setattr("tacit.fleet.rounds.program.DeviceUsers.collect", really)
        with sqlite_engine.begin() as connection:  # no process has its sum any more
            connection.execute(
                update(schema.rounds).where(schema.rounds.c.state == "settled").values(state="abandoned")
            )
        raise round_attempt.RoundLost("The sum is lost.")

    monkeypatch.setattr(device_rounds.RoundAttempt, "settle", settle)
    with Server(sqlite_engine, recipe, run) as server:
        crowd = CarefulCrowd(sqlite_engine, server.aggregators, devices, size_of(recipe))
        with crowd, in_background(server.coordinator.run) as result:
            assert result() is not None
    assert [(round, attempt) for round, attempt, _ in cohorts(run)] == [(0, 0), (1, 0), (1, 1), (2, 0)]
    require_kept(run, goal=6, **terms)
    # The lost attempt is charged, in full and by everything that states an epsilon, and no promise of the plan was broken.
    cost, stated = cost_of(RunFolder.open(run)), open_run(run).guarantee()
    assert math.isfinite(cost.stated.epsilon)
    assert cost.stated.epsilon == stated.epsilon
    assert cost.stated.releases == 4
    ledger = read_ledger(run / "ledger.jsonl")
    without = [intent for intent in ledger.intents if (intent.round, intent.attempt) != (1, 0)]
    without = [dataclasses.replace(intent, attempt=0) for intent in without]
    assert cost.stated.epsilon > spent_by(ledger.opened, without).epsilon


def test_a_coordinator_that_dies_after_the_intent_leaves_a_sum_that_is_released_once(
    sqlite_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = {"rounds": 3, "separation": 1, "most": 2}
    recipe, run, devices = small(12, 6, **terms), tmp_path / "run", enrolled_many(sqlite_engine, 12)
    from tacit.fleet.rounds.program import DeviceUsers

    really, died = DeviceUsers.collect, list[int]()

    def dies(self: Any, broadcast: Any, cohort: Any, norms: Any) -> Any:
        found = really(self, broadcast, cohort, norms)
        if cohort.round == 1 and len(died) < 3:
            died.append(cohort.round)
            raise OSError("the machine is gone")
        return found

    monkeypatch.setattr(DeviceUsers, "collect", dies)
    with Server(sqlite_engine, recipe, run) as server:
        crowd = CarefulCrowd(sqlite_engine, server.aggregators, devices, size_of(recipe))
        with crowd, in_background(server.coordinator.run) as result:
            assert result() is not None
    assert len(died) == 3
    assert [(round, attempt) for round, attempt, _ in cohorts(run)] == [(0, 0), (1, 0), (2, 0)]
    went_on = [each for each in read_ledger(run / "ledger.jsonl").records if isinstance(each, Resumed)]
    assert [(each.round, each.lost) for each in went_on] == [(2, [])] * 3
    require_kept(run, goal=6, **terms)


def test_an_operator_pauses_gives_up_and_adjusts_rounds(sqlite_engine: Engine, tmp_path: Path) -> None:
    terms = {"rounds": 2, "separation": 0, "most": 2}
    recipe, run, devices = small(12, 6, **terms, deadline_s=60.0), tmp_path / "run", enrolled_many(sqlite_engine, 4)
    with Server(sqlite_engine, recipe, run) as server:
        crowd = CarefulCrowd(sqlite_engine, server.aggregators, devices, size_of(recipe))
        with crowd, in_background(server.coordinator.run) as result:
            wait_for(lambda: len(states(sqlite_engine)) == 1)
            with sqlite_engine.begin() as connection:
                connection.execute(update(schema.tasks).values(goal=3, deadline_s=30.0))
                connection.execute(update(schema.rounds).values(stopped_by="skip"))
            assert result() is not None
    assert server.named("round abandoned")[0]["reason"] == "An operator gave the round up."
    adjusted = [each for each in read_ledger(run / "ledger.jsonl").records if isinstance(each, Adjusted)]
    assert adjusted == [Adjusted(0, 3, 30.0)]
    require_kept(run, goal=3, **terms)


def test_secure_aggregation_waits_longer_after_tries_that_were_too_fast(
    sqlite_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to eight times as long: more would hardly help."""
    plan = {"population": 12, "cohort": 4, "max_participation": 3, "secagg": {"bits": 24}}
    fleet = {"selection_s": 0.05, "stage_s": 3.0, "deadline_s": 60.0}
    recipe, devices, heard = fleet_recipe(privacy=plan, fleet=fleet), enrolled_many(sqlite_engine, 12), list[float]()
    server = Server(sqlite_engine, recipe, tmp_path / "run")

    def ask(self: Aggregator, round_id: str, question: str, content: bytes = b"") -> bytes:
        match question:
            case PeerQuestion.BEGIN:
                heard.append(SecureRoundTerms.model_validate_json(content).stage_s)
                if len(heard) == 6:
                    server.stopping.set()
                return b""
            case PeerQuestion.CONDUCT:
                return Conduct(missed={}, liars=()).model_dump_json().encode()
            case _:
                reason = "Expected at least 4 devices with keys, got 3"
                return StageProgress(stage=FAILED, reason=reason).model_dump_json().encode()

    monkeypatch.setattr(Aggregator, "ask", ask)
    crowd = Crowd(sqlite_engine, server.aggregators, devices, size_of(recipe))
    with server, crowd:
        assert server.coordinator.run() is None
    assert heard == [3.0, 6.0, 12.0, 24.0, 24.0, 24.0]


def test_a_round_that_was_slow_enough_lets_the_next_one_be_faster() -> None:
    link = RunLink()
    for _ in range(2):
        link.was_too_fast()
    assert link.patience == 4
    for patience in (2, 1, 1):
        link.was_slow_enough()
        assert link.patience == patience
