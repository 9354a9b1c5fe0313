"""What a sweep costs: never less than what the ledgers of its runs compose to, whatever became of them."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import tacit
from tacit.api.sweep import prepared
from tacit.errors import DivergedError
from tacit.privacy.record.ledger import read_ledger
from tacit.recipe.sweep import SweepCase
from tacit.runs import odometer
from tacit.runs.cost import total_cost
from tacit.simulation.sweep.folder import SweepFolder
from tacit.simulation.sweep.preparing import DISCOVERIES
from tacit.simulation.sweep.statement import PeoplesCost, statement_of
from tacit.simulation.training import estimate_of_recipe, start_run
from tests.support.chats import write_chat, write_list
from tests.support.stopping import stopped
from tests.support.swept import begun, cases_with_noise, on_store, small_store
from tests.support.tiny_recipe import tiny


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return small_store(tmp_path / "store")


def the_one(folder: SweepFolder) -> PeoplesCost:
    [found] = statement_of(folder)
    return found


def train(folder: SweepFolder, *names: str) -> None:
    for case in folder.cases:
        if case.name in names:
            start_run(case.recipe, folder.run_path(case), tacit.Callback())


def composed(*runs: Path, adaptive: bool = False) -> float:
    """What the ledgers of these runs cost together, computed without the sweep."""
    total, _ = total_cost([(read_ledger(run / "ledger.jsonl"), None) for run in runs], None, adaptive=adaptive)
    return total.epsilon


def test_cases_that_have_not_begun_count_with_all_their_rounds(tmp_path: Path, store: Path) -> None:
    folder = begun(tmp_path / "sweep", cases_with_noise(store, [2.0, 3.0]))
    before = the_one(folder)
    assert (before.runs, before.to_come, before.adaptive, before.made_up) == (2, 2, False, False)
    train(folder, "z2")
    half = the_one(folder)
    assert (half.runs, half.to_come) == (2, 1)
    train(folder, "z3")
    done = the_one(folder)
    assert (done.runs, done.to_come) == (2, 0)
    assert before.epsilon == half.epsilon == done.epsilon == composed(folder.path / "z2", folder.path / "z3")
    assert done.epsilon > composed(folder.path / "z2")
    assert "composed as one, because all cases were settled before the first began" in done.sentences()[0]


def test_a_run_that_stopped_counts_with_all_its_rounds_and_once_it_ran_again_with_more(
    tmp_path: Path, store: Path
) -> None:
    folder = begun(tmp_path / "sweep", cases_with_noise(store, [2.0, 3.0], run={"rounds": 4, "checkpoint_every": 4}))
    planned = the_one(folder).epsilon
    stopped(folder.cases[0].recipe, folder.path / "z2", round=1)
    assert the_one(folder).epsilon == planned
    (folder.path / "z2" / "checkpoints" / "round-000002.safetensors").unlink()
    tacit.resume(folder.path / "z2", older_if_damaged=True)
    ledger = read_ledger(folder.path / "z2" / "ledger.jsonl")
    assert len(ledger.intents) == 6
    train(folder, "z3")
    found = the_one(folder).epsilon
    assert found > planned
    assert found == composed(folder.path / "z2", folder.path / "z3")


def test_a_run_that_was_deleted_and_begun_again_makes_the_total_unknown(tmp_path: Path, store: Path) -> None:
    folder = begun(tmp_path / "sweep", cases_with_noise(store, [2.0]))
    train(folder, "z2")
    shutil.rmtree(folder.path / "z2")
    gone = the_one(folder)
    assert math.isinf(gone.epsilon)
    assert "unknown epsilon, so nothing can be claimed" in gone.sentences()[0]
    train(folder, "z2")
    again = the_one(folder)
    assert math.isinf(again.epsilon)
    assert again.as_dict()["epsilon"] is None


def test_a_run_that_the_stores_list_does_not_have_makes_the_total_unknown(tmp_path: Path, store: Path) -> None:
    folder = begun(tmp_path / "sweep", cases_with_noise(store, [2.0]))
    train(folder, "z2")
    (store / odometer.NAME).unlink()
    assert "the store's odometer does not list it" in the_one(folder).sentences()[0]


def test_other_runs_on_the_store_are_added_by_the_odometers_bound(tmp_path: Path, store: Path) -> None:
    folder = begun(tmp_path / "sweep", cases_with_noise(store, [2.0, 3.0]))
    start_run(on_store(store), tmp_path / "other", tacit.Callback())
    train(folder, "z2", "z3")
    found = the_one(folder)
    runs = [folder.path / "z2", folder.path / "z3", tmp_path / "other"]
    assert found.epsilon == composed(*runs[:2])
    assert found.others == 1
    assert found.with_others is not None
    assert found.with_others.total is not None
    assert found.with_others.total.epsilon == pytest.approx(composed(*runs, adaptive=True))
    assert "with the 1 other run that the store's odometer lists" in found.sentences()[1]


def test_cases_that_were_added_are_charged_as_chosen_by_looking_at_the_others(tmp_path: Path, store: Path) -> None:
    settled = begun(tmp_path / "both", cases_with_noise(store, [2.0, 3.0]))
    folder = begun(tmp_path / "sweep", cases_with_noise(store, [2.0]))
    train(folder, "z2")
    folder = folder.with_cases([settled.cases[1]])
    folder.write()
    folder = SweepFolder.open(folder.path)
    train(folder, "z3")
    found = the_one(folder)
    assert found.adaptive
    assert found.epsilon == pytest.approx(composed(folder.path / "z2", folder.path / "z3", adaptive=True))
    assert found.epsilon > the_one(replace(settled, path=tmp_path / "elsewhere", places=())).epsilon
    assert "although cases or rounds were added after others had begun" in found.sentences()[0]


def test_a_run_that_was_extended_is_charged_as_such(tmp_path: Path, store: Path) -> None:
    folder = begun(tmp_path / "sweep", cases_with_noise(store, [2.0, 3.0]))
    planned = the_one(folder).epsilon
    train(folder, "z2")
    tacit.resume(folder.path / "z2", rounds=3)
    found = the_one(folder)
    assert found.adaptive
    assert found.epsilon > planned
    assert "although cases or rounds were added" in found.sentences()[0]
    train(folder, "z3")
    assert the_one(folder).epsilon == pytest.approx(composed(folder.path / "z2", folder.path / "z3", adaptive=True))


def test_two_stores_have_a_statement_each_and_one_for_somebody_in_both(tmp_path: Path, store: Path) -> None:
    second = small_store(tmp_path / "second")
    cases = [SweepCase("first", on_store(store)), SweepCase("second", on_store(second)), SweepCase("world", tiny())]
    folder = begun(tmp_path / "sweep", cases)
    train(folder, "first", "second")
    first, other, world, both = statement_of(folder)
    assert {each.people for each in (first, other)} == {str(store), str(second)}
    assert world.made_up
    assert "its users are made up, so nobody pays" in world.sentences()[0]
    assert both.people == "Somebody in all of these stores"
    assert both.epsilon == composed(folder.path / "first", folder.path / "second")
    assert max(first.epsilon, other.epsilon) < both.epsilon


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"privacy": {"mechanism": "none", "noise_multiplier": 0.0}}, "no noise"), ({"run": {"seed": 1}}, "seed")],
)
def test_a_case_without_privacy_makes_the_whole_sweep_infinite(
    tmp_path: Path, store: Path, changes: dict[str, dict[str, object]], reason: str
) -> None:
    cases = [SweepCase("private", on_store(store)), SweepCase("open", on_store(store, **changes))]
    folder = begun(tmp_path / "sweep", [replace(cases[0], name="noisy"), cases[1]])
    found = the_one(folder)
    assert math.isinf(found.epsilon)
    assert "an infinite epsilon, because" in found.sentences()[0]
    assert reason in found.sentences()[0]


def test_neighbours_of_two_kinds_cannot_be_added_up(tmp_path: Path, store: Path) -> None:
    cases = [SweepCase("one", on_store(store)), SweepCase("two", on_store(store, privacy={"sampling": "fixed"}))]
    found = the_one(begun(tmp_path / "sweep", cases))
    assert math.isinf(found.epsilon)
    assert "adjacency" in found.sentences()[0]


def test_words_that_cases_discover_for_themselves_count_before_and_after(tmp_path: Path) -> None:
    store, listed = write_chat(tmp_path / "store").path, write_list(tmp_path / "words.txt")
    words = {"size": 12, "sure": 2, "epsilon": 40.0, "words": str(listed)}
    recipe = on_store(store, privacy={"delta": 1e-4})
    discovering = type(recipe).model_validate(recipe.model_dump(mode="json", exclude_none=True) | {"vocabulary": words})
    cases = [SweepCase("one", discovering), SweepCase("two", discovering)]
    assert prepared(tmp_path / "sweep", cases).warnings[DISCOVERIES] == ["one", "two"]
    folder = begun(tmp_path / "sweep", cases)
    planned, alone = the_one(folder), the_one(begun(tmp_path / "alone", cases[:1]))
    assert math.isfinite(planned.epsilon)
    assert planned.epsilon > alone.epsilon > 30
    assert alone.epsilon == pytest.approx(estimate_of_recipe(discovering, trial=False)[0].epsilon, rel=0.01)
    train(folder, "one")
    train(folder, "two")
    done = the_one(folder)
    assert done.runs == 4  # the discoveries are runs of their own
    runs = [folder.path / name for name in ("one", "one-words", "two", "two-words")]
    assert done.epsilon == pytest.approx(composed(*runs))
    assert done.epsilon == pytest.approx(planned.epsilon)


def test_a_run_that_diverged_counts_with_all_its_rounds(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate = {"server": {"optimizer": "sgd", "learning_rate": 1e30}, "run": {"rounds": 4}}
    folder = begun(tmp_path / "sweep", cases_with_noise(store, [2.0, 3.0], **rate))
    planned = the_one(folder).epsilon
    with pytest.raises(DivergedError):
        train(folder, "z2")
    assert the_one(folder).epsilon == planned
