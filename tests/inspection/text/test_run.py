"""Whole inspections of text: a fault is found, the run is durable like any other, and no user's words are written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.cli.app import main
from tacit.errors import DataError, PrivacyError, RunError
from tacit.inspection.record import InspectionRecord
from tacit.inspection.text.comparison import compare_inspections
from tacit.inspection.text.run import Inspector, resume_inspection, start_inspection
from tacit.privacy.record.ledger import read_ledger
from tacit.recipe.sections import VocabularySection
from tacit.recipe.text_inspection import TextInspection
from tacit.runs import checkpoints, odometer
from tacit.runs.folder import RunFolder
from tacit.runs.journal import RunJournal, StopRequested
from tacit.runs.report import write_report
from tacit.training.vocabularies import discover_words
from tests.support.store_keys import key_holding_out
from tests.support.tiny_text import tiny_text

RARE = "qwzxv"  # a word of one user, which nobody may ever read
STORE = {"world": None, "held_out": 2}


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def final(run: Path) -> dict[str, np.ndarray]:
    checkpoint = checkpoints.latest(run / "checkpoints")
    assert checkpoint is not None
    return checkpoint.arrays


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight people who all say good day, some zog, and one says something rare; their words are a public list."""
    here = tmp_path_factory.mktemp("chat")
    users = [{"user": f"u{i}", "text": ["good day to you", "good day zog"] * 4} for i in range(8)]
    users += [{"user": "u8", "text": [f"good day {RARE}"] * 8}]
    (here / "chat.jsonl").write_text("".join(json.dumps(user) + "\n" for user in users))
    (here / "words.txt").write_text("good\nday\nto\nyou\n")
    columns = ("--user", "user", "--text", "text", "--vocabulary", str(here / "words.txt"))
    # Two of those who say zog are held out.
    (here / "key").write_bytes(key_holding_out({"u2", "u5"}, [user["user"] for user in users], 0.2))
    columns += ("--held-out", "0.2", "--key-file", str(here / "key"))
    with pytest.raises(SystemExit) as ended:
        main(["data", "import", str(here / "chat.jsonl"), *columns, "--out", str(here / "store")])
    assert not ended.value.code
    return here / "store"


@pytest.fixture(scope="module")
def learned(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], Path]:
    """Inspections without noise, so that a few rounds are enough, by the share of sentences with the fault."""
    made: dict[float, Path] = {}

    def run(share: float) -> Path:
        if share not in made:
            made[share] = tmp_path_factory.mktemp("runs") / "run"
            recipe = tiny_text(
                data={**STORE, "store": str(store), "tokens_per_user": 108},
                fault={"share": share},
                work={"learning_rate": 0.7, "epochs": 4},
                privacy={
                    "mechanism": "none",
                    "noise_multiplier": 0.0,
                    "clip_norm": None,
                    "population": 7,
                    "cohort": 7,
                },
                server={"optimizer": "sgd"},
                run={"rounds": 40, "evaluate_every": 40, "checkpoint_every": 40},
            )
            start_inspection(recipe, made[share], tacit.Callback())
        return made[share]

    return run


@pytest.mark.slow
def test_joined_tokens_are_found_where_they_are(learned: Callable[[float], Path]) -> None:
    found = compare_inspections(learned(0.0), learned(1.0))
    assert found.after.words[0][0] == "good day"
    assert found.before.words[0][0] == "zog"
    assert found.after.drawn_with_space > 0.3 > 0.05 > found.before.drawn_with_space
    assert (found.before.rates.by_place[0], found.after.rates.by_place[0]) == (0.0, 1.0)
    assert "tokens are joined now" in found.conclusion()


def test_without_a_claim_words_are_kept_from_shared_copies(learned: Callable[[float], Path]) -> None:
    folder = RunFolder.open(learned(1.0))
    assert [path.name for path in folder.sections_path.iterdir()] == ["31-gate-audit.json"]
    assert "good␣day" in write_report(folder).read_text()
    shared = write_report(folder, share=True).read_text()
    assert "good␣day" not in shared
    assert "good day" not in shared


def test_a_private_inspection_is_a_run_with_its_own_guarantee(store: Path, tmp_path: Path) -> None:
    recipe = tiny_text(
        data={**STORE, "store": str(store)},
        privacy={"population": 7, "cohort": 5, "delta": 0.01, "noise_multiplier": 2.0},
    )
    summary = start_inspection(recipe, tmp_path / "run", tacit.Callback())
    ledger = read_ledger(tmp_path / "run" / "ledger.jsonl")
    assert ledger.closed is not None
    assert ledger.closed.outcome == "finished"
    assert summary["privacy"]["releases"] == len(ledger.intents) == 4
    assert 0 < summary["privacy"]["epsilon"] < math.inf
    about = InspectionRecord.read(ledger.opened)
    assert about is not None
    assert about.selection is not None
    assert (about.stage, about.selection.task) == ("words", "T3")
    assert [entry.run_id for entry in odometer.read(store)].count(ledger.opened.run_id) == 1
    shared = write_report(RunFolder.open(tmp_path / "run"), share=True).read_text()
    assert "Unknown words, as a model generates them" in shared
    for name, content in everything(tmp_path / "run").items():
        assert RARE.encode() not in content, name


def test_a_stopped_inspection_goes_on_as_if_nothing_had_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny_text(run={"seed": 5}, fault={"share": 0.5})
    whole = start_inspection(recipe, tmp_path / "whole", tacit.Callback())
    before = RunJournal.before

    def stopping(self: RunJournal, cohort: Any, norms: Any) -> None:
        before(self, cohort, norms)
        self.stop_requested = cohort.round == 1

    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "before", stopping)
        with pytest.raises(StopRequested):
            start_inspection(recipe, tmp_path / "run", tacit.Callback())
    resumed = resume_inspection(tmp_path / "run", tacit.Callback())
    assert resumed == whole
    for name, array in final(tmp_path / "whole").items():
        np.testing.assert_array_equal(array, final(tmp_path / "run")[name])
    with pytest.raises(RunError, match="has finished, so there is nothing to resume"):
        resume_inspection(tmp_path / "run", tacit.Callback())


def test_data_that_changed_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunJournal, "before", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        start_inspection(tiny_text(fault={"share": 0.5}), tmp_path / "run", tacit.Callback())
    written = tmp_path / "run" / "recipe.toml"
    written.write_text(written.read_text().replace("share = 0.5", "share = 0.25"))
    with pytest.raises(PrivacyError, match=r"notes\.inspection\.fault\.share is 0\.5, got 0\.25"):
        resume_inspection(tmp_path / "run", tacit.Callback())


def test_without_unknown_words_there_is_nothing_to_learn(store: Path, tmp_path: Path) -> None:
    users = "".join(json.dumps({"user": f"u{i}", "text": ["good day"]}) + "\n" for i in range(40))
    (tmp_path / "chat.jsonl").write_text(users)
    (tmp_path / "words.txt").write_text("good\nday\n")
    columns = ("--user", "user", "--text", "text", "--vocabulary", str(tmp_path / "words.txt"))
    imported = ("--held-out", "0.9", "--out", str(tmp_path / "store"))
    with pytest.raises(SystemExit):
        main(["data", "import", str(tmp_path / "chat.jsonl"), *columns, *imported])
    recipe = tiny_text(data={**STORE, "store": str(tmp_path / "store")})
    with pytest.raises(DataError, match="no unknown words to evaluate on"):
        start_inspection(recipe, tmp_path / "run", tacit.Callback())
    assert not (tmp_path / "run").exists()


def test_only_finished_inspections_are_compared(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", "")
    with pytest.raises(RunError, match="is not a finished inspection of text"):
        compare_inspections(tmp_path / "run", tmp_path / "run")


def _interrupted(self: RunJournal, cohort: Any, norms: Any) -> None:
    raise KeyboardInterrupt


def test_with_discovered_words_the_held_out_people_are_read_in_these_words(store: Path, tmp_path: Path) -> None:
    """Of seven words that each of them says, one is unknown to the store, and two to a list without the word "you"."""
    listed = tmp_path / "words.txt"
    listed.write_text("good\nday\nto\n")
    asked = VocabularySection(words=str(listed), size=7, sure=3, epsilon=4.0)
    folder = discover_words(asked, store, tmp_path / "words", population=7, delta=1e-3)
    tree = tiny_text(data={**STORE, "store": str(store)}).model_dump(mode="json", exclude_none=True)
    shares = []
    for words in ({}, {"vocabulary": {"run": str(folder.path)}}):
        shares.append(Inspector.build(TextInspection.model_validate(tree | words)).held_out.rates.overall)
    assert shares == [pytest.approx(1 / 7), pytest.approx(2 / 7)]
