"""What every account promises: never over the budget, no charge lost, one process at a time, a damaged account admits nobody.

The account of a store lies in a file, that of a fleet in a database (SQLite, and PostgreSQL where it is installed).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tacit.errors import BudgetError
from tacit.fleet.database.budget_table import FleetAccount
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database
from tacit.privacy.accounting.budget_filter import Limit
from tacit.privacy.accounting.charges import Charge
from tacit.runs.budget.account import Account
from tacit.runs.budget.of_store import account_of
from tacit.runs.budget.records import ChargedRun
from tests.support.fleet.postgres import KINDS, postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

ADD = "add or remove one user"
BUDGET = Limit(None, None, 1.0)
Reopen = Callable[[], Account]


def costs(rho: float, **more: object) -> Callable[[], Charge]:
    return lambda: Charge("user", ADD, rho=rho, **more)  # type: ignore[arg-type]


@pytest.fixture(params=["file", *KINDS])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reopen]:
    """Opens the same account, as another process does."""
    if request.param == "file":
        yield lambda: account_of(tmp_path)
        return
    url = f"sqlite:///{tmp_path}/fleet.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    engine = open_database(url)
    migrate(engine)
    yield lambda: FleetAccount(engine)
    engine.dispose()


def test_what_is_reserved_is_charged_until_it_is_settled(reopen: Reopen) -> None:
    reopen().set_limit(BUDGET)
    reopen().reserve("a", "runs/a", costs(0.6))
    with pytest.raises(BudgetError, match=r"ρ = 0\.4000 of it is left: with this run ρ = 1\.1000 would be spent"):
        reopen().reserve("b", "runs/b", costs(0.5))
    reopen().settle("a", costs(0.5))
    reopen().reserve("b", "runs/b", costs(0.5))
    jobs = reopen().history().jobs
    assert {run: (job.charge.rho if job.charge else None, job.open) for run, job in jobs.items()} == {
        "a": (0.5, False),
        "b": (0.5, True),
    }
    with pytest.raises(BudgetError):
        reopen().reserve("c", "runs/c", costs(1e-9))


def test_a_refusal_leaves_no_trace(reopen: Reopen) -> None:
    reopen().set_limit(BUDGET)
    before = reopen().history().head
    for charge in (costs(1.1), costs(0.1, unknown="no noise is added"), costs(0.1, threshold_delta=1e-9)):
        with pytest.raises(BudgetError):
            reopen().reserve("a", "runs/a", charge)
    with pytest.raises(BudgetError, match="only its ρ can be changed"):
        reopen().set_limit(Limit(1.0, 1e-6))
    assert reopen().history().head == before


def test_a_charge_only_grows_until_it_is_settled(reopen: Reopen) -> None:
    reopen().set_limit(BUDGET)
    for rho in (0.2, 0.6, 0.3):
        reopen().reserve("a", "runs/a", costs(rho))
    assert reopen().history().charges["a"].rho == 0.6
    assert reopen().history().length == 3  # a reservation that covers the charge is not written again
    with pytest.raises(BudgetError):
        reopen().reserve("a", "runs/a", costs(1.1))
    assert reopen().history().charges["a"].rho == 0.6


def test_a_run_that_never_began_gives_back_what_it_reserved(reopen: Reopen) -> None:
    reopen().set_limit(BUDGET)
    reopen().reserve("a", "runs/a", costs(1.0))
    reopen().settle("a", lambda: None)
    reopen().settle("a", costs(9.0))  # it is settled already
    reopen().settle("stranger", costs(9.0))
    reopen().reserve("b", "runs/b", costs(1.0))
    assert list(reopen().history().charges) == ["b"]
    with pytest.raises(BudgetError):
        reopen().reserve("a", "runs/a", costs(0.1))  # its process was alive, and finds its reservation gone


def test_a_settled_run_goes_on_without_new_cost_and_not_with_it(reopen: Reopen) -> None:
    reopen().set_limit(BUDGET)
    reopen().reserve("a", "runs/a", costs(1.0))
    reopen().settle("a", costs(1.0))
    with pytest.raises(BudgetError, match="with this run"):
        reopen().reserve("a", "runs/a", costs(1.1))
    reopen().reserve("a", "runs/a", costs(1.0))
    assert reopen().history().jobs["a"].open


def test_a_budget_is_changed_by_command_and_every_change_is_kept(reopen: Reopen) -> None:
    reopen().set_limit(BUDGET)
    reopen().reserve("a", "runs/a", costs(0.6))
    with pytest.raises(BudgetError, match=r"at least ρ = 0\.6000 .* which is spent or reserved, got ρ = 0\.5"):
        reopen().set_limit(Limit(None, None, 0.5))
    for rho in (0.7, 2.0, 0.8, 1.5):
        reopen().set_limit(Limit(None, None, rho))
    history = reopen().history()
    assert [each.limit.rho for each in history.budgets] == [1.0, 0.7, 2.0, 0.8, 1.5]
    assert history.raised == 2


def test_what_becomes_known_to_be_unbounded_stops_everybody(reopen: Reopen) -> None:
    reopen().set_limit(BUDGET)
    reopen().reserve("a", "runs/a", costs(0.1))
    reopen().settle("a", costs(0.1, unknown="the ledger departs from its plan"))
    for act in (
        lambda: reopen().reserve("b", "runs/b", costs(0.1)),
        lambda: reopen().set_limit(Limit(None, None, 9.0)),
    ):
        with pytest.raises(BudgetError, match="the ledger departs from its plan"):
            act()


def test_runs_from_before_are_charged_with_the_budget(reopen: Reopen) -> None:
    earlier = ChargedRun("a", "runs/a", costs(0.9)(), ended=False)
    with pytest.raises(BudgetError, match="at least"):
        reopen().set_limit(Limit(None, None, 0.5), lambda history: [earlier])
    assert reopen().history().limit is None
    reopen().set_limit(BUDGET, lambda history: [earlier])
    with pytest.raises(BudgetError):
        reopen().reserve("b", "runs/b", costs(0.2))
    reopen().settle("a", costs(0.8))
    reopen().reserve("b", "runs/b", costs(0.2))


def test_several_jobs_are_asked_for_at_once(reopen: Reopen) -> None:
    reopen().require_room({"a": costs(9.0)()})
    reopen().set_limit(BUDGET)
    reopen().require_room({"a": costs(0.5)(), "b": costs(0.5)()})
    with pytest.raises(BudgetError, match=r"with these 3 runs ρ = 1\.5"):
        reopen().require_room({name: costs(0.5)() for name in "abc"})
    assert not reopen().history().charges


def test_of_many_who_want_the_last_of_the_budget_as_many_get_it_as_fit(reopen: Reopen) -> None:
    reopen().set_limit(BUDGET)
    got: list[int] = []
    begin = threading.Barrier(8)

    def slow() -> Charge:
        time.sleep(0.02)  # the account has been read, and others would read it too if they could
        return costs(0.3)()

    def ask(number: int) -> None:
        begin.wait()
        try:
            reopen().reserve(str(number), "runs", slow)
        except BudgetError:
            return
        got.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 3
    assert sorted(map(int, reopen().history().charges)) == sorted(got)
