"""`tacit predict`: the next word, from whatever a run has reached."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tacit.cli.app import main
from tacit.runs.callbacks import Callback
from tacit.simulation.training import start_run
from tests.support.commands import Tacit
from tests.support.tiny_recipe import tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    start_run(tiny(run={"rounds": 1}), out, Callback())
    return out


def test_three_words_and_their_probabilities(tacit: Tacit, run: Path) -> None:
    answer = tacit("predict", run, "See YOU")
    assert (answer.code, answer.err) == (0, "")
    lines = [line.split() for line in answer.out.splitlines()]
    assert [len(line) for line in lines] == [2, 2, 2]
    assert all(line[1].endswith("%") for line in lines)
    told = tacit("predict", run, "see you", "--json").object
    assert [each["word"] for each in told["suggestions"]] == [line[0] for line in lines]
    assert (told["text"], told["unknown"]) == ("see you", [])


def test_json_is_one_object_with_falling_probabilities(tacit: Tacit, run: Path) -> None:
    told = tacit("predict", run, "", "--count", 20, "--json").object
    probabilities = [each["probability"] for each in told["suggestions"]]
    assert len(probabilities) == 20
    assert probabilities == sorted(probabilities, reverse=True)
    assert 0 < sum(probabilities) < 1
    assert told["text"] == ""


def test_an_unknown_word_is_said_and_predicted_from(tacit: Tacit, run: Path) -> None:
    answer = tacit("predict", run, "zyzzyva you zyzzyva xylograph")
    assert answer.code == 0
    assert answer.out.splitlines()[-1] == "(not in the vocabulary, and treated as unknown words: zyzzyva, xylograph)"
    assert tacit("predict", run, "[red] you", "--json").object["unknown"] == ["red"]


def test_a_run_without_a_checkpoint_has_nothing_to_say(tacit: Tacit, run: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for name in ("run.json", "recipe.toml", "vocabulary.txt"):
        (empty / name).write_bytes((run / name).read_bytes())
    answer = tacit("predict", empty, "see you")
    assert answer.refusal(4) == f"The run {empty} has no checkpoint yet."
    assert answer.err.splitlines()[1] == f"hint: Train it further: tacit train --resume {empty}"


def test_what_is_no_run_is_refused(tacit: Tacit, tmp_path: Path) -> None:
    assert "which is no run" in tacit("predict", tmp_path, "see you").refusal(4)
    assert "which does not exist" in tacit("predict", tmp_path / "nothing", "see you", "--json").refusal(4)


def test_a_damaged_checkpoint_is_refused(tacit: Tacit, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    (copy / "checkpoints").mkdir(parents=True)
    for name in ("run.json", "recipe.toml", "vocabulary.txt", "checkpoints/round-000001.safetensors"):
        (copy / name).write_bytes((run / name).read_bytes()[: 900 if name.startswith("check") else None])
    assert "is damaged" in tacit("predict", copy, "see you").refusal(4)


@pytest.mark.parametrize("count", ["0", "51", "many"])
def test_a_count_out_of_range_is_refused(run: Path, count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(run), "--count", count])
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "--count" in err


def test_the_model_of_another_run_is_not_taken_for_this_ones(tacit: Tacit, run: Path, tmp_path: Path) -> None:
    swapped = tmp_path / "swapped"
    shutil.copytree(run, swapped)
    (kept,) = (swapped / "checkpoints").iterdir()
    start_run(tiny(run={"rounds": 1, "seed": 5}), tmp_path / "other", Callback())
    shutil.copy(tmp_path / "other" / "checkpoints" / kept.name, kept)
    assert "is not the one the ledger names" in tacit("predict", swapped, "see you").refusal(4)
    kept.unlink()
    assert "after 1 rounds that the ledger" in tacit("predict", swapped, "see you").refusal(4)
