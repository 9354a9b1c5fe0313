"""One coordinator at a time, on both databases; a coordinator that has lost its lease changes nothing more."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from tacit.fleet.database import leases, participation_table, round_table, task_table
from tacit.fleet.database.heartbeat import Heartbeat
from tacit.fleet.database.leases import GONE_AFTER_S, LeaseLost
from tests.support.fleet.crowd import wait_for
from tests.support.fleet.people import a_round, a_task

NOW = 1_000.0


def test_of_many_that_try_at_once_one_gets_the_lease(engine: Engine) -> None:
    found, start = [], threading.Barrier(8)

    def attempt(number: int) -> None:
        start.wait()
        found.append(leases.acquire(engine, "run:x", f"{number}", now=NOW))

    for _ in range(2):  # when there is none yet, and when the old one has run out
        threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (lease,) = [each for each in found if each is not None]
        leases.release(engine, lease)
        found.clear()
    assert lease.epoch == 2


def test_a_lease_is_taken_over_only_once_it_has_run_out(engine: Engine) -> None:
    first = leases.acquire(engine, "run:x", "one", now=NOW)
    assert first is not None
    leases.renew(engine, first, now=NOW + 5)
    assert leases.acquire(engine, "run:x", "two", now=NOW + GONE_AFTER_S + 4) is None
    assert leases.acquire(engine, "run:y", "two", now=NOW) is not None
    second = leases.acquire(engine, "run:x", "two", now=NOW + GONE_AFTER_S + 5)
    assert second is not None
    assert second.epoch == first.epoch + 1
    with pytest.raises(LeaseLost):
        leases.renew(engine, first, now=NOW)
    leases.release(engine, first)  # is no longer its to give
    assert leases.acquire(engine, "run:x", "three", now=NOW + GONE_AFTER_S + 6) is None


def test_a_lease_from_before_the_clock_was_set_back_is_not_waited_for(engine: Engine) -> None:
    before = leases.acquire(engine, "run:x", "killed", now=NOW)
    assert before is not None
    after = leases.acquire(engine, "run:x", "a", now=NOW - 3600)
    assert after is not None
    assert after.epoch > before.epoch
    assert leases.acquire(engine, "run:x", "b", now=NOW - 3600) is None


def test_a_coordinator_without_its_lease_can_change_no_round(engine: Engine) -> None:
    old = leases.acquire(engine, "run:x", "one", now=NOW)
    assert old is not None
    task = a_task(engine)
    round_id = a_round(engine, task)
    assert leases.acquire(engine, "run:x", "two", now=NOW + 60) is not None
    changes = [
        lambda: round_table.settle(engine, old, round_id),
        lambda: round_table.abandon(engine, old, round_id, "because"),
        lambda: round_table.close_selection(engine, old, round_id),
        lambda: participation_table.record_participation(engine, old, task=task, round=0, attempt=0, devices=[]),
        lambda: participation_table.match_participation(engine, old, task, {}),
        lambda: task_table.publish_task(engine, old, task=task, name="x", description="{}", register=set),
    ]
    for change in changes:
        with pytest.raises(LeaseLost):
            change()
    found = round_table.find(engine, round_id)
    assert found is not None
    assert (found.state, found.places) == ("open", 3)


def test_processes_appear_and_are_missed(engine: Engine) -> None:
    leases.appear(engine, "a", role="aggregator", address="http://a", now=NOW)
    leases.appear(engine, "b", role="aggregator", address="http://b", now=NOW)
    leases.appear(engine, "c", role="selector", address="http://c", now=NOW)
    leases.appear(engine, "b", role="aggregator", address="http://b", now=NOW + 8)
    assert leases.alive(engine, ("aggregator", "all"), now=NOW + 9) == {"a": "http://a", "b": "http://b"}
    assert leases.alive(engine, ("aggregator", "all"), now=NOW + 11) == {"b": "http://b"}
    # Somebody sets the clock back by an hour: whoever is there says so by that clock.
    assert leases.alive(engine, ("aggregator", "all"), now=NOW - 3600) == {}
    leases.disappear(engine, "b")
    assert leases.alive(engine, ("aggregator", "all"), now=NOW + 11) == {}


def test_a_heartbeat_renews_its_lease_and_notices_when_it_is_lost(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.fleet.database.heartbeat.RENEW_S", 0.02)
    beaten = threading.Event()
    heartbeat = Heartbeat(engine, "a", role="coordinator", address="http://a", on_beat=beaten.set)
    heartbeat.start()
    try:
        with pytest.raises(LeaseLost):
            heartbeat.require()
        lease = heartbeat.acquire("run:x")
        assert lease is not None
        heartbeat.require()
        assert beaten.wait(600)
        assert leases.acquire(engine, "run:x", "b", now=time.time() + 60) is not None
        wait_for(lambda: heartbeat._lease is None)
        with pytest.raises(LeaseLost):
            heartbeat.require()
    finally:
        heartbeat.stop()
    assert leases.alive(engine, ("coordinator",), now=time.time()) == {}


def test_a_process_that_starts_while_the_database_is_away_is_entered_by_a_later_beat(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.fleet.database.heartbeat.RENEW_S", 0.02)
    real, tries = leases.appear, list[str]()

    def appear(*arguments: Any, **named: Any) -> None:
        tries.append("try")
        if len(tries) < 3:
            raise OperationalError("", None, Exception("the database is away"))
        real(*arguments, **named)

    monkeypatch.setattr(leases, "appear", appear)
    heartbeat = Heartbeat(engine, "a", role="coordinator", address="http://a")
    heartbeat.start()
    try:
        wait_for(lambda: leases.alive(engine, ("coordinator",), now=time.time()) == {"a": "http://a"})
    finally:
        heartbeat.stop()


def test_a_lease_that_could_not_be_renewed_in_time_is_lost(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    heartbeat = Heartbeat(engine, "a", role="coordinator", address="http://a")
    assert heartbeat.acquire("run:x") is not None
    heartbeat.require()
    later = time.monotonic() + GONE_AFTER_S
    monkeypatch.setattr("tacit.fleet.database.heartbeat.time.monotonic", lambda: later)
    with pytest.raises(LeaseLost):
        heartbeat.require()
