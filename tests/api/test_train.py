"""The library as a researcher uses it: own model, own users, own loop, and every page and figure of the run."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from safetensors import safe_open

import tacit
from tacit.errors import AuditError, DivergedError, PrivacyError, RecipeError, RunError
from tacit.runs.folder import RunFolder
from tacit.runs.witness_check import check_witness
from tests.support.witnesses import listening
from tests.support.witnesses_at_rest import witness_in

WORDS = [f"w{i}" for i in range(30)]
SIZE = 34  # four reserved entries
KEY = bytes([1]) * 32


def people(count: int = 120) -> tacit.MemoryUsers:
    told = {f"u{i}": [" ".join(WORDS[(i + j + k) % 30] for k in range(5)) for j in range(4)] for i in range(count)}
    return tacit.users(told, vocabulary=WORDS, held_out=0.1, key=KEY)


def bigram() -> dict[str, jax.Array]:
    one, other = jax.random.split(jax.random.key(0))
    return {"table": 0.1 * jax.random.normal(one, (SIZE, 8)), "out": 0.1 * jax.random.normal(other, (8, SIZE))}


def loss(model: Any, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
    logits, target = model["table"][tokens[:, :-1]] @ model["out"], tokens[:, 1:]
    mask = (target > 1).astype(jnp.float32)
    own = jnp.take_along_axis(logits, target[..., None], -1)[..., 0]
    return jnp.sum((jax.nn.logsumexp(logits, -1) - own) * mask), jnp.sum(mask)


class Attention(eqx.Module):
    """A transformer of one block, as somebody else would write it: tokens [length] → logits [length, vocabulary]."""

    table: jax.Array
    place: jax.Array
    mix: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm

    def __init__(self, *, key: jax.Array) -> None:
        one, two, three = jax.random.split(key, 3)
        self.table = 0.1 * jax.random.normal(one, (SIZE, 8))
        self.place = 0.1 * jax.random.normal(two, (10, 8))
        self.mix = eqx.nn.MultiheadAttention(2, 8, key=three)
        self.norm = eqx.nn.LayerNorm(8)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.table[tokens] + self.place[: len(tokens)]
        seen = jax.vmap(self.norm)(x)
        x = x + self.mix(seen, seen, seen, jnp.tril(jnp.ones((len(tokens), len(tokens)), bool)))
        return x @ self.table.T


PLAN = {"population": 110, "cohort": 20, "clip_norm": 0.5, "noise_multiplier": 1.5, "delta": 1e-4}


def settings(**changes: Any) -> dict[str, Any]:
    return {
        "work": tacit.FedAvg(batch_size=4, learning_rate=0.5),
        "privacy": tacit.PrivacyPlan(**PLAN),
        "server": optax.sgd(1.0, momentum=0.9, nesterov=True),
        "rounds": 4,
        "evaluate_every": 2,
        "checkpoint_every": 2,
        **changes,
    }


def same(one: Any, other: Any) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs if eqx.is_array(a))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tacit.Run:
    """The script of the issue, smaller: a dict of arrays, a loss function, and users from a dict."""
    out = tmp_path_factory.mktemp("runs") / "mine"
    return tacit.train(bigram(), loss, people(), **settings(), out=out, callbacks=[tacit.Progress()])


def test_a_run_owns_what_it_is(run: tacit.Run, tmp_path: Path) -> None:
    assert (run.state, run.rounds_done) == ("finished", 4)
    assert [each["round"] for each in run.metrics] == [2, 4]
    assert 0 < run.metrics[-1]["loss"] < 5
    cost = run.cost()
    assert 0 < cost.epsilon < 20
    assert cost.epsilon == pytest.approx(run.summary["privacy"]["epsilon"])
    assert "ε = " in run.guarantee().as_markdown()
    assert len(run.ledger.intents) == 4
    page = run.report(tmp_path / "mine.html").read_text()
    assert page.startswith("<!doctype html>")
    assert ">loss<" in page  # the curve of what the task measures
    assert run.report(tmp_path / "shared.html", share=True).exists()
    assert run.plot(tmp_path / "mine.png").stat().st_size > 1000
    assert run.gate_audit() is not None
    assert not same(run.model, bigram())


def test_the_guarantee_says_that_nobody_lists_runs_on_such_users(run: tacit.Run) -> None:
    assert "Tacit keeps no list of them, because these users are not in a store" in run.guarantee().as_markdown()


def test_a_run_is_opened_again_with_a_model_of_the_same_shape(run: tacit.Run) -> None:
    again = tacit.open_run(run.path, model=jax.tree.map(jnp.zeros_like, bigram()))
    assert same(again.model, run.model)
    assert again.cost() == run.cost()
    with pytest.raises(RunError, match="whose class the folder does not hold"):
        _ = tacit.open_run(run.path).model


def test_an_export_holds_the_model_and_the_guarantee(run: tacit.Run, tmp_path: Path) -> None:
    path = run.export(tmp_path / "mine.safetensors")
    with safe_open(path, "numpy") as kept:
        assert "ε = " in kept.metadata()["guarantee"]
        np.testing.assert_array_equal(kept.get_tensor("model['out']"), run.model["out"])
    with pytest.raises(RunError, match="Expected a recurrent word model to write as ONNX, got dict"):
        run.export(tmp_path / "mine.onnx")
    with pytest.raises(RunError, match=r"ends in \.safetensors or \.onnx"):
        run.export(tmp_path / "mine.txt")


def test_a_loss_alone_cannot_predict(run: tacit.Run) -> None:
    with pytest.raises(RunError, match=r"a task with a method scores\(model, tokens\) is needed"):
        run.predict("w1")


@pytest.mark.slow
def test_a_transformer_of_ones_own_trains_predicts_and_goes_on(tmp_path: Path) -> None:
    model, users = Attention(key=jax.random.key(1)), people()
    whole = tacit.train(model, tacit.NextWord(), users, **settings(seed=3), out=tmp_path / "whole")
    assert [word in WORDS for word, _ in whole.predict("w3 w4", 5)] == [True] * 5
    assert set(whole.metrics[-1]) >= {"loss", "top1", "top3"}
    for step in tacit.rounds(model, tacit.NextWord(), users, **settings(seed=3), out=tmp_path / "parts"):
        if step.number == 3:
            break
    assert tacit.open_run(tmp_path / "parts").state == "stopped"
    objects = {name: settings()[name] for name in ("work", "server")}
    parts = tacit.resume(tmp_path / "parts", model, tacit.NextWord(), users, **objects)
    assert parts.state == "finished"
    assert len(parts.ledger.intents) == 4  # the last round was saved, and is not run again
    assert same(parts.model, whole.model)
    assert math.isinf(parts.cost().epsilon)  # seeded


def test_a_call_with_a_witness_goes_on_with_it(tmp_path: Path) -> None:
    server = witness_in(tmp_path / "witness")
    objects = {name: settings()[name] for name in ("work", "server")}
    with listening(server) as address:
        witness = tacit.Witness(address=address, key=server.key.public.text())
        for _ in tacit.rounds(bigram(), loss, people(), **settings(rounds=2), witness=witness, out=tmp_path / "run"):
            break
        run = tacit.resume(tmp_path / "run", bigram(), loss, people(), **objects)
        assert run.ledger.opened.witness == witness.record()
        assert check_witness(RunFolder.open(run.path)).signed == len(run.ledger.records)
    with pytest.raises(RecipeError, match=r"Expected witness to be tacit\.Witness"):
        tacit.train(bigram(), loss, people(), **settings(), witness=address, out=tmp_path / "other")


def test_only_what_is_trained_moves(tmp_path: Path) -> None:
    model = bigram()
    run = tacit.train(
        model, loss, people(), **settings(rounds=2, trainable=lambda path, leaf: path == "out"), out=tmp_path / "run"
    )
    np.testing.assert_array_equal(run.model["table"], model["table"])
    assert not np.array_equal(run.model["out"], model["out"])
    assert run.ledger.opened.release.coordinates == model["out"].size


def test_an_audit_guesses_who_was_in(tmp_path: Path) -> None:
    users = people()
    plan = tacit.canaries(users, coins=100, copies=8, device_rate=1.0, seed=1)
    quiet = tacit.PrivacyPlan(**{**PLAN, "noise_multiplier": 0.0, "mechanism": "none", "delta": 1e-9})
    run = tacit.train(bigram(), loss, users, **settings(privacy=quiet), out=tmp_path / "run", canaries=plan)
    assert run.metrics[-1]["loss"] < math.log(SIZE)  # without noise two rounds are enough to learn something
    found = run.audit()
    assert max(bound.epsilon for bound in found.bounds.values()) > 0
    assert math.isinf(found.proven.epsilon)


def test_a_run_without_canaries_cannot_be_audited(run: tacit.Run) -> None:
    with pytest.raises(AuditError, match="Expected a run with canary users"):
        run.audit()


def test_other_objects_do_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in tacit.rounds(bigram(), loss, people(), **settings(), out=tmp_path / "run"):
        if step.number == 1:
            break
    objects = {name: settings()[name] for name in ("work", "server")}
    other = jax.tree.map(lambda leaf: leaf + 1, bigram())
    with pytest.raises(PrivacyError, match=r"model\.sha256"):
        tacit.resume(tmp_path / "run", other, loss, people(), **objects)
    slower = tacit.FedAvg(batch_size=4, learning_rate=0.1)
    with pytest.raises(PrivacyError, match=r"work\.learning_rate is 0\.5, got 0\.1"):
        tacit.resume(tmp_path / "run", bigram(), loss, people(), work=slower, server=objects["server"])
    with pytest.raises(PrivacyError, match=r"model\.trained"):
        tacit.resume(tmp_path / "run", bigram(), loss, people(), **objects, trainable=lambda path, leaf: path == "out")
    stranger = tacit.users({"x": ["w1"], "y": ["w2"]}, vocabulary=WORDS, held_out=0.5, key=bytes([2]) * 32)
    with pytest.raises(tacit.TacitError):
        tacit.resume(tmp_path / "run", bigram(), loss, stranger, **objects)
    with pytest.raises(RunError, match="needs the same objects to go on"):
        tacit.resume(tmp_path / "run")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"recipe": "demo", "rounds": 3}, "got a recipe and rounds"),
        ({"recipe": "demo", "model": {}}, "got a recipe and model"),
        ({}, "tacit.train needs model, task, users, work, privacy, server, rounds"),
        ({"model": {}, "task": loss, "users": [], "work": tacit.FedAvg}, "needs privacy, server, rounds to train"),
        ({"recipe": "demo", "changes": "run.rounds=2"}, "Expected changes to be a list"),
        ({"recipe": "demo", "callbacks": tacit.Progress()}, "Expected callbacks to be a list, got one Progress"),
        ({"recipe": "demo", "callbacks": [tacit.Progress]}, "subclasses of tacit.Callback"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        tacit.train(**arguments, out=tmp_path / "run")
    assert sentence in caught.value.sentence
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"users": {"ann": ["see you"]}}, "Expected users to be users, got an object of the class dict."),
        ({"held_out": 0.1}, "Expected held_out to be a number of users, or users of their own, got 0.1."),
        ({"held_out": ["ann"]}, "Expected held_out to be users, got an object of the class list."),
        ({"work": "fedavg"}, "such as tacit.FedAvg(), got 'fedavg'."),
        ({"work": tacit.FedAvg}, "such as tacit.FedAvg(), got the class FedAvg."),
        ({"privacy": PLAN}, "Expected privacy to be a tacit.PrivacyPlan, got an object of the class dict."),
        ({"server": 1.0}, "Expected server to be an optax transformation, such as optax.sgd(1.0), got 1.0."),
        ({"server": optax.sgd}, "got an object of the class function."),
        ({"batches": 8}, "Expected batches to be tacit.TextBatches(...) or the like, got 8."),
        ({"canaries": 8}, "Expected canaries to be a plan of tacit.canaries(...), got 8."),
        ({"seed": "x"}, "Expected seed to be a whole number of at least 0, got 'x'."),
        ({"rounds": 2.5}, "Expected rounds to be a whole number of at least 1, got 2.5."),
        ({"evaluate_every": 0}, "Expected evaluate_every to be a whole number of at least 1, got 0."),
        ({"checkpoint_every": -1}, "Expected checkpoint_every to be a whole number of at least 1, got -1."),
        ({"changes": ["run.rounds=2"]}, "The argument changes is for a recipe, and no recipe is given."),
        ({"model": {"w": jnp.zeros(2, int)}}, "Nothing would be trained: 0 of the model's 1 leaves are arrays"),
        (
            {"task": lambda model, tokens: jnp.sum(model["table"])},
            "return (sum of losses, number of predictions), got a single value.",
        ),
        ({"task": lambda model, tokens: (1.0, 2.0, 3.0)}, "(sum of losses, number of predictions), got 3 values."),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    arguments = {"model": bigram(), "task": loss, "users": people(20), **settings(), **changes}
    with pytest.raises(RecipeError) as caught:
        tacit.train(**arguments, out=tmp_path / "run")
    assert sentence in caught.value.sentence


def test_what_an_opened_run_cannot_do_is_said(tmp_path: Path) -> None:
    tacit.train(bigram(), loss, people(), **settings(rounds=1), out=tmp_path / "run")
    again = tacit.open_run(tmp_path / "run", model=bigram())
    with pytest.raises(AuditError, match="begun with objects of your own"):
        again.audit()
    with pytest.raises(RunError, match="a task with a method scores"):
        again.predict("w1")
    with pytest.raises(RecipeError, match="begun with objects of your own"):
        tacit.inspect_text(run=tmp_path / "run")


@pytest.mark.slow
def test_a_recipe_trains_as_the_command_does(tmp_path: Path) -> None:
    small = ["run.rounds=2", "data.users=400", "privacy.population=400", "privacy.cohort=10", "privacy.delta=1e-4"]
    run = tacit.train(recipe="demo", changes=[*small, "data.held_out=2"], out=tmp_path / "run")
    assert run.summary["rounds"] == 2
    assert len(run.predict("see you")) == 3
    assert run.export(tmp_path / "demo.onnx").exists()


def test_a_callback_that_leaves_the_loop_loses_nothing(tmp_path: Path) -> None:
    with tacit.rounds(bigram(), loss, people(), **settings(), out=tmp_path / "run") as steps:
        assert next(iter(steps)).number == 1
    assert steps.run.state == "stopped"


def test_a_model_without_a_score_for_each_word_is_refused(tmp_path: Path) -> None:
    """JAX drops what is written beyond an array, so such a model would train and mean nothing."""
    few = Attention(key=jax.random.key(0))
    few = eqx.tree_at(lambda model: model.table, few, few.table[:10])
    sentence = r"Expected a model with a score for each of the 34 entries of the vocabulary, got 10\."
    with pytest.raises(RecipeError, match=sentence):
        tacit.train(few, tacit.NextWord(), people(), out=tmp_path / "run", **settings())
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_finite_ends_the_run_in_one_sentence(tmp_path: Path) -> None:
    """Its gradients may be finite: those of words that the model has no place for are dropped."""
    model = bigram()
    few = {"table": model["table"], "out": model["out"][:, :10]}
    with pytest.raises(DivergedError, match="is not finite") as raised:
        tacit.train(few, loss, people(), out=tmp_path / "run", **settings())
    assert "check the loss" in str(raised.value.hint)
    assert tacit.open_run(tmp_path / "run").state == "diverged"


def test_a_metric_that_is_not_a_number_is_null(tmp_path: Path) -> None:
    class WithRatio:
        def loss_sum(self, model: Any, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
            return loss(model, tokens)

        def metrics(self, model: Any, tokens: jax.Array) -> dict[str, tuple[jax.Array, jax.Array]]:
            return {"ratio": (jnp.float32(jnp.nan), jnp.float32(1))}

    run = tacit.train(bigram(), WithRatio(), people(), out=tmp_path / "run", **settings())
    assert run.state == "finished"
    assert run.summary["metrics"]["ratio"] is None
    assert run.metrics[-1]["ratio"] is None


def test_a_metric_may_not_take_the_name_of_something_else(tmp_path: Path) -> None:
    class Named:
        def loss_sum(self, model: Any, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
            return loss(model, tokens)

        def metrics(self, model: Any, tokens: jax.Array) -> dict[str, Any]:
            return {"round": (jnp.float32(1), jnp.float32(1))}

    with pytest.raises(RecipeError, match="calls a metric 'round'"):
        tacit.train(bigram(), Named(), people(), **settings(), out=tmp_path / "run")


def test_a_world_holds_out_people_beyond_its_own(tmp_path: Path) -> None:
    world = tacit.KeyboardWorld(1, 200, vocabulary_size=SIZE)
    run = tacit.train(bigram(), loss, world, **settings(rounds=1), held_out=3, out=tmp_path / "run")
    assert run.metrics[-1]["loss"] > 0
    assert "the users of a generated world are not people" in run.guarantee().as_markdown()
    same, more = world.gather(np.arange(200)), world.with_more(3).gather(np.arange(200))
    np.testing.assert_array_equal(same.items, more.items)


def test_a_target_epsilon_without_a_recipe_points_to_calibrate() -> None:
    with pytest.raises(RecipeError, match="epsilon is for a recipe") as refused:
        tacit.train(object(), object(), object(), epsilon=8.0)
    assert "tacit.calibrate" in str(refused.value.hint)


def test_a_cost_is_printed_rounded_up(run: tacit.Run) -> None:
    cost = run.cost()
    printed = str(cost)
    told = float(re.match(r"epsilon = ([\d.]+) at delta = 0\.0001 \(add or remove one user; pld\)$", printed)[1])  # type: ignore[index]
    assert cost.epsilon <= told < cost.epsilon + 0.01
    assert str(replace(cost, epsilon=0.4301, rho=0.12341)).startswith("epsilon = 0.44 at delta = 0.0001, rho = 0.1235 ")
    infinite = replace(cost, epsilon=math.inf, reasons_not_private=("the noise can be replayed",))
    assert str(infinite).startswith("epsilon is infinite: the noise can be replayed")
