"""A run of a next-word model as the primary model: its requirements, its findings, and the cost of both models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.cli.app import main
from tacit.data.rows import to_rows
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.errors import DataError, RecipeError, RunError
from tacit.inspection.text.comparison import compare_inspections
from tacit.inspection.text.primary import LONGEST, SHOWN, Primary
from tacit.inspection.text.run import start_inspection, with_fault
from tacit.learning.next_word import evaluate
from tacit.recipe.text_inspection import TextInspection, load_text_inspection
from tacit.recipe.training import Recipe
from tacit.runs import checkpoints
from tacit.runs.folder import RunFolder
from tacit.runs.report import write_report
from tacit.simulation.training import start_run
from tacit.training.trained import load_trained
from tests.support.tiny_recipe import tiny
from tests.support.tiny_text import tiny_text

# With much noise losses are small, and quickly accounted for.
QUICK = {"noise_multiplier": 4.0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two rounds on four hundred synthetic users."""
    path = tmp_path_factory.mktemp("runs") / "words"
    start_run(primary_recipe(), path, tacit.Callback())
    return path


def primary_recipe() -> Recipe:
    return tiny(
        run={"rounds": 2, "evaluate_words": 5_000},
        data={"world_seed": 3, "held_out": 20},
        privacy=QUICK,
    )


def inspection_of(run: Path, here: Path, *changes: str, store: Path | None = None) -> TextInspection:
    """A tiny inspection of that run's users."""
    (here / "words.toml").write_text(tiny_text(fault={"share": 0.5}, privacy=QUICK).to_toml())
    return load_text_inspection(here / "words.toml", changes, primary=run, store=store)


def test_users_and_population_are_the_runs_and_the_rest_is_the_inspections(trained: Path, tmp_path: Path) -> None:
    recipe = inspection_of(trained, tmp_path)
    assert (recipe.data.world, recipe.data.users, recipe.data.world_seed) == ("keyboard", 400, 3)
    assert (recipe.data.layout, recipe.data.length) == ("sentences", 9)
    assert (recipe.privacy.population, recipe.privacy.cohort, recipe.privacy.delta) == (400, 8, 1e-4)
    assert recipe.primary == str(trained)
    assert recipe.fault is None  # it was put into the recipe's own users
    assert inspection_of(trained, tmp_path, "fault.share=0.25").fault is not None
    moved = inspection_of(trained, tmp_path, store=Path("elsewhere"))
    assert (moved.data.store, moved.data.world, moved.primary) == ("elsewhere", None, str(trained))
    assert load_text_inspection(primary=trained).privacy.cohort == 300  # of the recipe that comes along
    assert inspection_of(trained, tmp_path, "privacy.population=200").privacy.population == 200


def test_it_is_looked_into_and_its_cost_is_added(trained: Path, tmp_path: Path) -> None:
    recorded = RunFolder.open(trained).summary()
    assert recorded is not None
    summary = start_inspection(inspection_of(trained, tmp_path), tmp_path / "sound", tacit.Callback())
    found = summary["inspection"]["primary"]
    assert (found["run"], found["epsilon"]) == (str(trained), recorded["privacy"]["epsilon"])
    assert (found["accuracy"], found["words"]) == (recorded["metrics"]["top1"], recorded["metrics"]["words"])
    assert found["papers_accuracy"] == recorded["metrics"]["papers_top1"]
    assert len(found["sentences"]) == SHOWN
    assert all(len(sentence.split()) <= LONGEST for sentence in found["sentences"])
    each = (found["epsilon"], summary["privacy"]["epsilon"])
    assert max(each) < summary["together"]["epsilon"] < 2 * sum(each)
    assert (summary["together"]["models"], summary["together"]["releases"]) == (2, 2 + 4)
    shared = write_report(RunFolder.open(tmp_path / "sound"), share=True).read_text()
    assert "The primary model and its sentences" in shared

    recipe = inspection_of(trained, tmp_path, "fault.share=1.0")
    start_inspection(recipe, tmp_path / "faulty", tacit.Callback())
    compared = compare_inspections(tmp_path / "sound", tmp_path / "faulty")
    assert (compared.cost["models"], compared.cost["releases"]) == (3, 2 + 4 + 4)  # one primary model, counted once
    before, after = compared.before.primary, compared.after.primary
    assert before is not None
    assert after is not None
    assert after.sentences == before.sentences  # the model is the same one
    assert after.accuracy == expected_accuracy(trained, recipe)  # and the people have the fault:
    assert after.words < before.words


def test_people_it_was_trained_on_are_not_held_out(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"whom the run .*words was not trained on, data\.users ≥ 400, got 300"):
        start_inspection(inspection_of(trained, tmp_path, "data.users=300"), tmp_path / "run", tacit.Callback())
    assert not (tmp_path / "run").exists()


def test_what_one_without_privacy_says_is_the_owners(tmp_path: Path) -> None:
    plain = tiny(run={"rounds": 1}, privacy={"mechanism": "none", "noise_multiplier": 0.0})
    start_run(plain, tmp_path / "words", tacit.Callback())
    start_inspection(inspection_of(tmp_path / "words", tmp_path), tmp_path / "run", tacit.Callback())
    said = "sentences that it generates"
    (private,) = (tmp_path / "run" / "private" / "sections").iterdir()
    assert said in private.read_text()
    (sentence, *_) = next(each["rows"] for each in json.loads(private.read_text())["blocks"] if "rows" in each)[0]
    assert len(sentence) > 10
    open_files = [path for path in (tmp_path / "run").rglob("*.*") if path.is_file() and "private" not in path.parts]
    assert not any(sentence.encode() in path.read_bytes() for path in open_files)


def test_another_run_in_its_place_is_not_added_up(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "words")
    start_inspection(inspection_of(tmp_path / "words", tmp_path), tmp_path / "run", tacit.Callback())
    compare_inspections(tmp_path / "run", tmp_path / "run")
    marker = tmp_path / "words" / "run.json"
    marker.write_text(marker.read_text().replace(RunFolder.open(trained).run_id, "0123456789abcdef"))
    with pytest.raises(RunError, match=r"the primary model of .*run, got the run 0123456789abcdef"):
        compare_inspections(tmp_path / "run", tmp_path / "run")


def expected_accuracy(trained: Path, recipe: TextInspection) -> float:
    """That of the run's model on held-out people with the recipe's fault, laid out as in the run."""
    found = load_trained(trained)
    model, words = found.model, found.words
    data = primary_recipe().data
    world = KeyboardWorld(data.world_seed, data.users + data.held_out, vocabulary_size=data.vocabulary)
    faulty = with_fault(world, recipe.fault, words).gather(np.arange(data.users, data.users + data.held_out))
    rows = to_rows(faulty, layout=data.layout, length=data.length, max_rows=-(-data.tokens_per_user // data.length))
    return evaluate(model, rows.tokens).top1


def test_only_a_finished_run_of_a_next_word_model_will_do(trained: Path, tmp_path: Path) -> None:
    start_inspection(tiny_text(), tmp_path / "inspected", tacit.Callback())
    with pytest.raises(RecipeError, match="Expected a recipe for training, got one for an inspection"):
        inspection_of(tmp_path / "inspected", tmp_path)
    RunFolder.create(tmp_path / "begun", primary_recipe().to_toml(), vocabulary=("a",))
    with pytest.raises(RunError, match=r"begun is not finished, so it cannot be the primary model"):
        Primary.open(tmp_path / "begun")


def test_a_model_that_its_ledger_does_not_name_is_refused(trained: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(trained, tmp_path / "words")) / "checkpoints"
    last = checkpoints.latest(place)
    assert last is not None
    checkpoints.save(place, last.round, {name: 2 * array for name, array in last.arrays.items()}, {})
    with pytest.raises(RunError, match="is not the one the ledger names"):
        Primary.open(tmp_path / "words")


def test_people_with_other_words_are_refused_before_anything_is_made(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl").write_text(_chat())
    (tmp_path / "list.txt").write_text("good\nday\n")
    columns = ("--user", "user", "--text", "text", "--vocabulary", str(tmp_path / "list.txt"), "--held-out", "0.5")
    with pytest.raises(SystemExit):
        main(["data", "import", str(tmp_path / "chat.jsonl"), *columns, "--out", str(tmp_path / "store")])
    recipe = inspection_of(trained, tmp_path, "data.held_out=2", store=tmp_path / "store")
    with pytest.raises(DataError, match=r"Expected users with the 300 words of the run .*, got users with 6\."):
        start_inspection(recipe, tmp_path / "run", tacit.Callback())
    assert not (tmp_path / "run").exists()
    with pytest.raises(DataError, match="got users with other words"):
        Primary.open(trained).require_words(tuple("x" for _ in range(300)))


def _chat() -> str:
    users: list[dict[str, Any]] = [{"user": f"u{i}", "text": ["good day zog"]} for i in range(20)]
    return "".join(json.dumps(user) + "\n" for user in users)
