"""A filter splits a model into what is trained and what is frozen, by structure alone."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import RecipeError
from tacit.learning.trainable import join, trainable_of

MLP = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))


def names(trained: Any) -> list[str]:
    paths, _ = jax.tree_util.tree_flatten_with_path(trained)
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]


FIRST = ["layers.0.weight", "layers.0.bias"]
BOOLEANS = eqx.tree_at(lambda mlp: mlp.layers[0], jax.tree.map(lambda _: False, MLP), replace=True)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [*FIRST, "layers.1.weight", "layers.1.bias"]),
        (True, [*FIRST, "layers.1.weight", "layers.1.bias"]),
        (lambda path, leaf: path.startswith("layers.0"), FIRST),
        (lambda path, leaf: leaf.ndim == 2 and leaf.shape[0] == 2, ["layers.1.weight"]),
        (lambda leaf: leaf.ndim == 1, ["layers.0.bias", "layers.1.bias"]),
        (eqx.is_array, [*FIRST, "layers.1.weight", "layers.1.bias"]),
        (BOOLEANS, FIRST),
    ],
)
def test_every_kind_of_filter(given: Any, expected: list[str]) -> None:
    trainable = trainable_of(given)
    trained, frozen = trainable.split(MLP)
    assert names(trained) == expected
    assert not set(names(frozen)) & set(expected)
    assert eqx.tree_equal(join(trained, frozen), MLP)
    assert hash(trainable) == hash(trainable_of(given))
    inside: Any = jax.eval_shape(lambda arrays: trainable.trained(arrays), eqx.filter(MLP, eqx.is_array))
    assert names(inside) == expected  # under jit too


def test_what_is_not_a_floating_point_array_is_never_trained() -> None:
    model = {"w": jnp.ones(2), "table": np.arange(3), "relu": jax.nn.relu, "rate": 0.5, "none": None}
    trained, frozen = trainable_of(lambda path, leaf: True).split(model)
    assert names(trained) == ["w"]
    assert frozen["table"] is model["table"]
    assert frozen["relu"] is jax.nn.relu
    assert frozen["rate"] == 0.5


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (False, "Nothing would be trained: 4 of the model's 6 leaves"),
        (lambda path, leaf: "output" in path, "Nothing would be trained: 4 of the model's 6 leaves"),
        (lambda path, leaf: leaf.sum() > 0, "looks at the values of a leaf"),
        (lambda path, leaf: bool(np.asarray(leaf).any()), "looks at the values of a leaf"),
        ({"layers": True}, "neither the model's structure nor a prefix"),
    ],
)
def test_a_filter_that_trains_nothing_or_looks_at_values_is_refused(given: Any, sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        trainable_of(given).split(MLP)


@pytest.mark.parametrize("given", [3, "layers", {"w": 1}])
def test_what_is_no_filter_is_refused(given: Any) -> None:
    with pytest.raises(RecipeError, match="a predicate on"):
        trainable_of(given)


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(RecipeError, match="real numbers in the trained leaf w, got complex64"):
        trainable_of(None).split({"w": jnp.ones(2, jnp.complex64)})
