"""`tacit export`: the model in the file is the run's, the card in it is the run's, and nothing else leaves a file."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnxruntime
import pytest
from safetensors import safe_open

import tacit
from tacit.errors import RunError
from tacit.export import model_files as export
from tacit.export.card import model_card
from tacit.learning.next_word import suggest
from tacit.learning.state import load_model, model_arrays
from tacit.models.word_lm import WordLMConfig, build
from tacit.runs import checkpoints
from tacit.runs.folder import RunFolder
from tacit.simulation.training import start_run
from tacit.training.trained import load_trained
from tests.support.commands import Tacit
from tests.support.tiny_recipe import tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two rounds with a finite epsilon."""
    out = tmp_path_factory.mktemp("export") / "run"
    start_run(tiny(run={"rounds": 2}), out, tacit.Callback())
    return out


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """The same run, to be spoilt."""
    return Path(shutil.copytree(run, tmp_path / "copy"))


def check_card(card: dict[str, Any], run: Path, tacit: Tacit) -> None:
    assert card["guarantee"] == tacit("guarantee", run, "--json").object
    assert card["guarantee"]["epsilon"] > 0
    summary = json.loads((run / "summary.json").read_text())
    assert card["accuracy"] == {**summary["metrics"], "measured_on": "held-out users, outside the guarantee"}
    assert card["recipe_sha256"] == hashlib.sha256((run / "recipe.toml").read_bytes()).hexdigest()
    assert (card["rounds"], card["parameters"]) == (2, summary["parameters"])


def test_onnx_types_on_with_the_model_and_carries_its_card(tacit: Tacit, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "k.onnx"
    said = tacit("export", run, "--onnx", out, "--check", 60, "--json").object
    assert said["onnx"]["contexts"] == 60
    assert said["onnx"]["bytes"] == out.stat().st_size
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    assert metadata["guarantee"] == said["guarantee"]
    assert metadata["guarantee"].startswith("ε = ")
    check_card(json.loads(metadata["card"]), run, tacit)
    trained = load_trained(run)
    model, words = trained.model, trained.words
    context = [7, 30, 11]
    state = {each.name: np.zeros((1, each.shape[1]), np.float32) for each in session.get_inputs()[1:]}
    for token in [1, *context]:
        shown, ids, probabilities, _, c, r = session.run(None, {"token": np.array([token]), **state})
        state = {"c": c, "r": r}
    expected = suggest(model, context)
    assert ids[0].tolist() == [id for id, _ in expected]
    assert shown[0].tolist() == [words[id] for id, _ in expected]
    np.testing.assert_allclose(probabilities[0], [p for _, p in expected], rtol=1e-5)


def test_safetensors_holds_the_parameters_the_words_and_the_card(tacit: Tacit, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "k.safetensors"
    answer = tacit("export", run, "--safetensors", out)
    assert answer.code == 0, answer.err
    with safe_open(out, framework="numpy") as file:
        metadata, names = file.metadata(), list(file.keys())
        arrays = {name: file.get_tensor(name) for name in names}
    assert f"Inside: {metadata['guarantee']}" in answer.out.splitlines()
    check_card(json.loads(metadata["card"]), run, tacit)
    trained = load_trained(run)
    model, words = trained.model, trained.words
    assert json.loads(metadata["vocabulary"]) == words
    assert json.loads(metadata["reserved"])["first_word"] == 4
    again = load_model(build(WordLMConfig(**json.loads(metadata["model"])), key=jax.random.key(0)), arrays)
    assert model_arrays(again).keys() == arrays.keys()
    for name, array in model_arrays(model).items():
        np.testing.assert_array_equal(model_arrays(again)[name], array)


def test_both_files_in_one_go(tacit: Tacit, run: Path, tmp_path: Path) -> None:
    answer = tacit("export", run, "--onnx", tmp_path / "k.onnx", "--safetensors", tmp_path / "k.st", "--check", 5)
    assert answer.code == 0, answer.err
    assert "all 5 contexts tried" in answer.out
    assert {path.name for path in tmp_path.iterdir()} == {"k.onnx", "k.st"}


def test_a_file_that_disagrees_is_not_written(
    tacit: Tacit, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_another_model(model: Any, *arguments: Any, **named: Any) -> bytes:
        return original(jax.tree.map(lambda a: a * np.float32(3), model), *arguments, **named)

    original = export.onnx_step
    monkeypatch.setattr(export, "onnx_step", of_another_model)
    (tmp_path / "k.onnx").write_text("the one before")
    sentence = tacit("export", run, "--onnx", tmp_path / "k.onnx", "--check", 20).refusal(4)
    assert "disagree" in sentence
    assert (tmp_path / "k.onnx").read_text() == "the one before"
    assert len(list(tmp_path.iterdir())) == 1


def test_neither_kind_of_file(tacit: Tacit, run: Path) -> None:
    assert "--onnx FILE, --safetensors FILE or both" in tacit("export", run).refusal(4)


def test_without_the_extra_it_says_how_to_install_it(
    tacit: Tacit, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else found(name))
    answer = tacit("export", run, "--onnx", tmp_path / "k.onnx")
    assert "onnxruntime is not installed" in answer.refusal(4)
    assert 'pip install "tacit[onnx]"' in answer.err
    assert tacit("export", run, "--safetensors", tmp_path / "k.st").code == 0


def test_no_run_no_checkpoint_no_folder_to_write_to(tacit: Tacit, copy: Path, tmp_path: Path) -> None:
    out = ("--safetensors", tmp_path / "k")
    assert "which does not exist" in tacit("export", tmp_path / "nowhere", *out).refusal(4)
    assert "Cannot write" in tacit("export", copy, "--safetensors", tmp_path / "no" / "k").refusal(4)
    assert "Cannot write" in tacit("export", copy, "--onnx", copy, "--check", 1).refusal(4)
    checkpoints.remove_all(copy / "checkpoints")
    assert "that the ledger of" in tacit("export", copy, *out).refusal(4)
    assert not (tmp_path / "k").exists()


def test_a_model_that_the_ledger_does_not_know_gets_no_card(tacit: Tacit, copy: Path, tmp_path: Path) -> None:
    folder = copy / "checkpoints"
    mine = checkpoints.latest(folder)
    assert mine is not None
    louder = {name: array * array.dtype.type(2) for name, array in mine.arrays.items()}
    checkpoints.save(folder, mine.round, louder, mine.metadata)
    sentence = tacit("export", copy, "--safetensors", tmp_path / "k").refusal(4)
    assert "is not the one the ledger names" in sentence
    assert not (tmp_path / "k").exists()
    changed = checkpoints.latest(folder)
    assert changed is not None
    with pytest.raises(RunError, match="is not one that the ledger names"):
        model_card(RunFolder.open(copy), changed)


def test_a_recipe_that_was_changed_afterwards_gets_no_card(tacit: Tacit, copy: Path, tmp_path: Path) -> None:
    recipe = copy / "recipe.toml"
    recipe.write_text(recipe.read_text().replace('name = "tiny"', 'name = "better"'))
    assert "is not the one that the ledger names" in tacit("export", copy, "--safetensors", tmp_path / "k").refusal(4)


def test_a_model_that_was_not_measured_says_so(tacit: Tacit, copy: Path, tmp_path: Path) -> None:
    (copy / "metrics.jsonl").unlink()
    assert tacit("export", copy, "--safetensors", tmp_path / "k").code == 0
    with safe_open(tmp_path / "k", framework="numpy") as file:
        assert json.loads(file.metadata()["card"])["accuracy"] is None
