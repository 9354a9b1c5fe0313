"""One device's contribution is bounded whatever its update was."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.fleet.device.clipping import contribution_of
from tacit.fleet.rounds.norm_check import SLACK

numbers = st.floats(-1e6, 1e6, width=32)


def task(style="flat", cap=None):
    return SimpleNamespace(clipping=style, example_cap=cap)


def of(update, predictions=5, style="flat", cap=None, clip=1.0, threshold=None):
    leaves = [np.array(leaf, np.float32) for leaf in update]
    return contribution_of(leaves, predictions, task(style, cap), clip_norm=clip, threshold=threshold)


@given(st.lists(numbers, min_size=1, max_size=6), st.lists(numbers, min_size=1, max_size=6), st.floats(1e-3, 1e3))
def test_no_update_is_longer_than_the_clip(first, second, clip):
    flat = of([first, second], clip=clip).update
    assert np.linalg.norm(flat.astype(np.float32).astype(np.float64)) <= clip * SLACK
    layers = of([first, second], style="per_layer", clip=clip).update
    for part in np.split(layers, [len(first)]):
        assert np.linalg.norm(part) <= clip / math.sqrt(2) * SLACK


def test_clipping_keeps_the_direction_and_leaves_short_ones_alone():
    np.testing.assert_allclose(of([[3.0], [4.0]]).update, [0.6, 0.8])
    np.testing.assert_array_equal(of([[0.25], [0.5]]).update, [0.25, 0.5])
    np.testing.assert_allclose(of([[3.0], [0.5]], style="per_layer").update, [math.sqrt(0.5), 0.5])


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e13])
@pytest.mark.parametrize("style", ["flat", "per_layer"])
def test_what_is_not_finite_counts_as_nothing(bad, style):
    found = of([[1.0, bad], [0.0]], style=style, threshold=1.0)
    assert (found.update.tolist(), found.weight, found.within) == ([0.0, 0.0, 0.0], 0.0, -1)
    assert of([[1.0, bad], [0.0]], style=style).within == 0


def test_the_bit_compares_the_norm_before_clipping():
    assert of([[3.0], [4.0]], threshold=5.0).within == 1
    assert of([[3.0], [4.0]], threshold=4.9).within == -1
    assert of([[3.0], [4.0]]).within == 0


@pytest.mark.parametrize(("predictions", "cap", "weight"), [(5, None, 1), (0, None, 0), (5, 20.0, 0.25), (30, 20.0, 1)])
def test_weights(predictions, cap, weight):
    assert of([[1.0]], predictions, cap=cap).weight == weight
