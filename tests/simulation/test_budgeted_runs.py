"""Real runs on a store whose people have a budget: refused, stopped, killed at every write, gone on with, extended."""

from __future__ import annotations

import gc
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tacit
from tacit.data.sharding import cut_into_shards
from tacit.errors import BudgetError
from tacit.privacy.accounting.budget_filter import Limit, spending
from tacit.privacy.accounting.charges import Charge
from tacit.recipe.training import Recipe
from tacit.runs import odometer
from tacit.runs.budget import of_store
from tacit.runs.budget.listed import GIVEN_BACK, SETTLED, charge_of_ledger, settle_open
from tacit.runs.budget.of_store import NAME, account_of
from tacit.runs.budget.reservation import Reservation
from tacit.runs.finding import is_run
from tacit.runs.folder import RunFolder
from tacit.simulation.training import resume_run, start_run
from tests.support.swept import cases_with_noise, on_store, small_store

DELTA = 1e-5
ROUNDS = 2


class Killed(BaseException):
    """Nothing is written any more."""


class Disk:
    """Every durable write goes through here; after the one with number `last`, none happens any more."""

    def __init__(self) -> None:
        self.last: int | None = None
        self.writes = 0

    def append(self, descriptor: int, data: bytes) -> None:
        if self.last is not None and self.writes >= self.last:
            raise Killed
        self.writes += 1
        os.write(descriptor, data)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = Disk()
    for module in ("tacit.files", "tacit.runs.odometer", "tacit.runs.budget.of_store"):
        monkeypatch.setattr(f"{module}.append_synced", found.append)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return small_store(tmp_path / "store")


@pytest.fixture
def recipe(store: Path) -> Recipe:
    return on_store(store, run={"rounds": ROUNDS, "checkpoint_every": 1})


def run(recipe: Recipe, out: Path) -> None:
    start_run(recipe, out, tacit.Callback())


def cost(recipe: Recipe, tmp_path: Path) -> float:
    """What the recipe costs by itself, as a budget at DELTA counts it."""
    other = small_store(tmp_path / "elsewhere")
    account_of(other).set_limit(Limit(60.0, DELTA))
    run(recipe.model_copy(update={"data": recipe.data.model_copy(update={"store": str(other)})}), tmp_path / "alone")
    return spent(other)


def close_files_in(folder: Path) -> None:
    """A process that is gone has no open file, and no lock on one."""
    gc.collect()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if descriptor.readlink().is_relative_to(folder):
                os.close(int(descriptor.name))


def spent(store: Path) -> float:
    history = account_of(store).history()
    assert history.limit is not None
    return spending(history.charges, history.limit).value


def only_charge(store: Path) -> Charge:
    (found,) = account_of(store).history().charges.values()
    return found


def test_runs_are_admitted_until_the_budget_is_spent(store: Path, recipe: Recipe, tmp_path: Path) -> None:
    once = cost(recipe, tmp_path)
    tacit.set_budget(store, epsilon=1.3 * once, delta=DELTA)
    run(recipe, tmp_path / "first")
    assert spent(store) == once
    before = (store / NAME).read_bytes()
    with pytest.raises(
        BudgetError, match=r"of it is left: with this run ε = \d+\.\d+ would be spent or reserved"
    ) as no:
        run(recipe, tmp_path / "second")
    assert "What would fit: " in (no.value.hint or "")
    assert (store / NAME).read_bytes() == before
    refused = RunFolder.open(tmp_path / "second")
    assert not refused.begun
    assert not refused.participation_path.exists()
    status = tacit.budget_of(store)
    assert status is not None
    assert status.left == 1.3 * once - once
    assert status.sentence in str(tacit.open_run(tmp_path / "first").guarantee())
    tacit.set_budget(store, epsilon=3 * once, delta=DELTA)
    resume_run(tmp_path / "second", tacit.Callback())  # the run that was refused begins now
    assert once < spent(store) <= 3 * once


def test_runs_from_before_are_charged_when_the_budget_is_set(store: Path, recipe: Recipe, tmp_path: Path) -> None:
    run(recipe, tmp_path / "first")
    assert tacit.budget_of(store) is None
    with pytest.raises(BudgetError, match="Expected a budget of at least ε = "):
        tacit.set_budget(store, epsilon=0.01, delta=DELTA)
    assert tacit.budget_of(store) is None
    found = tacit.set_budget(store, epsilon=50.0, delta=DELTA)
    assert (found.runs, found.runs_before, found.open_runs) == (1, 1, ())
    assert "set after 1 run, never raised" in found.sentence
    assert only_charge(store) == charge_of_ledger(RunFolder.open(tmp_path / "first").ledger())


def test_a_run_without_privacy_is_refused_and_one_from_before_stands_in_the_way(
    store: Path, recipe: Recipe, tmp_path: Path
) -> None:
    seeded = on_store(store, run={"rounds": ROUNDS, "seed": 3})
    tacit.set_budget(store, epsilon=50.0, delta=DELTA)
    with pytest.raises(BudgetError, match="what this run costs is unknown or infinite"):
        run(seeded, tmp_path / "first")
    other = small_store(tmp_path / "other")
    run(on_store(other, run={"rounds": ROUNDS, "seed": 3}), tmp_path / "second")
    with pytest.raises(BudgetError, match=r"No budget can be set for .*: the cost of the run \w+ is unknown"):
        tacit.set_budget(other, epsilon=50.0, delta=DELTA)


def test_a_run_on_replaced_users_does_not_fit_beside_one_on_added_ones(
    store: Path, recipe: Recipe, tmp_path: Path
) -> None:
    tacit.set_budget(store, epsilon=90.0, delta=DELTA)
    run(recipe, tmp_path / "first")
    fixed = on_store(store, run={"rounds": ROUNDS}, privacy={"sampling": "fixed", "noise_multiplier": 20.0})
    with pytest.raises(BudgetError, match="there is no common bound"):
        run(fixed, tmp_path / "second")


def test_more_rounds_are_reserved_before_the_ledger_plans_them(store: Path, recipe: Recipe, tmp_path: Path) -> None:
    once = cost(recipe, tmp_path)
    tacit.set_budget(store, epsilon=1.001 * once, delta=DELTA)
    run(recipe, tmp_path / "run")
    before = (tmp_path / "run" / "ledger.jsonl").read_bytes()
    with pytest.raises(BudgetError, match="of it is left"):
        tacit.resume(tmp_path / "run", rounds=4 * ROUNDS)
    assert (tmp_path / "run" / "ledger.jsonl").read_bytes() == before
    tacit.set_budget(store, epsilon=9 * once, delta=DELTA)
    tacit.resume(tmp_path / "run", rounds=4 * ROUNDS)
    assert once < spent(store) <= 9 * once
    assert "raised once" in str(tacit.open_run(tmp_path / "run").guarantee())


def test_a_sweep_is_refused_as_a_whole_before_its_first_case(store: Path, recipe: Recipe, tmp_path: Path) -> None:
    once = cost(recipe, tmp_path)
    cases = cases_with_noise(store, [2.0, 2.5, 3.0])
    tacit.set_budget(store, epsilon=1.01 * once, delta=DELTA)
    with pytest.raises(BudgetError, match="with these 3 runs"):
        tacit.sweep(cases, out=tmp_path / "sweep")
    assert not any(is_run(tmp_path / "sweep" / case.name) for case in cases)
    assert not account_of(store).history().charges
    done = tacit.sweep(cases, out=tmp_path / "sweep", only=["z2.5"])
    assert [each.state for each in done.results()] == ["waiting", "finished", "waiting"]
    tacit.set_budget(store, epsilon=4 * once, delta=DELTA)
    done = tacit.sweep(cases, out=tmp_path / "sweep")
    assert {each.state for each in done.results()} == {"finished"}
    assert len(account_of(store).history().charges) == 3


def test_wherever_a_run_is_killed_it_is_charged_for_what_it_released_and_goes_on(
    recipe: Recipe, tmp_path: Path, disk: Disk
) -> None:
    """Before each durable write in turn. `settle_open` then knows what was released, and the run can go on to its end."""
    kills = outcomes = 0
    finished = False
    seen: set[str] = set()
    while not finished:
        place = tmp_path / str(kills)
        store, out = small_store(place / "store"), place / "run"
        here = recipe.model_copy(update={"data": recipe.data.model_copy(update={"store": str(store)})})
        tacit.set_budget(store, epsilon=60.0, delta=DELTA)
        disk.writes, disk.last = 0, kills
        try:
            run(here, out)
            finished = True
        except Killed:
            kills += 1
        close_files_in(place)
        disk.last = None
        history = account_of(store).history()
        folder = RunFolder.open(out) if is_run(out) else None
        ledger = folder.ledger() if folder is not None and folder.begun else None
        if ledger is not None and ledger.intents:
            assert only_charge(store).covers(charge_of_ledger(ledger))
        assert spending(history.charges, Limit(60.0, DELTA)).value <= 60.0
        if finished:
            assert not any(job.open for job in history.jobs.values())
            break
        found = settle_open(store)
        seen |= {each.outcome for each in found}
        outcomes += len(found)
        if found and found[0].outcome == GIVEN_BACK:
            assert ledger is None
            assert not account_of(store).history().charges
        elif found:
            assert ledger is not None
            assert only_charge(store) == charge_of_ledger(ledger)
        if ledger is not None and kills % 3 == 0 and (ledger.closed is None or ledger.closed.outcome != "finished"):
            resume_run(out, tacit.Callback())
            assert only_charge(store) == charge_of_ledger(RunFolder.open(out).ledger())
            assert not any(job.open for job in account_of(store).history().jobs.values())
    assert seen == {GIVEN_BACK, SETTLED}
    assert kills > 10


def test_a_run_that_goes_on_pays_for_the_rounds_that_run_again(store: Path, recipe: Recipe, tmp_path: Path) -> None:
    """A run that was killed again and again is refused when its repetitions do not fit, and its charge is what was released."""
    from tacit.runs.journal import RunJournal

    once = cost(recipe, tmp_path)
    tacit.set_budget(store, epsilon=1.2 * once, delta=DELTA)
    before, refused = RunJournal.before, None

    def dies(self: RunJournal, cohort: Any, norms: Any) -> None:
        before(self, cohort, norms)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunJournal, "before", dies)
        with pytest.raises(Killed):
            run(recipe, tmp_path / "run")
        for _ in range(20):
            try:
                resume_run(tmp_path / "run", tacit.Callback())
            except Killed:
                continue
            except BudgetError as error:
                refused = error
                break
    assert refused is not None
    assert "with this run" in refused.sentence
    ledger = RunFolder.open(tmp_path / "run").ledger()
    assert 1 < len(ledger.intents) < 20
    assert once < spent(store) <= 1.2 * once
    assert only_charge(store).covers(charge_of_ledger(ledger))


def test_an_attempt_that_nobody_planned_is_reserved_for_before_its_intent(
    store: Path, recipe: Recipe, tmp_path: Path
) -> None:
    """As on a fleet, where a round is tried again in the same process."""
    run(recipe, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    opened, intents = folder.ledger().opened, folder.ledger().intents
    tacit.set_budget(store, epsilon=50.0, delta=DELTA)
    once = spent(store)
    reservation = Reservation(folder, store)
    reservation.reserve(opened)
    reservation.admit([], 0)
    reservation.admit(intents[:1], 1)
    assert spent(store) == once
    reservation.admit(intents[:1], 0)
    twice = spent(store)
    assert twice > once
    reservation.admit(intents, 1)
    assert spent(store) == twice
    tacit.set_budget(store, epsilon=twice, delta=DELTA)
    with pytest.raises(BudgetError, match="with this run"):
        reservation.admit(intents, 0)
    assert spent(store) == twice


def test_a_budget_that_is_set_between_an_attempt_and_its_intent_admits_it_first(
    store: Path, recipe: Recipe, tmp_path: Path
) -> None:
    run(recipe, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    opened, intents = folder.ledger().opened, folder.ledger().intents
    reservation = Reservation(folder, store)
    reservation.reserve(opened)
    reservation.admit(intents, 1)  # a third intent; there is no account yet
    tacit.set_budget(store, epsilon=50.0, delta=DELTA)
    twice = spent(store)
    tacit.set_budget(store, epsilon=twice, delta=DELTA)  # the ledger has two
    with pytest.raises(BudgetError, match="with this run"):
        reservation.confirm()


def test_a_reservation_that_was_given_back_is_made_again_before_anybody_is_read(
    store: Path, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tacit.set_budget(store, epsilon=50.0, delta=DELTA)
    create = RunFolder.create_ledger

    def meanwhile(self: RunFolder, opened: Any) -> Any:
        assert [each.outcome for each in settle_open(store)] == [GIVEN_BACK]
        status = tacit.budget_of(store)
        assert status is not None
        account_of(store).reserve("other", "runs/other", lambda: Charge(opened.unit, opened.adjacency, rho=status.room))
        return create(self, opened)

    monkeypatch.setattr(RunFolder, "create_ledger", meanwhile)
    with pytest.raises(BudgetError, match="with this run"):
        run(recipe, tmp_path / "run")
    assert not RunFolder.open(tmp_path / "run").ledger().intents
    assert list(account_of(store).history().charges) == ["other"]


def test_a_store_and_its_shards_draw_from_one_account(store: Path, recipe: Recipe, tmp_path: Path) -> None:
    tacit.set_budget(store, epsilon=50.0, delta=DELTA)
    cut = cut_into_shards(tacit.open_store(store), tmp_path / "cut", 2).path
    run(recipe, tmp_path / "whole")
    once = spent(store)
    tacit.set_budget(cut, epsilon=1.2 * once, delta=DELTA)
    for place in (store, cut):
        with pytest.raises(BudgetError, match="of it is left: with this run"):
            run(on_store(place, run={"rounds": ROUNDS}), tmp_path / f"on-{place.name}")
    shutil.copytree(cut, tmp_path / "copy", symlinks=True)
    assert spent(tmp_path / "copy") == once  # on the same machine the link is good
    (tmp_path / "copy" / NAME).unlink()  # on another it is not
    with pytest.raises(BudgetError, match="lines are missing") as refused:
        run(on_store(tmp_path / "copy", run={"rounds": ROUNDS}), tmp_path / "on-copy")
    assert "A copy of a store has no account" in (refused.value.hint or "")


def test_an_account_that_is_gone_or_shortened_admits_nobody(store: Path, recipe: Recipe, tmp_path: Path) -> None:
    tacit.set_budget(store, epsilon=50.0, delta=DELTA)
    empty = (store / NAME).read_bytes()
    run(recipe, tmp_path / "first")
    whole = (store / NAME).read_bytes()
    wrong = (
        (b"", "lines are missing"),
        (None, "lines are missing"),
        (empty, "lacks the run"),
        (whole.replace(b'"rho":0.0', b'"rho":0.1', 1), "damaged at line 2"),
    )
    for number, (damaged, why) in enumerate(wrong):
        (store / NAME).unlink(missing_ok=True)
        if damaged is not None:
            (store / NAME).touch(0o600)
            (store / NAME).write_bytes(damaged)
        with pytest.raises(BudgetError, match=why):
            run(recipe, tmp_path / f"other{number}")
    (store / NAME).write_bytes(whole)
    assert of_store.account_of(store).history().charges
    assert odometer.budget_head(store) is not None
