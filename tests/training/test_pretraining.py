"""Pre-training as a stage of a run: made once, named in the ledger, started from, and never the private data itself."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.data.build import save_users
from tacit.data.users import names_of_numbers
from tacit.data.vocabulary import PRIVATE, Vocabulary, word_list
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.errors import DataError, PrivacyError, RunError, StoreError, TacitError
from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.statement.guarantee import Guarantee
from tacit.recipe.training import Recipe
from tacit.runs import checkpoints
from tacit.runs.folder import RunFolder
from tacit.runs.journal import RunJournal, StopRequested
from tacit.runs.metrics import EPSILON_SO_FAR, read_metrics
from tacit.runs.plots import plot_training
from tacit.runs.report.assemble import report_html
from tacit.simulation.batched import BatchedUsers
from tacit.simulation.training import resume_run, start_run
from tacit.training import datasets, pretraining
from tacit.training.recipes import RecipeSetup
from tests.support.list_users import ListUsers
from tests.support.run_arrays import assert_same_arrays
from tests.support.store_keys import KEY
from tests.support.tiny_recipe import tiny

WORLD = {"world": "keyboard", "users": 40, "epochs": 1, "batch_size": 8}


def recipe_with(pretrain: dict[str, Any], **sections: dict[str, Any]) -> Recipe:
    """The tiny recipe with a [pretrain]; seeded, so that runs can be compared."""
    sections["run"] = {"seed": 5, "rounds": 2, **sections.get("run", {})}
    return Recipe.model_validate({**tiny(**sections).model_dump(mode="json"), "pretrain": pretrain})


@pytest.fixture
def public_store(tmp_path: Path) -> Path:
    """A few sentences over the keyboard's words, in numbers of its own."""
    words = KeyboardWorld(1, 1, vocabulary_size=60).words[4:]
    vocabulary = Vocabulary(("madam", *reversed(words)), PRIVATE)
    sentences = np.random.default_rng(0).integers(4, 61, (12, 3, 8)).tolist()
    save_users(ListUsers(sentences), tmp_path / "public", source="letters", vocabulary=vocabulary, key=KEY)
    return tmp_path / "public"


class Watching(tacit.Callback):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.evaluations: list[Any] = []

    def on_pretraining(self, step: int, steps: int, loss: float) -> None:
        self.steps.append((step, steps))

    def on_evaluation(self, round: int, metrics: Any) -> None:
        self.evaluations.append(round)


def kept(run: Path) -> checkpoints.Checkpoint:
    return checkpoints.load(checkpoints.path_of(run / "pretrained", 0))


def stopped(recipe: Recipe, run: Path, monkeypatch: pytest.MonkeyPatch, *, round: int = 0) -> None:
    """A run that somebody stopped in this round."""
    before = RunJournal.before

    def stopping(self: RunJournal, cohort: Any, norms: Any) -> None:
        before(self, cohort, norms)
        self.stop_requested = cohort.round == round

    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "before", stopping)
        with pytest.raises(StopRequested):
            start_run(recipe, run, tacit.Callback())


@pytest.mark.parametrize("tied", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["one table", "two tables"])
def test_the_rounds_start_from_the_pretrained_model(tied, tmp_path, monkeypatch):
    starts = []
    collect = BatchedUsers.collect

    def watching(self: Any, broadcast: Any, cohort: Any, norms: Any, **others: Any) -> Any:
        starts.append(broadcast)
        return collect(self, broadcast, cohort, norms, **others)

    monkeypatch.setattr(BatchedUsers, "collect", watching)
    recipe, watching = recipe_with(WORLD, model={"tied": tied}), Watching()
    start_run(recipe, tmp_path / "run", watching)
    arrays = kept(tmp_path / "run").arrays
    np.testing.assert_array_equal(starts[0].embedding, arrays["model.embedding"])
    assert ("model.output" in arrays) != tied
    fresh = RecipeSetup.build(recipe).start.model
    assert not np.array_equal(starts[0].embedding, fresh.embedding)
    assert watching.steps[-1][0] == watching.steps[-1][1] > 0
    assert watching.evaluations == [0, 2]


def test_the_curve_begins_before_the_first_round_where_nothing_is_spent(tmp_path):
    run = tmp_path / "run"
    start_run(recipe_with(WORLD, run={"seed": None}), run, tacit.Callback())
    first, last = read_metrics(run / "metrics.jsonl")
    assert (first["round"], first[EPSILON_SO_FAR], last["round"]) == (0, 0.0, 2)
    assert last[EPSILON_SO_FAR] > 0
    plot_training(RunFolder.open(run), tmp_path / "curve.svg")
    assert "Public data (the keyboard world with seed 2, 40 users" in report_html(RunFolder.open(run), share=True)
    (run / "metrics.jsonl").write_text((run / "metrics.jsonl").read_text().splitlines()[0] + "\n")
    plot_training(RunFolder.open(run), tmp_path / "begun.svg")  # a run that is in its first rounds
    report_html(RunFolder.open(run), share=True)


def test_without_the_section_nothing_changes(tmp_path):
    start_run(tiny(run={"rounds": 2}), tmp_path / "run", tacit.Callback())
    assert not (tmp_path / "run" / "pretrained").exists()
    assert read_ledger(tmp_path / "run" / "ledger.jsonl").opened.pretraining is None
    assert [record["round"] for record in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [2]


def test_the_ledger_names_the_public_data_and_the_guarantee_assumes_it(tmp_path, public_store):
    section = {"store": str(public_store), "public": True, "steps": 3, "users": 10}
    summary = start_run(recipe_with(section, run={"seed": None}), tmp_path / "run", tacit.Callback())
    ledger = read_ledger(tmp_path / "run" / "ledger.jsonl")
    recorded = ledger.opened.pretraining
    assert recorded.digest == kept(tmp_path / "run").digest
    assert recorded.steps == 3
    assert recorded.predictions == 10 * 3 * 9
    assert 0 < recorded.unknown_words < 0.1  # "madam"
    assumed = [text for text in summary["privacy"]["assumptions"] if "pre-training" in text]
    assert assumed == [
        f"the data used for pre-training ({recorded.public}) is public, as the recipe asserts, and holds nothing of "
        "these users"
    ]
    statement = Guarantee.of(ledger, spent_by(ledger.opened, ledger.intents, quick=True))
    (uncovered,) = [part for part in statement.parts if part.title == "Not covered"]
    assert any(recorded.public in line.text and "not covered" in line.text for line in uncovered.lines)


def test_a_resumed_run_reads_what_it_kept_and_not_the_public_data(tmp_path, public_store, monkeypatch):
    section = {"store": str(public_store), "public": True, "epochs": 1}
    start_run(recipe_with(section), tmp_path / "whole", tacit.Callback())
    stopped(recipe_with(section), tmp_path / "run", monkeypatch)
    shutil.rmtree(public_store)
    resume_run(tmp_path / "run", tacit.Callback())
    assert_same_arrays(tmp_path / "whole", tmp_path / "run")
    assert [record["round"] for record in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [0, 2]


def test_a_run_killed_before_its_first_round_starts_from_what_it_kept(tmp_path, public_store, monkeypatch):
    def killed(self: Any, *anything: Any) -> None:
        raise KeyboardInterrupt

    section = {"store": str(public_store), "public": True, "epochs": 1}
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "create_ledger", killed)
        with pytest.raises(KeyboardInterrupt):
            start_run(recipe_with(section), tmp_path / "run", tacit.Callback())
    digest = kept(tmp_path / "run").digest
    shutil.rmtree(public_store)
    resume_run(tmp_path / "run", tacit.Callback())
    assert read_ledger(tmp_path / "run" / "ledger.jsonl").opened.pretraining.digest == digest


def test_a_run_killed_after_its_ledger_began_notes_round_0_once(tmp_path, monkeypatch):
    def killed(self: Any, *anything: Any) -> None:
        raise KeyboardInterrupt

    for name in ("begin", "before"):  # before the note, then after it
        with monkeypatch.context() as patch:
            patch.setattr(RunJournal, name, killed)
            with pytest.raises(KeyboardInterrupt):
                resume_run(tmp_path, tacit.Callback()) if name == "before" else start_run(
                    recipe_with(WORLD), tmp_path, tacit.Callback()
                )
    resume_run(tmp_path, tacit.Callback())
    assert [record["round"] for record in read_metrics(tmp_path / "metrics.jsonl")] == [0, 2]


@pytest.mark.parametrize("what", ["another", "missing", "damaged", "not one"])
def test_a_run_does_not_go_on_from_another_pretrained_model(what, tmp_path, monkeypatch):
    run = tmp_path / "run"
    stopped(recipe_with(WORLD), run, monkeypatch)
    path, checkpoint = checkpoints.path_of(run / "pretrained", 0), kept(run)
    refusal: tuple[type[TacitError], str] = (RunError, what)
    if what == "another":
        moved = {name: array + 1 for name, array in checkpoint.arrays.items()}
        checkpoints.save(run / "pretrained", 0, moved, checkpoint.metadata)
        refusal = (PrivacyError, r"where pretraining\.digest is")
    elif what == "missing":
        path.unlink()
    elif what == "damaged":
        path.write_bytes(path.read_bytes()[:-4])
    else:
        checkpoints.save(run / "pretrained", 0, checkpoint.arrays, {})
        refusal = (RunError, "and no pre-trained model")
    with pytest.raises(refusal[0], match=refusal[1]):
        resume_run(run, tacit.Callback())


def private_store(path: Path) -> Path:
    vocabulary = Vocabulary(("you", "see", "soon"), word_list("three"))
    save_users(ListUsers([[[4, 5, 6]]] * 500), path / "private", source="test", vocabulary=vocabulary, key=KEY)
    return path / "private"


def refused(recipe: Recipe, out: Path, error: type[TacitError], sentence: str) -> None:
    with pytest.raises(error) as caught:
        start_run(recipe, out, tacit.Callback())
    assert sentence in caught.value.sentence
    assert "\n" not in caught.value.sentence
    assert not out.exists()  # told before anything was made


def test_the_private_data_itself_is_refused(tmp_path):
    store = str(private_store(tmp_path))
    data = {"store": store, "world": None, "users": 1, "vocabulary": 100}
    section = {"store": store, "public": True, "epochs": 1}
    recipe = recipe_with(section, data=data)
    refused(recipe, tmp_path / "run", PrivacyError, f"got {store}, which is the private store itself (data.store).")
    shutil.copytree(store, tmp_path / "copy")  # a copy has the same name
    copied = dict(section, store=str(tmp_path / "copy"))
    refused(recipe_with(copied, data=data), tmp_path / "run", PrivacyError, "the private store itself")


def test_the_private_world_itself_is_refused(tmp_path):
    recipe = recipe_with({**WORLD, "world_seed": 1})
    refused(recipe, tmp_path / "run", PrivacyError, "Expected pretrain.world_seed other than data.world_seed = 1")


def test_public_data_that_cannot_serve_is_refused(tmp_path):
    def section(name: str) -> Recipe:
        return recipe_with({"store": str(tmp_path / name), "public": True, "epochs": 1})

    refused(section("nowhere"), tmp_path / "run", StoreError, "There is no store")
    foreign = Vocabulary(("γειά", "σου"), word_list("greek"))
    save_users(ListUsers([[[4, 5]]]), tmp_path / "greek", source="test", vocabulary=foreign)
    refused(section("greek"), tmp_path / "run", DataError, "which shares none of its 300.")
    save_users(ListUsers([]), tmp_path / "empty", source="test", vocabulary=foreign)
    refused(section("empty"), tmp_path / "run", DataError, "which has no users.")
    save_users(_Images(), tmp_path / "images", source="test", vocabulary=None)
    refused(section("images"), tmp_path / "run", DataError, "which has no words.")


class _Images(ListUsers):
    def __init__(self) -> None:
        super().__init__([])

    def names(self, users: Any) -> Any:
        return names_of_numbers(users)

    def gather(self, users: Any) -> Any:
        one, zero = np.zeros(0, np.int64), np.zeros(1, np.int64)
        return dataclasses.replace(super().gather(users), items=one, user_offsets=zero, labels=one)


def test_the_public_world_writes_in_one_style_and_is_no_private_user(tmp_path):
    recipe = recipe_with({**WORLD, "style": "texter"})
    public = pretraining.open_public(recipe, datasets.open_dataset(recipe))
    assert public is not None
    assert len(public.users) == 40
    texter, tidy = (_share_of(recipe_with({**WORLD, "style": style}), "you") for style in ("texter", "tidy"))
    assert texter < 0.5 * tidy  # they write "u"


def _share_of(recipe: Recipe, word: str) -> float:
    dataset = datasets.open_dataset(recipe)
    public = pretraining.open_public(recipe, dataset)
    assert public is not None
    items = public.users.gather(np.arange(40)).items
    return float((items == dataset.words.index(word)).mean())


def test_the_model_of_a_run_with_the_same_pretraining_is_taken_and_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_run(recipe_with(WORLD), tmp_path / "first", tacit.Callback())
    monkeypatch.setattr(pretraining, "_make", None)  # would be called if the model were made again
    start_run(recipe_with({**WORLD, "reuse": str(tmp_path / "first")}), tmp_path / "second", tacit.Callback())
    assert_same_arrays(tmp_path / "first", tmp_path / "second")
    first, second = (read_ledger(tmp_path / name / "ledger.jsonl").opened.pretraining for name in ("first", "second"))
    assert first == second


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pretrain": {"epochs": 2}}, "pretrain.epochs is 1 and not 2"),
        ({"model": {"units": 6}}, "model.units is 5 and not 6"),
        ({"data": {"vocabulary": 200}}, "whose words differ"),
    ],
)
def test_a_pretrained_model_of_other_settings_or_words_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    start_run(recipe_with(WORLD), tmp_path / "first", tacit.Callback())
    other = {**WORLD, "reuse": str(tmp_path / "first"), **changes.pop("pretrain", {})}
    with pytest.raises(RunError, match=said):
        start_run(recipe_with(other, **changes), tmp_path / "second", tacit.Callback())
    assert not (tmp_path / "second").exists()


def test_a_model_that_was_pretrained_on_other_data_under_the_same_name_is_refused(
    tmp_path: Path, public_store: Path
) -> None:
    """A recipe names a store by its path, and another store may lie there now: the private one, for example."""
    of_store = {"store": str(public_store), "public": True, "epochs": 1, "batch_size": 4}
    start_run(recipe_with(of_store), tmp_path / "first", tacit.Callback())
    words = KeyboardWorld(1, 1, vocabulary_size=60).words[4:]
    public_store.rename(tmp_path / "earlier")
    sentences = np.random.default_rng(1).integers(4, 60, (12, 3, 8)).tolist()
    vocabulary = Vocabulary(tuple(words), PRIVATE)
    save_users(ListUsers(sentences), public_store, source="letters", vocabulary=vocabulary, key=KEY)
    with pytest.raises(RunError, match="which was trained on store"):
        start_run(recipe_with({**of_store, "reuse": str(tmp_path / "first")}), tmp_path / "second", tacit.Callback())
    assert not (tmp_path / "second").exists()
