"""Averages of models: what they are in closed form, at their limits, and after a checkpoint."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import RecipeError
from tacit.learning.averaging import Averaging, ExponentialAverage, LastAverage, RunningAverage, averaging_of
from tacit.learning.loop import TrainingState
from tacit.learning.state import from_arrays, load_model, to_arrays
from tacit.learning.trainable import EVERYTHING, Trainable, trainable_of

SOME: tuple[Averaging, ...] = (LastAverage(3), LastAverage(1), ExponentialAverage(0.7), ExponentialAverage(0.0))


def models(count: int) -> list[dict[str, Any]]:
    """The models after the first rounds."""
    draws = np.random.default_rng(3)
    return [
        {"a": jnp.asarray(draws.normal(size=(2, 3)), jnp.float32), "b": jnp.asarray(draws.normal(), jnp.float32)}
        for _ in range(count)
    ]


def state_after(seen: list[Any], averaging: Averaging | None, trainable: Trainable = EVERYTHING) -> TrainingState:
    average = RunningAverage.of(averaging, seen[0], trainable)
    for round, model in enumerate(seen, start=1):
        average = average.after(model, round) if average is not None else None
    return TrainingState(len(seen), seen[-1], (), (), (), average=average)


def weighted(seen: list[Any], weights: list[float]) -> Any:
    """Σ w_i m_i / Σ w_i in float64."""
    total = sum(weights)
    return jax.tree.map(
        lambda *leaves: sum(w * np.asarray(leaf, np.float64) for w, leaf in zip(weights, leaves, strict=True)) / total,
        *seen,
    )


def assert_close(found: Any, expected: Any) -> None:
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6), found, expected)


def assert_same(found: Any, expected: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@given(rounds=st.integers(1, 7), k=st.integers(1, 9))
def test_the_last_ones_are_averaged_equally(rounds: int, k: int) -> None:
    seen = models(rounds)
    assert_close(state_after(seen, LastAverage(k)).result, weighted(seen[-k:], [1.0] * min(k, rounds)))


@given(rounds=st.integers(1, 7), decay=st.floats(0, 0.999))
def test_older_models_count_less_by_the_decay(rounds: int, decay: float) -> None:
    seen = models(rounds)
    weights = [decay ** (rounds - 1 - place) for place in range(rounds)]
    assert_close(state_after(seen, ExponentialAverage(decay)).result, weighted(seen, weights))


@pytest.mark.parametrize("averaging", [LastAverage(1), ExponentialAverage(0.0)], ids=str)
def test_an_average_of_one_model_is_that_model(averaging: Averaging) -> None:
    seen = models(4)
    assert_same(state_after(seen, averaging).result, seen[-1])


@pytest.mark.parametrize("averaging", SOME, ids=str)
def test_the_average_begins_with_the_first_release_and_not_with_the_model_before_it(averaging: Averaging) -> None:
    seen = models(1)
    assert_same(state_after(seen, averaging).result, seen[0])
    start = models(1)[0]
    unused = TrainingState(0, start, (), (), (), average=RunningAverage.of(averaging, start, EVERYTHING))
    assert unused.result is start


def test_frozen_leaves_are_those_of_the_last_model_and_are_not_kept() -> None:
    only_a = trainable_of(lambda path, leaf: path == "a")
    seen = [{**model, "b": jnp.asarray(round)} for round, model in enumerate(models(3))]
    state = state_after(seen, LastAverage(2), only_a)
    assert int(state.result["b"]) == 2
    assert_close(state.result["a"], weighted([model["a"] for model in seen[1:]], [1, 1]))
    assert not any("b" in name.removeprefix("average") for name in to_arrays(state)[0] if name.startswith("average"))


@pytest.mark.parametrize("averaging", [LastAverage(64), ExponentialAverage(0.99)], ids=str)
def test_short_floats_are_averaged_in_longer_ones(averaging: Averaging) -> None:
    """64 models of 1 and 64 of the next larger bfloat16: their sum in bfloat16 would lose the small steps."""
    one, next_one = jnp.asarray([1.0], jnp.bfloat16), jnp.asarray([1.0078125], jnp.bfloat16)
    seen = [{"a": one if round % 2 else next_one} for round in range(64)]
    state = state_after(seen, averaging)
    assert state.average is not None
    mean = state.average.averaging.mean(state.average.kept)["a"]
    np.testing.assert_allclose(np.asarray(mean, np.float64), 1.00390625, atol=1e-4)
    assert state.result["a"].dtype == jnp.bfloat16


@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("averaging", SOME, ids=str)
def test_a_checkpoint_continues_the_average_exactly(averaging: Averaging, rounds: int) -> None:
    seen = models(rounds + 2)
    kept = state_after(seen[:rounds], averaging)
    fresh = TrainingState(0, seen[0], (), (), (), average=RunningAverage.of(averaging, seen[0], EVERYTHING))
    again = from_arrays(fresh, rounds, *to_arrays(kept))
    assert_same(again.model, kept.model)
    for round in range(rounds, rounds + 2):
        assert again.average is not None
        again = TrainingState(round + 1, seen[round], (), (), (), average=again.average.after(seen[round], round + 1))
    assert_same(again.result, state_after(seen, averaging).result)


def test_who_reads_the_model_of_a_checkpoint_gets_the_average() -> None:
    seen = models(4)
    public, private = to_arrays(state_after(seen, LastAverage(2)))
    assert_close(load_model(seen[0], public), weighted(seen[-2:], [1, 1]))
    assert not private


def test_a_run_without_an_average_saves_what_it_always_saved() -> None:
    assert set(to_arrays(state_after(models(2), None))[0]) == {"model['a']", "model['b']"}


@pytest.mark.parametrize("averaging", SOME, ids=str)
def test_settings_say_which_average_it_is(averaging: Averaging) -> None:
    assert averaging_of(averaging.settings()) == averaging


def test_no_settings_mean_no_average() -> None:
    assert averaging_of({}) is None
    assert averaging_of({"average": "none", "average_rounds": 10}) is None


@pytest.mark.parametrize("rounds", [0, -1, 2.5, True, None])
def test_a_wrong_number_of_rounds_is_refused(rounds: Any) -> None:
    with pytest.raises(RecipeError, match=r"LastAverage\.rounds to be a whole number of at least 1"):
        LastAverage(rounds)


@pytest.mark.parametrize("decay", [1.0, -0.1, float("nan"), "much", True])
def test_a_wrong_decay_is_refused(decay: Any) -> None:
    with pytest.raises(RecipeError, match=r"0 ≤ ExponentialAverage\.decay < 1"):
        ExponentialAverage(decay)
