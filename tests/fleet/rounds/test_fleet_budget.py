"""Runs on devices draw from one budget: what does not fit is not even shown to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import pytest
from sqlalchemy import Engine, delete, select

from tacit.cli.account.odometer import DATABASE
from tacit.errors import BudgetError, FleetError
from tacit.fleet.database import schema
from tacit.fleet.database.budget_table import FleetAccount
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database
from tacit.fleet.rounds import coordinator, round_attempt
from tacit.fleet.server import serving
from tacit.privacy.accounting.budget_filter import Limit, spending
from tacit.recipe.training import Recipe
from tests.support.commands import in_this_process
from tests.support.fleet.crowd import Crowd, Server, fleet_recipe
from tests.support.fleet.people import enrolled_many
from tests.support.fleet.soundness import built

DELTA = 1e-6


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_attempt, "POLL_S", 0.02)
    monkeypatch.setattr(round_attempt, "_RETRY_S", 0.05)
    monkeypatch.setattr(coordinator, "_FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(coordinator, "setup_of", lambda folder, callback: built(folder.recipe_path.read_text()))


@pytest.fixture
def sqlite(tmp_path: Path) -> Engine:
    engine = open_database(f"sqlite:///{tmp_path}/fleet.db")
    migrate(engine)
    return engine


@pytest.fixture
def recipe() -> Recipe:
    return fleet_recipe(run={"rounds": 2}, privacy={"mechanism": "tree", "noise_multiplier": 8.0, "delta": DELTA})


@pytest.fixture
def size(recipe: Recipe) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(built(recipe.to_toml()).start.model))


def served(engine: Engine, recipe: Recipe, run: Path, **options: Any) -> Any:
    devices = options.pop("devices")
    size = options.pop("size")
    with Server(engine, recipe, run, **options) as server, Crowd(engine, server.aggregators, devices, size):
        return server.coordinator.run()


def shown(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.execute(select(schema.tasks.c.name)).scalars())


def spent(engine: Engine) -> float:
    history = FleetAccount(engine).history()
    return spending(history.charges, history.limit or Limit(1.0, DELTA)).value


def test_a_task_that_does_not_fit_is_not_shown_to_any_device(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path
) -> None:
    FleetAccount(sqlite).set_limit(Limit(0.01, DELTA))
    with pytest.raises(BudgetError, match=r"The budget of this fleet is ε = 0\.01 at δ = 1e-06, and ε = 0\.0100 of it"):
        served(sqlite, recipe, tmp_path / "run", devices=enrolled_many(sqlite, 12), size=size)
    assert shown(sqlite) == []
    assert not (tmp_path / "run" / "ledger.jsonl").exists()
    assert not FleetAccount(sqlite).history().charges


def test_a_server_that_starts_again_does_not_change_the_budget(sqlite: Engine) -> None:
    account = FleetAccount(sqlite)
    for _ in range(2):
        account.begin_with(Limit(8.0, DELTA))
    account.set_limit(Limit(4.0, DELTA))
    with pytest.raises(BudgetError, match="is ε = 4 at δ = 1e-06, and the server was started with ε = 8"):
        account.begin_with(Limit(8.0, DELTA))
    assert [each.limit.epsilon for each in account.history().budgets] == [8.0, 4.0]


def test_runs_draw_from_one_budget_until_it_is_spent(sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path) -> None:
    devices = enrolled_many(sqlite, 12)
    assert served(sqlite, recipe, tmp_path / "run", devices=devices, size=size) is not None
    history = FleetAccount(sqlite).history()  # runs are entered before there is a budget
    assert [job.open for job in history.jobs.values()] == [False]
    once = spent(sqlite)
    FleetAccount(sqlite).set_limit(Limit(1.2 * once, DELTA))
    other = recipe.model_copy(update={"name": "other"})
    with pytest.raises(BudgetError, match="of it is left: with this run"):
        served(sqlite, other, tmp_path / "other", devices=devices, size=size)
    assert shown(sqlite) == ["small"]
    FleetAccount(sqlite).set_limit(Limit(3 * once, DELTA))
    assert served(sqlite, other, tmp_path / "other", devices=devices, size=size) is not None
    assert once < spent(sqlite) <= 3 * once
    assert FleetAccount(sqlite).history().runs_before == 1


def test_the_odometer_of_a_server_says_what_is_left(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    FleetAccount(sqlite).set_limit(Limit(50.0, DELTA))
    served(sqlite, recipe, tmp_path / "run", devices=enrolled_many(sqlite, 12), size=size, odometer=tmp_path)
    assert DATABASE == serving.DATABASE
    answer = in_this_process(capfd)("account", "odometer", tmp_path, "--json").object
    assert answer["budget"]["spent"] == spent(sqlite)
    assert "The budget of this fleet is ε = 50" in in_this_process(capfd)("account", "odometer", tmp_path).out


def test_a_run_that_was_stopped_goes_on_with_what_it_has_reserved(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path
) -> None:
    devices = enrolled_many(sqlite, 12)
    FleetAccount(sqlite).set_limit(Limit(50.0, DELTA))
    assert served(sqlite, recipe, tmp_path / "run", devices=devices, size=size, stop_after=1) is None
    half = spent(sqlite)
    FleetAccount(sqlite).set_limit(Limit(half, DELTA))  # not a bit more than is reserved
    assert served(sqlite, recipe, tmp_path / "run", devices=devices, size=size) is not None
    assert spent(sqlite) == half


def test_a_run_that_may_not_be_shown_gives_back_what_it_reserved(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path
) -> None:
    devices = enrolled_many(sqlite, 12)
    FleetAccount(sqlite).set_limit(Limit(50.0, DELTA))
    assert served(sqlite, recipe, tmp_path / "run", devices=devices, size=size, stop_after=1) is None
    before = FleetAccount(sqlite).history().charges
    with pytest.raises(FleetError, match="which is not finished"):
        served(sqlite, recipe, tmp_path / "other", devices=devices, size=size)
    assert FleetAccount(sqlite).history().charges == before


def test_a_run_that_is_older_than_the_account_is_entered_when_it_is_served_again(
    sqlite: Engine, recipe: Recipe, size: int, tmp_path: Path
) -> None:
    devices = enrolled_many(sqlite, 12)
    assert served(sqlite, recipe, tmp_path / "run", devices=devices, size=size) is not None
    charges = FleetAccount(sqlite).history().charges
    with sqlite.begin() as connection:
        connection.execute(delete(schema.budget_lines))
    with pytest.raises(BudgetError, match=r"The account of this fleet lacks the run \w+") as refused:
        FleetAccount(sqlite).set_limit(Limit(50.0, DELTA))
    assert "tacit serve" in (refused.value.hint or "")
    for _ in range(2):
        assert served(sqlite, recipe, tmp_path / "run", devices=devices, size=size) is not None
        assert FleetAccount(sqlite).history().charges == charges
        assert FleetAccount(sqlite).history().length == 2
    FleetAccount(sqlite).set_limit(Limit(50.0, DELTA))
