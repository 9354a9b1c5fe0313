"""Runs that hand on an average of their models: what is averaged, what is not, and that it survives a stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tacit
from tacit.errors import RecipeError
from tacit.learning.state import model_arrays
from tacit.simulation.training import resume_run, start_run
from tests.support.run_arrays import assert_same_arrays, final_arrays
from tests.support.stopping import stopped
from tests.support.tiny_recipe import FTRL, tiny

SEEDED = {"seed": 5}
LAST = {"average": "last", "average_rounds": 3}
EXPONENTIAL = {"average": "exponential", "average_decay": 0.6}


def last_models(run: Path) -> dict[str, np.ndarray]:
    """The model that users would go on from, by the names of a run that does not average."""
    found = final_arrays(run)
    return {name.replace("last", "model", 1): each for name, each in found.items() if name.startswith("last")}


def shown(run: Path) -> dict[str, np.ndarray]:
    return {name: each for name, each in final_arrays(run).items() if name.startswith("model")}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, np.ndarray]]]:
    """A seeded run that does not average, and its models after each round."""
    out = tmp_path_factory.mktemp("averaged") / "plain"
    seen = [model_arrays(step.model) for step in tacit.rounds(recipe=tiny(run=SEEDED), out=out)]
    return out, seen


@pytest.mark.parametrize("privacy", [{}, {**FTRL, "mechanism": "blt"}], ids=["gaussian", "blt"])
def test_the_result_is_the_mean_of_the_last_models_and_users_train_from_the_last(
    privacy: dict[str, Any], tmp_path: Path
) -> None:
    recipe = tiny(run=SEEDED, server=LAST, privacy=privacy)
    seen = [model_arrays(step.model) for step in tacit.rounds(recipe=recipe, out=tmp_path / "averaged")]
    start_run(tiny(run=SEEDED, privacy=privacy), tmp_path / "plain", tacit.Callback())
    for name, last in last_models(tmp_path / "averaged").items():
        np.testing.assert_array_equal(last, shown(tmp_path / "plain")[name])  # averaging changed no round
        np.testing.assert_array_equal(last, seen[-1][name])
        by_hand = np.mean([each[name].astype(np.float64) for each in seen[-3:]], axis=0)
        np.testing.assert_allclose(shown(tmp_path / "averaged")[name], by_hand, rtol=1e-5, atol=1e-7)
    assert any(not np.array_equal(seen[-1][name], each) for name, each in shown(tmp_path / "averaged").items())


def test_the_exponential_average_weighs_models_by_their_age(plain: Any, tmp_path: Path) -> None:
    start_run(tiny(run=SEEDED, server=EXPONENTIAL), tmp_path / "run", tacit.Callback())
    weights = 0.6 ** np.arange(len(plain[1]))[::-1]
    for name, found in shown(tmp_path / "run").items():
        by_hand = np.average([each[name].astype(np.float64) for each in plain[1]], axis=0, weights=weights)
        np.testing.assert_allclose(found, by_hand, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "server",
    [{"average": "last", "average_rounds": 1}, {"average": "exponential", "average_decay": 0.0}],
    ids=["last 1", "decay 0"],
)
def test_at_its_limit_an_average_is_none(server: dict[str, Any], plain: Any, tmp_path: Path) -> None:
    start_run(tiny(run=SEEDED, server=server), tmp_path / "run", tacit.Callback())
    found, expected = shown(tmp_path / "run"), shown(plain[0])
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_array_equal(found[name], expected[name])
    assert tacit.open_run(tmp_path / "run").metrics == tacit.open_run(plain[0]).metrics


@pytest.mark.parametrize("server", [LAST, EXPONENTIAL], ids=["last", "exponential"])
def test_stopping_and_resuming_continues_the_average_exactly(server: dict[str, Any], tmp_path: Path) -> None:
    recipe = tiny(run=SEEDED, server=server)
    start_run(recipe, tmp_path / "whole", tacit.Callback())
    stopped(recipe, tmp_path / "run", 2)
    resume_run(tmp_path / "run", tacit.Callback())
    assert_same_arrays(tmp_path / "whole", tmp_path / "run")
    assert tacit.open_run(tmp_path / "run").metrics == tacit.open_run(tmp_path / "whole").metrics


def test_what_is_measured_predicted_exported_and_named_is_the_average(tmp_path: Path) -> None:
    run = tacit.train(recipe=tiny(run=SEEDED, server=LAST), out=tmp_path / "run")
    average = shown(run.path)
    for name, found in model_arrays(run.model).items():
        np.testing.assert_array_equal(found, average[name])
    for name, found in model_arrays(run.exportable().model).items():
        np.testing.assert_array_equal(found, average[name])
    assert run.summary["average"] == "the mean of the models after the last 3 rounds"
    assert run.exportable().card["average"] == run.summary["average"]
    plain = tacit.train(recipe=tiny(run=SEEDED), out=tmp_path / "plain")
    assert "average" not in plain.summary
    assert plain.exportable().card["average"] is None
    last, without = run.metrics[-1], plain.metrics[-1]
    assert last["perplexity"] != without["perplexity"]
    assert run.summary["metrics"]["perplexity"] == pytest.approx(last["perplexity"])


@pytest.mark.slow  # compiles a program of its own
def test_only_trained_parts_are_averaged(tmp_path: Path) -> None:
    recipe = tiny(run=SEEDED, server=LAST, work={"trainable": ["cell"]})
    start_run(recipe, tmp_path / "run", tacit.Callback())
    found = final_arrays(tmp_path / "run")
    np.testing.assert_array_equal(found["model.embedding"], found["last.embedding"])
    assert any(not np.array_equal(found[name], last) for name, last in last_models(tmp_path / "run").items())
    assert not any("embedding" in name for name in found if name.startswith("average"))


def call(out: Path, average: Any, **options: Any) -> tacit.Run:
    users = tacit.users({f"person {n}": [[4, 5, 4, 5 + n % 2]] for n in range(40)}, held_out=0.2, key=b"k" * 32)
    return tacit.train(
        {"logits": jnp.zeros(7)},
        lambda model, batch: (-jax.nn.log_softmax(model["logits"])[batch[:, 1:]].sum(), batch[:, 1:].size),
        users,
        held_out=4,
        work=tacit.FedAvg(batch_size=2, learning_rate=0.1),
        privacy=tacit.PrivacyPlan(population=30, cohort=10, clip_norm=1.0, noise_multiplier=1.0, delta=1e-3),
        server=optax.sgd(1.0),
        rounds=4,
        seed=3,
        average=average,
        out=out,
        **options,
    )


def test_a_model_of_your_own_is_averaged_too(tmp_path: Path) -> None:
    plain = call(tmp_path / "plain", None, checkpoint_every=1)
    run = call(tmp_path / "run", tacit.LastAverage(1))
    np.testing.assert_array_equal(run.model["logits"], plain.model["logits"])
    averaged = call(tmp_path / "averaged", tacit.ExponentialAverage(0.5))
    assert not np.array_equal(averaged.model["logits"], plain.model["logits"])
    np.testing.assert_array_equal(final_arrays(averaged.path)["last['logits']"], plain.model["logits"])
    assert averaged.settings["server"] == {"average": "exponential", "average_decay": 0.5}
    assert "server" not in plain.settings


@pytest.mark.parametrize("average", ["last", 3, tacit.LastAverage], ids=str)
def test_what_is_no_average_is_refused(average: Any, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"Expected average to be tacit\.LastAverage"):
        call(tmp_path / "run", average)


@pytest.mark.parametrize(
    ("server", "field"),
    [
        ({"average": "median"}, r"server\.average"),
        ({"average": "last", "average_rounds": 0}, r"server\.average_rounds"),
        ({"average": "exponential", "average_decay": 1.0}, r"server\.average_decay"),
    ],
)
def test_a_wrong_value_in_a_recipe_is_refused(server: dict[str, Any], field: str) -> None:
    with pytest.raises(RecipeError, match=field):
        tiny(server=server)
