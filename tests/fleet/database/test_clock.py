"""All processes use the database's clock, whatever their own clocks say."""

from __future__ import annotations

import time
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from tacit.fleet.database import clock

HOUR = 3600.0


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_asked", {})


def unreachable(engine: Engine) -> Any:
    raise OperationalError("SELECT", {}, Exception("away"))


def test_a_machine_whose_clock_is_wrong_knows_the_time(
    postgres_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = time.time()
    monkeypatch.setattr(time, "time", lambda: true + 24 * HOUR)
    assert true - HOUR < clock.now(postgres_engine) < true + HOUR


def test_time_goes_on_while_the_database_is_away(postgres_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: ticks)
    before = clock.now(postgres_engine)
    with monkeypatch.context() as away:
        away.setattr(clock, "read_only", unreachable)
        away.setattr(time, "monotonic", lambda: ticks + HOUR)
        assert clock.now(postgres_engine) == before + HOUR
    monkeypatch.setattr(time, "monotonic", lambda: ticks + 2 * HOUR)
    assert clock.now(postgres_engine) < before + HOUR  # asked again, and no hour has passed there


def test_a_database_that_was_never_reached_has_no_time(
    postgres_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "read_only", unreachable)
    with pytest.raises(OperationalError):
        clock.now(postgres_engine)


def test_one_machine_has_one_clock(sqlite_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 5.0)
    assert clock.now(sqlite_engine) == 5.0
