"""The gate: no user moves the sum by more than the stated bound, whatever is fed into it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.privacy.gate import sums
from tacit.privacy.gate.clipping import clip
from tacit.privacy.gate.sums import HEADROOM, ClipThresholds, Contributions, Gate
from tests.support.gate_sums import admit, flat

USERS = 4


floats = st.floats(-(2.0**100), 2.0**100, width=32)
vectors = st.lists(floats, min_size=10, max_size=10)


@settings(max_examples=60)
@given(
    rows=st.lists(vectors, min_size=USERS, max_size=USERS),
    weights=st.lists(st.floats(-1, 3, width=32), min_size=USERS, max_size=USERS),
    who=st.integers(0, USERS - 1),
    style=st.sampled_from(["flat", "per_layer"]),
)
def test_one_user_moves_each_block_by_at_most_its_bound(rows, weights, who, style):
    values, weights = np.array(rows, np.float32), np.array(weights, np.float32)
    with_user = admit(values, weights, style=style)
    values[who], weights[who] = 0, 0
    without = admit(values, weights, style=style)
    assert np.linalg.norm(flat(with_user) - flat(without)) <= with_user.blocks["update"].bound
    moved = abs(float(with_user.blocks["weight"].total) - float(without.blocks["weight"].total))
    assert moved <= with_user.blocks["weight"].bound


def test_a_norm_summed_in_float32_would_break_the_bound():
    """A million equal coordinates: their squares, added one by one in float32, come out too small, so S would be passed."""
    update = np.full(1 << 20, 0.1, np.float32)
    naive_norm = np.sqrt(float(np.cumsum(update * update, dtype=np.float32)[-1]))
    assert np.linalg.norm(update.astype(np.float64)) / naive_norm > 1.001
    gate = Gate(jnp.zeros(update.size, jnp.float32), ClipThresholds(1.0), style="flat", weighted=False)
    gate.admit(Contributions(jnp.asarray(update)[None], jnp.ones(1), jnp.ones(1, bool)))
    assert HEADROOM - 1e-6 < np.linalg.norm(np.asarray(gate.close().blocks["update"].total)) <= 1.0


def test_a_gpu_adds_users_together_and_a_cpu_one_by_one_to_the_same_sum():
    """Also where a user who does not count has sent infinity."""
    rows = np.random.default_rng(0).normal(size=(USERS, 3, 2)).astype(np.float32)
    rows[1] = np.inf
    with jax.enable_x64(True):
        totals, factors = {"a": jnp.ones((3, 2), jnp.float64)}, {"a": jnp.linspace(0.1, 1.0, USERS, dtype=jnp.float64)}
        given = totals, {"a": jnp.asarray(rows)}, jnp.asarray([True, False, True, True]), factors
        together, one_by_one = sums._add_together(*given)["a"], sums._add_one_by_one(*given)["a"]
    expected = 1 + np.tensordot(np.linspace(0.1, 1.0, USERS)[[0, 2, 3]], rows[[0, 2, 3]].astype(np.float64), axes=1)
    np.testing.assert_allclose(together, expected, rtol=1e-14)
    np.testing.assert_allclose(one_by_one, expected, rtol=1e-14)


def test_short_updates_pass_unclipped_and_long_ones_touch_the_bound():
    values = np.zeros((2, 10), np.float32)
    values[0, 0], values[1, 3] = 0.25, 40.0
    total = flat(admit(values, np.ones(2, np.float32)))
    assert total[0] == pytest.approx(0.25 * HEADROOM)
    assert total[3] == pytest.approx(HEADROOM)


def test_clipping_twice_is_clipping_once():
    """A user's update must not depend on how many empty batches pad it."""
    for seed in range(20):  # by rounding, about half of them come out a little above the bound
        one, other = jax.random.split(jax.random.key(seed))
        update = {"a": jax.random.normal(one, (300, 7)), "b": jax.random.normal(other, (9,))}
        for style in ("flat", "per_layer"):
            once = clip(update, jnp.float32(0.3), style)
            twice = clip(once, jnp.float32(0.3), style)
            assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), once, twice)))


def test_per_layer_clipping_spends_the_bound_evenly():
    clipped = clip({"a": jnp.full((3, 2), 9.0), "b": jnp.full(4, 9.0)}, jnp.float32(2.0), "per_layer")
    for leaf in clipped.values():
        assert float(jnp.linalg.norm(leaf.ravel())) == pytest.approx(2 / np.sqrt(2), rel=1e-6)


def test_without_a_clip_norm_nothing_is_clipped():
    values = np.full((1, 10), 1e6, np.float32)
    np.testing.assert_allclose(flat(admit(values, np.ones(1, np.float32), clip_norm=np.inf)), 1e6 * HEADROOM)
