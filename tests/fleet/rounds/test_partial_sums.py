"""Reports are added up as the gate of a simulation adds users up, and none moves the sum by more than the clip."""

import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import FleetError
from tacit.fleet.rounds.norm_check import _PIECE, SLACK
from tacit.fleet.rounds.partial_sums import PartialSum
from tacit.privacy.gate.rounding import HEADROOM
from tacit.privacy.gate.sums import ClipThresholds, Contributions, Gate
from tacit.privacy.record.records import UPDATE, WEIGHT, WITHIN

SHAPES = ((3, 2), (4,))


def clipped(draw, norm, users=5):
    """Updates as devices send them: some of them clipped to `norm` in each of their arrays, float32."""
    vectors = draw.normal(size=(users, 10))
    for piece in (slice(0, 6), slice(6, 10)):
        lengths = np.linalg.norm(vectors[:, piece], axis=1, keepdims=True)
        vectors[:, piece] *= np.minimum(1, norm / np.sqrt(2) / lengths)
    return vectors.astype(np.float32)


@pytest.mark.parametrize("style", ["flat", "per_layer"])
def test_the_sum_is_that_of_the_simulations_gate(style):
    draw = np.random.default_rng(1)
    updates, weights = clipped(draw, 0.7), draw.uniform(size=5) * [1, 1, 1, 1, 0]
    within = np.where(np.linalg.norm(updates.astype(float), axis=1) <= 0.4, 1, -1)
    found = PartialSum(0.7, SHAPES, style == "per_layer")
    for device, (update, weight, bit) in enumerate(zip(updates, weights, within, strict=True)):
        found.admit(device, update, float(weight), int(bit))
    gate = Gate([jnp.zeros(shape) for shape in SHAPES], ClipThresholds(0.7, 0.4), style=style, weighted=True)
    tree = [updates[:, :6].reshape(5, 3, 2), updates[:, 6:]]
    gate.admit(Contributions(tree, jnp.asarray(weights, jnp.float32), jnp.ones(5, bool)))
    expected = gate.close().blocks
    flat = np.concatenate([np.ravel(leaf) for leaf in expected[UPDATE].total])
    np.testing.assert_allclose(found.update, flat, rtol=1e-6)
    assert found.weight == pytest.approx(float(expected[WEIGHT].total), rel=1e-6)
    assert found.bits == pytest.approx(float(expected[WITHIN].total))


def test_what_float32_rounds_up_is_clipped_and_more_is_refused():
    update = np.zeros(10, np.float32)
    update[0] = 0.7 * (1 + 2.0**-22)
    found = PartialSum(0.7, SHAPES, False)
    found.admit(1, update, 1.0, 0)
    assert np.linalg.norm(found.update) <= 0.7 * HEADROOM
    update[0] = 0.7 * SLACK * (1 + 2.0**-20)
    with pytest.raises(FleetError, match="longer than the round's clip norm"):
        found.admit(2, update, 1.0, 0)
    assert found.devices == [1]


@pytest.mark.parametrize("style", ["flat", "per_layer"])
@pytest.mark.parametrize("entries", [_PIECE - 1, _PIECE, 2 * _PIECE + 3])
def test_long_updates_are_clipped_whole(style, entries):
    """Norm and sum go piece by piece; the result is that of the whole arrays, up to rounding."""
    shapes, draw = ((entries,), (5,)), np.random.default_rng(entries)
    update = draw.normal(size=entries + 5).astype(np.float32)
    layers, bound = [slice(0, entries), slice(entries, None)], np.float64(0.7)
    if style == "per_layer":
        bound /= np.sqrt(2)
    for layer in layers if style == "per_layer" else [slice(None)]:
        update[layer] *= np.float32(bound * (1 + 2.0**-21) / np.linalg.norm(update[layer].astype(np.float64)))
    found = PartialSum(0.7, shapes, style == "per_layer")
    found.admit(1, update, 0.3, 0)
    expected = update.astype(np.float64)
    for layer in layers if style == "per_layer" else [slice(None)]:
        norm = np.linalg.norm(expected[layer])
        assert bound < norm  # so that each is scaled
        expected[layer] *= bound / norm
    np.testing.assert_allclose(found.update, expected * (0.3 * HEADROOM), rtol=1e-12)
    assert np.linalg.norm(found.update) <= 0.7 * 0.3
    update[-1] *= 2 + entries  # the last piece counts
    with pytest.raises(FleetError, match="longer than the round's clip norm"):
        found.admit(2, update, 1.0, 0)


def test_one_long_layer_is_refused_where_layers_are_clipped():
    update = np.zeros(10, np.float32)
    update[0] = 0.6  # within 0.7, above 0.7/√2
    PartialSum(0.7, SHAPES, False).admit(1, update, 1.0, 0)
    with pytest.raises(FleetError, match="longer than the round's clip norm"):
        PartialSum(0.7, SHAPES, True).admit(1, update, 1.0, 0)


def test_no_device_is_counted_twice():
    update = np.full(10, 0.1, np.float32)
    one, two = PartialSum(1.0, SHAPES, False), PartialSum(1.0, SHAPES, False)
    one.admit(7, update, 1.0, 0)
    with pytest.raises(FleetError, match="already reported"):
        one.admit(7, update, 1.0, 0)
    two.admit(7, update, 1.0, 0)
    with pytest.raises(FleetError, match="sums of two processes"):
        one.merge(two)
    assert one.devices == [7]
    np.testing.assert_allclose(one.update, 0.1 * HEADROOM, rtol=1e-6)


def test_a_merged_sum_is_the_sum_of_all():
    draw = np.random.default_rng(2)
    updates = clipped(draw, 1.0)
    whole, parts = PartialSum(1.0, SHAPES, False), [PartialSum(1.0, SHAPES, False) for _ in range(2)]
    for device, update in enumerate(updates):
        whole.admit(device, update, 0.5, 1)
        parts[device % 2].admit(device, update, 0.5, 1)
    parts[0].merge(parts[1])
    np.testing.assert_allclose(parts[0].update, whole.update)
    assert sorted(parts[0].devices) == whole.devices
    assert (parts[0].weight, parts[0].bits) == pytest.approx((whole.weight, whole.bits))
