"""The discretisation: its norm bound on a million vectors and on nasty ones, no wrapping, and NumPy equal to JAX."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard

from tacit.errors import ProtocolError
from tacit.secagg.encoding import Encoding, decoded, encoded, for_device_noise, for_server_noise, integers
from tacit.secagg.hadamard import public_signs, rotated, unrotated


def centred(values: np.ndarray, bits: int) -> np.ndarray:
    signed = values.astype(np.int64)
    return np.where(signed >= 1 << (bits - 1), signed - (1 << bits), signed)


def small(**changes) -> Encoding:
    constants = {"dimension": 8, "clip_norm": 1.0, "scale": 3.0, "element_clip": 500, "bits": 16, "block": 8}
    return Encoding(**{**constants, **changes})


def test_the_norm_bound_holds_on_a_million_vectors():
    """Short, long and clipped ones, at a scale so small that rounding adds most of the norm; unchecked, many would pass it."""
    rng, encoding = np.random.default_rng(0), small(rounding_failure=0.6)
    signs = public_signs(b"million", 8)
    longest, unchecked = 0, 0
    for _ in range(10):
        vectors = rng.normal(size=(100_000, 8)) * rng.exponential(1, (100_000, 1))
        uniforms = rng.random((100_000, 8))
        whole = centred(encoded(vectors, encoding, signs=signs, uniforms=uniforms), 16)
        longest = max(longest, int((whole**2).sum(axis=1).max()))
        norms = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
        scaled = rotated(vectors / np.maximum(norms, 1), signs, 8) * encoding.scale
        drawn = np.floor(scaled) + (uniforms < scaled - np.floor(scaled))
        unchecked += int(((drawn**2).sum(axis=1) > encoding.norm_limit_squared).sum())
    assert longest == encoding.norm_limit_squared
    assert unchecked > 1000


@settings(max_examples=100)
@given(
    st.lists(st.floats(width=64), min_size=1, max_size=40),
    st.sampled_from([1e-3, 1.0, 7.0, 1e5]),
    st.sampled_from([0.0, 0.5, 1 - 2**-53]),
    st.integers(0, 5),
)
def test_the_norm_bound_holds_on_whatever_comes(entries, scale, draw, seed):
    """Any floats, not finite ones included, and the draws that round everything up, down or to the nearest."""
    encoding = Encoding(len(entries), 2.0, scale, element_clip=1 << 20, bits=32, block=8)
    signs = public_signs(bytes([seed]), encoding.padded)
    made = encoded(np.array(entries), encoding, signs=signs, uniforms=np.full(encoding.padded, draw))
    whole = centred(made, 32)
    assert sum(int(v) ** 2 for v in whole) <= encoding.norm_limit_squared
    if not np.isfinite(entries).all():
        assert not whole.any()


def test_draws_that_conspire_are_caught():
    """Every entry just above a whole number and every draw rounding up: unchecked, the norm would pass the limit."""
    encoding = small(dimension=4096, block=4096, scale=64.0, element_clip=1 << 14)
    scaled = np.full(4096, 0.001)
    unchecked = np.ceil(scaled)
    assert (unchecked**2).sum() <= (64 + 64) ** 2  # allowed by the bound that always holds …
    limit = encoding.norm_limit_squared
    spike = np.zeros(4096)
    spike[0] = math.sqrt(64**2 - 4096 * 0.001**2)
    worst = np.where(np.arange(4096) == 0, spike, scaled)
    assert (np.ceil(worst) ** 2).sum() > limit  # … and not by the one that holds mostly
    kept = integers(worst, encoding, np.zeros(4096))
    assert (kept**2).sum() <= limit
    np.testing.assert_array_equal(kept, np.trunc(worst))


def test_the_limit_is_the_papers():
    encoding = small(dimension=64, block=64, clip_norm=2.0, scale=10.0, rounding_failure=math.exp(-0.5))
    always, mostly = (20 + 8) ** 2, 400 + 16 + 1.0 * (20 + 4)
    assert encoding.norm_limit_squared == math.floor(min(always, mostly)) == 440
    assert encoding.inflated_bound == pytest.approx(math.sqrt(440) / 10, rel=2e-6)
    assert encoding.inflated_bound > math.sqrt(440) / 10
    # Entries clipped to one can make no vector longer than the root of the dimension.
    assert small(dimension=64, block=64, scale=100.0, element_clip=1).norm_limit_squared == 64


def test_wider_integers_inflate_less():
    bounds = [
        for_server_noise(1_300_000, clip_norm=0.5, largest_cohort=6500, bits=bits).inflated_bound
        for bits in (16, 20, 24, 32)
    ]
    assert bounds == sorted(bounds, reverse=True)
    assert 0.5 < bounds[-1] < 0.5 * (1 + 1e-5)


@pytest.mark.parametrize("bits", [12, 16, 32])
@pytest.mark.parametrize("cohort", [100, 128])
def test_no_cohort_wraps(bits, cohort):
    """Everybody sends the largest entry with the same sign; a power of two is what comes nearest to the edge."""
    encoding = for_server_noise(8, clip_norm=1.0, largest_cohort=cohort, bits=bits, block=8)
    assert cohort * encoding.element_clip < 1 << (bits - 1)
    assert encoding.largest_cohort() >= cohort
    for sign in (1, -1):
        one = np.full(8, sign * encoding.element_clip).astype(np.int64) & ((1 << bits) - 1)
        total = cohort * one & ((1 << bits) - 1)
        np.testing.assert_array_equal(centred(total, bits), cohort * sign * encoding.element_clip)
        signs = public_signs(b"", 8)
        expected = unrotated(np.full(8, float(cohort) * sign * encoding.element_clip) / encoding.scale, signs, 8)
        np.testing.assert_allclose(decoded(total.astype(np.uint32), encoding, signs=signs), expected, rtol=1e-12)


def test_an_update_that_the_rotation_makes_a_spike_is_clipped_and_cannot_wrap():
    """The worst update for a full cohort: all its norm in one entry after the rotation, far above the element clip."""
    encoding = for_server_noise(64, clip_norm=1.0, largest_cohort=100, bits=12, block=64)
    signs, spike = public_signs(b"spike", 64), np.zeros(64)
    spike[5] = 1.0
    update = unrotated(spike, signs, 64)
    assert encoding.scale > encoding.element_clip
    made = encoded(update, encoding, signs=signs, uniforms=np.full(64, 0.5))
    np.testing.assert_array_equal(centred(made, 12), spike * encoding.element_clip)
    total = (100 * made.astype(np.uint64)) & 4095
    assert centred(total, 12)[5] == 100 * encoding.element_clip
    # Clipping entries may be what bounds the norm; a vector that is long before it is no reason to drop it.
    coarse = small(dimension=64, block=64, scale=100.0, element_clip=1)
    made = encoded(update, coarse, signs=signs, uniforms=np.full(64, 0.5))
    np.testing.assert_array_equal(centred(made, 16), spike)


def test_the_sum_of_the_encoded_decodes_to_the_sum():
    """Unbiased: the error of a sum of 400 users is what rounding's variance allows, and no more."""
    rng, users = np.random.default_rng(1), 400
    encoding = for_server_noise(100, clip_norm=1.0, largest_cohort=users, bits=20, block=32)
    signs = public_signs(b"sum", encoding.padded)
    updates = rng.normal(size=(users, 100)) / 12
    made = encoded(updates, encoding, signs=signs, uniforms=rng.random((users, encoding.padded)))
    total = made.sum(axis=0, dtype=np.uint64) & ((1 << 20) - 1)
    found = decoded(total.astype(np.uint32), encoding, signs=signs)
    norms = np.sqrt((updates**2).sum(axis=1, keepdims=True))
    truth = (updates / np.maximum(norms, 1)).sum(axis=0)
    deviation = math.sqrt(users / 4) / encoding.scale
    assert np.abs(found - truth).max() < 5 * deviation
    assert np.abs(found - truth).max() > 0.2 * deviation


def test_noise_is_added_before_the_modulus():
    encoding = small()
    signs, zeros = public_signs(b"", 8), np.zeros(8)
    noise = np.array([0, -1, 1, 40000, -70000, 5, 0, 0])
    made = encoded(zeros, encoding, signs=signs, uniforms=zeros + 0.5, noise=noise)
    np.testing.assert_array_equal(made, noise % 65536)


def test_numpy_and_jax_agree():
    rng = np.random.default_rng(2)
    encoding = for_server_noise(100, clip_norm=0.7, largest_cohort=50, bits=18, block=16)
    signs = public_signs(b"jax", encoding.padded)
    updates, uniforms = rng.normal(size=(30, 100)) / 8, rng.random((30, encoding.padded))
    plain = encoded(updates, encoding, signs=signs, uniforms=uniforms)
    with jax.enable_x64(True):
        arrays = [jnp.asarray(each) for each in (updates, signs, uniforms)]
        run = jax.jit(lambda u, s, r: encoded(u, encoding, signs=s, uniforms=r))
        batched = run(*arrays)
        assert batched.dtype == jnp.uint32
        back = decoded(batched[0], encoding, signs=arrays[1])
    # Where an entry is within rounding of its draw the two may differ by one; that is rare.
    assert (np.asarray(batched) != plain).mean() < 1e-3
    np.testing.assert_allclose(np.asarray(back), decoded(np.asarray(batched)[0], encoding, signs=signs), atol=1e-12)


def test_device_noise_leaves_room_for_it():
    encoding = for_device_noise(1000, clip_norm=1.0, largest_cohort=100, bits=16, noise_deviation=5.0, block=256)
    variance = 100**2 / encoding.padded + 100 / 4 / encoding.scale**2 + 25
    assert 4 * encoding.scale * math.sqrt(variance) == pytest.approx(1 << 15)


def test_what_cannot_be_is_refused():
    for changes, sentence in (
        ({"scale": 0.0}, "scale > 0"),
        ({"clip_norm": math.nan}, "clip_norm > 0"),
        ({"block": 12}, "power of two"),
        ({"element_clip": 1 << 15}, "element_clip <"),
        ({"bits": 33}, "bits ≤ 32"),
        ({"rounding_failure": 1.0}, "rounding_failure between"),
        ({"scale": 2.0**27}, "below 2²⁶"),
    ):
        with pytest.raises(ProtocolError, match=sentence):
            small(**changes)
    with pytest.raises(ProtocolError, match="at least 14 bits for cohorts of 6500, got 12"):
        for_server_noise(10, clip_norm=1.0, largest_cohort=6500, bits=12)
    with pytest.raises(ProtocolError, match="Expected float64"):
        encoded(np.zeros(8, np.float32), small(), signs=np.ones(8), uniforms=np.zeros(8))


@pytest.mark.parametrize(("block", "blocks"), [(1, 3), (8, 1), (64, 3), (128, 2)])
def test_the_rotation_is_walsh_hadamard_on_interleaved_blocks(block, blocks):
    vector = np.random.default_rng(3).normal(size=block * blocks)
    signs = public_signs(b"rotation", len(vector))
    made = rotated(vector, signs, block)
    expected = (hadamard(block) / math.sqrt(block)) @ (vector * signs).reshape(block, blocks)
    np.testing.assert_allclose(made, expected.reshape(-1), atol=1e-12)
    np.testing.assert_allclose(unrotated(made, signs, block), vector, atol=1e-12)


def test_the_rotation_flattens():
    """All the norm in one entry becomes the same everywhere in its block."""
    spike = np.zeros(1024)
    spike[17] = 1.0
    made = rotated(spike, public_signs(b"flat", 1024), 1024)
    np.testing.assert_allclose(np.abs(made), 1 / 32, atol=1e-12)


def test_signs_are_fair_and_repeatable():
    signs = public_signs(b"seed", 100_001)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.sum()) < 5 * math.sqrt(100_001)
    np.testing.assert_array_equal(public_signs(b"seed", 50), signs[:50])
    assert (public_signs(b"other", 50) != signs[:50]).any()
