"""The noise is Gaussian with this scale, its tail is there, and it is drawn in float64."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tacit.privacy.mechanisms import Gaussian, NoNoise
from tacit.privacy.noise import grid_step, normal_pairs, standard_normal
from tacit.privacy.randomness import Randomness
from tacit.privacy.sums import Block, BoundedSum
from tacit.privacy.tail import TAIL_BITS, tail_probability

KEY = Randomness.from_seed(7).noise_key(round=0, attempt=0)


def draws(count: int) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(standard_normal(KEY, (count,)))


def test_draws_are_gaussian_and_five_percent_off_would_show():
    sample = draws(200_001)
    assert stats.kstest(sample, "norm").pvalue > 1e-3
    assert stats.kstest(sample * 1.05, "norm").pvalue < 1e-6
    assert abs(np.corrcoef(sample[:100_000], sample[100_000:200_000])[0, 1]) < 0.02


def test_draws_are_not_float32():
    sample = draws(10_000)
    assert sample.dtype == np.float64
    assert (sample.astype(np.float32).astype(np.float64) == sample).mean() < 0.01


def test_the_tail_reaches_beyond_float32_and_float64_normals():
    """jax.random.normal stops near 5.4 σ in float32 and 8.2 σ in float64; a run of leading zeros takes us to 10.98 σ."""
    with jax.enable_x64(True):
        zero = jnp.zeros(1, jnp.uint64)
        extreme = normal_pairs(zero, zero, zero)
        rare = normal_pairs(jnp.full(1, 1, jnp.uint64), zero, zero)
    assert float(np.abs(extreme).max()) == pytest.approx(math.sqrt(2 * (TAIL_BITS + 1) * math.log(2)), rel=1e-12)
    assert float(np.abs(extreme).max()) == pytest.approx(10.98, abs=0.01)
    assert float(np.abs(rare).max()) > 9.4


def test_the_radius_has_the_exact_law_far_out():
    """Given k leading zeros, u is uniform on (2^-(k+1), 2^-k): half of it at each further zero."""
    generator = np.random.default_rng(0)
    words = generator.integers(0, 2**64, size=(3, 50_000), dtype=np.uint64)
    words[0] >>= np.uint64(40)  # at least 40 leading zeros: |pair| > √(2 · 40 · ln 2) = 7.4
    with jax.enable_x64(True):
        pairs = np.asarray(normal_pairs(*(jnp.asarray(word) for word in words)))
    radius = np.hypot(pairs[0], pairs[1])
    u = np.exp(-(radius**2) / 2) * 2.0**40
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    angle = np.arctan2(pairs[1], pairs[0]) / (2 * math.pi) + 0.5
    assert stats.kstest(angle, "uniform").pvalue > 1e-3


def test_tail_probability_counts_every_pair():
    assert tail_probability(10, 2, 3) == pytest.approx(6 * 3 * 2.0**-TAIL_BITS)
    assert tail_probability(1_140_000, 5, 5_000) < 1e-16


def test_words_of_ones_give_no_nan():
    with jax.enable_x64(True):
        ones = jnp.full(1, 2**64 - 1, jnp.uint64)
        assert np.isfinite(normal_pairs(ones, ones, ones)).all()


def test_releases_lie_on_a_grid_that_hides_the_low_bits(bounded):
    release, _ = Gaussian({"update": 1.0, "weight": 1.0}).release(bounded, (), key=KEY)
    step = grid_step(0.8)
    assert step == 2.0**-21  # 0.8 lies between 2⁻¹ and 1
    small = np.asarray(release["update"]["b"], np.float64)  # small enough for float32 to hold multiples exactly
    assert (small / step == np.round(small / step)).all()


@pytest.fixture
def bounded() -> BoundedSum:
    with jax.enable_x64(True):
        update = {"a": jnp.arange(60_000, dtype=jnp.float64).reshape(300, 200), "b": jnp.ones(3, jnp.float64)}
        return BoundedSum({"update": Block(update, 0.8), "weight": Block(jnp.full((), 7.0, jnp.float64), 1.0)})


def test_gaussian_scales_noise_to_each_blocks_bound(bounded):
    mechanism = Gaussian({"update": 1.5, "weight": 10.0})
    release, state = mechanism.release(bounded, mechanism.init({}), key=KEY)
    assert state == ()
    noise = np.asarray(release["update"]["a"], np.float64) - np.asarray(bounded.blocks["update"].total["a"])
    assert stats.kstest(noise.ravel() / (1.5 * 0.8), "norm").pvalue > 1e-3
    assert stats.kstest(noise.ravel() / (1.5 * 0.8 * 1.05), "norm").pvalue < 1e-6
    assert release["update"]["a"].dtype == jnp.float32
    assert float(release["weight"]) != 7.0


def test_blocks_and_leaves_get_different_noise(bounded):
    mechanism = Gaussian({"update": 1.0, "weight": 1.0})
    with jax.enable_x64(True):
        same = BoundedSum(
            {
                name: Block({"a": jnp.zeros(9, jnp.float64), "b": jnp.zeros(9, jnp.float64)}, 1.0)
                for name in bounded.blocks
            }
        )
    release, _ = mechanism.release(same, (), key=KEY)
    rows = np.stack([release[block][leaf] for block in release for leaf in "ab"])
    assert len(np.unique(rows)) == rows.size


def test_no_noise_is_the_plain_sum(bounded):
    release, _ = NoNoise({}).release(bounded, (), key=KEY)
    assert np.array_equal(release["update"]["a"], np.asarray(bounded.blocks["update"].total["a"], np.float32))
    assert float(release["weight"]) == 7.0
