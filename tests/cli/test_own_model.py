"""A model of somebody's own survives everything: a module that is imported brings its class, and each command works with it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from safetensors import safe_open
from safetensors.numpy import load_file

import tacit as library
from tacit.api import own_objects
from tacit.cli.summary import print_summary
from tacit.errors import AuditError, PrivacyError, RunError
from tacit.training.trained import load_trained
from tests.support.commands import Tacit

MODULE = '''
"""Somebody's own model, task and users, as an importable module."""
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import tacit

WORDS = [f"w{i}" for i in range(30)]


class Bigram(eqx.Module):
    table: jax.Array
    out: jax.Array

    def __init__(self, *, key):
        one, other = jax.random.split(key)
        self.table = 0.1 * jax.random.normal(one, (34, 8))
        self.out = 0.1 * jax.random.normal(other, (8, 34))

    def __call__(self, tokens):
        return self.table[tokens] @ self.out


class NextWord:
    def scores(self, model, tokens):
        return jax.vmap(model)(tokens)

    def loss_sum(self, model, tokens):
        logits, target = self.scores(model, tokens[:, :-1]), tokens[:, 1:]
        asked = (target > 1).astype(jnp.float32)
        own = jnp.take_along_axis(logits, target[..., None], -1)[..., 0]
        return jnp.sum((jax.nn.logsumexp(logits, -1) - own) * asked), jnp.sum(asked)


@tacit.register_objects
def mine():
    told = {f"u{i}": [" ".join(WORDS[(i + j + k) % 30] for k in range(5)) for j in range(4)] for i in range(120)}
    users = tacit.users(told, vocabulary=WORDS, held_out=0.1, key=bytes([1]) * 32)
    return {
        "model": Bigram(key=jax.random.key(0)),
        "task": NextWord(),
        "users": users,
        "held_out": 10,
        "work": tacit.FedAvg(batch_size=4, learning_rate=0.5),
        "server": optax.sgd(1.0, momentum=0.9),
        "canaries": tacit.canaries(users, coins=20, seed=1),
    }
'''


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of the module's objects that was stopped after two of four rounds, in a folder that holds the module too."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "somebodys_model.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    import somebodys_model

    plan = library.PrivacyPlan(population=110, cohort=20, clip_norm=0.5, noise_multiplier=1.5, delta=1e-4)
    loop = library.rounds(
        **somebodys_model.mine(), privacy=plan, rounds=4, checkpoint_every=1, out=folder / "run", gate_audit=False
    )
    for step in loop:
        if step.number == 2:
            break
    yield folder / "run"
    sys.path.remove(str(folder))


@pytest.fixture(autouse=True)
def forgotten(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: nothing is imported and nothing is registered."""
    monkeypatch.delitem(sys.modules, "somebodys_model", raising=False)
    monkeypatch.setattr(own_objects, "_builders", {})
    monkeypatch.setattr(own_objects, "_built", {})


def objects() -> dict[str, Any]:
    import somebodys_model

    own_objects._builders.clear()
    return dict(somebodys_model.mine())


def test_predict(stopped: Path, tacit: Tacit) -> None:
    refused = tacit("predict", stopped, "w3").refusal(RunError.exit_code)
    assert "a task with a method scores(model, tokens) is needed" in refused
    assert "tacit --import MODULE" in tacit("predict", stopped, "w3").err
    said = tacit("--import", "somebodys_model", "predict", stopped, "w3", "--json").object["suggestions"]
    mine = objects()
    again = library.open_run(stopped, model=mine["model"], task=mine["task"])
    assert [(each["word"], each["probability"]) for each in said] == again.predict("w3")
    assert len(said) == 3


def test_export(stopped: Path, tacit: Tacit, tmp_path: Path) -> None:
    out = tmp_path / "mine.safetensors"
    assert "model of your own" in tacit("export", stopped, "--safetensors", out).refusal(RunError.exit_code)
    assert not out.exists()
    written = tacit("--import", "somebodys_model", "export", stopped, "--safetensors", out, "--json").object
    assert written["guarantee"].startswith("ε = ")
    with safe_open(out, "numpy") as file:
        assert sorted(file.keys()) == ["model.out", "model.table"]
        assert json.loads(file.metadata()["vocabulary"])[4:7] == ["w0", "w1", "w2"]
        assert json.loads(file.metadata()["model"])["class"].endswith("Bigram")
    refused = tacit("--import", "somebodys_model", "export", stopped, "--onnx", tmp_path / "mine.onnx")
    assert "Expected a recurrent word model to write as ONNX, got Bigram" in refused.refusal(RunError.exit_code)
    assert not (tmp_path / "mine.onnx").exists()
    model = library.open_run(stopped, model=objects()["model"])
    again = load_file(model.export(tmp_path / "again.safetensors"))
    assert {name: array.tolist() for name, array in again.items()} == {
        name: array.tolist() for name, array in load_file(out).items()
    }
    with pytest.raises(RunError, match="Expected a recurrent word model"):
        model.export(tmp_path / "again.onnx")


def test_audit(stopped: Path, tacit: Tacit) -> None:
    refused = tacit("audit", "run", stopped).refusal(AuditError.exit_code)
    assert "its audit needs model, task, users, work, server again" in refused
    answer = tacit("--import", "somebodys_model", "audit", "run", stopped, "--json")
    assert answer.code in (0, 21), answer.err  # 21: too few canaries to contradict the proof
    found = json.loads(answer.out)
    assert found["broken"] is False
    mine = objects()
    mine["canaries"].save(stopped.parent / "canaries.json")
    mine["canaries"] = library.CanaryPlan.load(stopped.parent / "canaries.json")
    outcome = library.open_run(stopped, **mine).audit()
    same = json.loads(json.dumps(outcome.as_dict()))
    assert same == {name: found[name] for name in same}
    with pytest.raises(AuditError, match="its audit needs users, work, server again"):
        library.open_run(stopped, model=mine["model"], task=mine["task"]).audit()
    others = library.canaries(mine["users"], coins=20, seed=2)
    for wrong in (None, others):  # an attack with other canaries would find nothing, and say that nothing leaks
        with pytest.raises(PrivacyError, match="planted"):
            library.open_run(stopped, **{**mine, "canaries": wrong}).audit()


def test_pages_and_figures(stopped: Path, tacit: Tacit, tmp_path: Path) -> None:
    for arguments in (
        ("report", stopped, "--out", tmp_path / "page.html"),
        ("report", stopped, "--share", "--out", tmp_path / "shared.html"),
        ("guarantee", stopped),
        ("runs", "show", stopped),
        ("runs", "plot", stopped, "--out", tmp_path / "curve.png"),
        ("account", "run", stopped),
    ):
        answer = tacit(*arguments)
        assert answer.code == 0, (arguments, answer.err)


def test_a_command_for_recipes_says_that_this_is_none(stopped: Path) -> None:
    with pytest.raises(RunError, match=r"Expected a run that follows a recipe, got .* with a model of your own"):
        load_trained(stopped)


def test_objects_that_are_no_objects_of_a_run(stopped: Path) -> None:
    with pytest.raises(RunError, match=r"Expected objects among model, task.* from the arguments of .*got 'modle'"):
        library.open_run(stopped, modle=1)

    @library.register_objects
    def wrong() -> dict[str, Any]:
        return {"task": 1}

    with pytest.raises(RunError, match=r"Expected a dictionary with a model from .*wrong, got dict"):
        library.open_run(stopped).predict()


def test_another_model_is_not_taken_for_this_one(stopped: Path) -> None:
    mine = objects()

    @library.register_objects
    def other() -> dict[str, Any]:
        return {"model": {"w": mine["model"].table}, "task": mine["task"]}

    with pytest.raises(RunError, match="whose class the folder does not hold"):
        _ = library.open_run(stopped).model

    @library.register_objects
    def further() -> dict[str, Any]:
        import jax

        return {**mine, "model": jax.tree.map(lambda leaf: leaf + 1, mine["model"])}

    with pytest.raises(PrivacyError, match=r"where model\.sha256 is"):
        library.resume(stopped)


def test_the_summary_of_a_resumed_run_has_the_tasks_own_metrics() -> None:
    screen = io.StringIO()
    privacy = {"epsilon": None, "reasons_not_private": ["of a reason"]}
    print_summary(Console(file=screen, width=200), Path("runs/own"), {"metrics": {"loss": 3.25}, "privacy": privacy})
    said = screen.getvalue()
    assert "On held-out users: loss  3.25" in said
    assert "tacit report runs/own" in said


def test_resume_comes_last(stopped: Path, tacit: Tacit) -> None:
    refused = tacit("train", "--resume", stopped)
    assert "needs the same objects to go on" in refused.refusal(RunError.exit_code)
    assert "tacit.register_objects" in refused.err
    answer = tacit("--import", "somebodys_model", "train", "--resume", stopped, "--json")
    assert answer.code == 0, answer.err
    run = library.open_run(stopped)
    assert (run.state, run.rounds_done) == ("finished", 4)
    assert run.cost().epsilon == json.loads(answer.out)["privacy"]["epsilon"]
