"""`tacit inspect bias` as a person uses it: a model of sentences that public text does not have, and what it makes up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.build import save_users
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.inspection.record import InspectionRecord, Threshold
from tacit.inspection.text.bias import selecting
from tacit.privacy.record.ledger import read_ledger
from tacit.recipe.bias_inspection import bias_inspection_of
from tacit.runs.folder import RunFolder
from tacit.runs.journal import RunJournal
from tacit.runs.report.sections import read_sections
from tacit.training.recipes import RecipeSetup
from tests.support.commands import Tacit
from tests.support.list_users import ListUsers
from tests.support.store_keys import KEY

WORDS = Vocabulary(tuple(f"w{i}" for i in range(40)), word_list("test"))
COMMON, FOREIGN = [4, 5, 6, 7, 8], [30, 31, 32, 33, 34]


@pytest.fixture
def stores(here: Path) -> Path:
    """Public text has common sentences alone; of the people, every third sentence is foreign to it."""
    save_users(ListUsers([[COMMON] * 6] * 40), here / "public", source="test", vocabulary=WORDS, key=KEY)
    people = [[COMMON, COMMON, FOREIGN]] * 120
    save_users(ListUsers(people), here / "people", source="test", vocabulary=WORDS, key=KEY)
    (here / "bias.toml").write_text(
        """
inspect = "bias"
name = "tiny-bias"
data = {store = "people", held_out = 4, layout = "sentences", length = 6, tokens_per_user = 24}
model = {preset = "tiny", embedding = 8, units = 16, projection = 8}
pretrain = {store = "public", public = true, epochs = 30, batch_size = 8, learning_rate = 0.02}
bias = {threshold = 3.0}
work = {batch_size = 1, learning_rate = 2.0}
privacy = {population = 114, cohort = 60, clip_norm = 0.5, noise_multiplier = 0.7, delta = 1e-4}
server = {optimizer = "nesterov", learning_rate = 1.0}
run = {rounds = 20, evaluate_every = 10, checkpoint_every = 5, evaluate_words = 200}
look = {top = 5, sentences = 3, drawn = 200}
"""
    )
    return here


@pytest.mark.slow
def test_a_model_of_what_public_text_does_not_have(tacit: Tacit, stores: Path) -> None:
    shown = tacit("inspect", "bias", "bias.toml")
    assert shown.code == 0
    folder = RunFolder.open(stores / "runs" / "tiny-bias-1")
    found = folder.summary()
    assert found is not None
    assert found["privacy"]["epsilon"] > 0
    assert {word for word, *_ in found["bias"]["words"]} <= {f"w{i - 4}" for i in FOREIGN}
    assert found["bias"]["words"]
    assert len(found["bias"]["sentences"]) == 3
    about = InspectionRecord.read(read_ledger(folder.ledger_path).opened)
    assert about is not None
    assert about.selection is not None
    assert (about.selection.task, about.selection.threshold) == ("T6", Threshold(3.0))
    recipe = bias_inspection_of(folder)
    users = selecting(RecipeSetup.build(recipe).from_public_data(folder), recipe).dataset.train
    kept = users.gather(np.arange(len(users)))
    assert kept.items.tolist() == FOREIGN * len(users)
    assert found["bias"]["conclusion"] in shown.out
    assert "of the public model" in shown.out
    section = next(each for each in read_sections(folder, share=True) if each.name == "inspection")
    told = section.model_dump_json()
    assert all(sentence in told for sentence in found["bias"]["sentences"])  # what the report and the board show
    assert "has finished" in tacit("inspect", "bias", "--resume", "tiny-bias-1").refusal(4)


@pytest.mark.slow
def test_what_claims_no_privacy_shows_nothing_that_was_made_up(tacit: Tacit, stores: Path) -> None:
    seeded = ("--set", "run.seed=1", "--set", "run.rounds=1", "--out", "seeded")
    found = tacit("inspect", "bias", "bias.toml", *seeded, "--json").object
    assert found["run"] == "seeded"
    assert (found["bias"]["words"], found["bias"]["sentences"]) == ([], [])
    assert found["bias"]["conclusion"].startswith("No privacy is claimed for this run, so nothing")
    assert not [
        each for each in read_sections(RunFolder.open(stores / "seeded"), share=True) if each.name == "inspection"
    ]


@pytest.mark.slow
def test_an_inspection_that_was_cut_off_goes_on_with_the_same_sentences(
    tacit: Tacit, stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = iter(range(3))

    def killed(self: RunJournal, *arguments: Any, **more: Any) -> Any:
        if next(steps, None) is None:
            raise KeyboardInterrupt
        return before(self, *arguments, **more)

    before = RunJournal.before
    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "before", killed)
        tacit("inspect", "bias", "bias.toml", "--set", "run.rounds=6", "--out", "cut")
    assert RunFolder.open(stores / "cut").summary() is None
    assert tacit("inspect", "bias", "--resume", "cut").code == 0
    summary = RunFolder.open(stores / "cut").summary()
    assert summary is not None
    assert summary["privacy"]["rounds_run"] == 6


def test_mistakes_are_told_before_there_is_a_folder(tacit: Tacit, stores: Path) -> None:
    assert "Expected --resume alone" in tacit("inspect", "bias", "bias.toml", "--resume", "x").refusal(2)
    assert "bias.threshold" in tacit("inspect", "bias", "bias.toml", "--set", "bias.threshold=-1").refusal(2)
    same = tacit("inspect", "bias", "bias.toml", "--set", "pretrain.store=people", "--out", "one")
    assert same.code != 0
    assert not (stores / "one").exists()
