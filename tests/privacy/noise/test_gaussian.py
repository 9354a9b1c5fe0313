"""The noise is Gaussian with this scale, rounded exactly, and no two draws share a place in the key stream."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.errors import PrivacyError
from tacit.privacy.gate.sums import Block, BoundedSum
from tacit.privacy.noise import exact
from tacit.privacy.noise import gaussian as noise
from tacit.privacy.noise.gaussian import LARGEST_SIZE, block_count, grid_step, normal_pairs, place_of, rounded_gaussian
from tacit.privacy.noise.mechanisms import Gaussian, NoNoise
from tacit.privacy.noise.randomness import Randomness

KEY = Randomness.from_seed(7).noise_key(round=0, attempt=0)
STREAM = KEY.stream(0)
SCALE = 1.3 * 2**20


def rounded(centre: np.ndarray, stream=STREAM, scale: float = SCALE) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(rounded_gaussian(jnp.asarray(centre, jnp.float64), scale, stream))


def draws(count: int, stream=STREAM) -> np.ndarray:
    return rounded(np.zeros(count), stream) / SCALE


def words(u: np.ndarray, v: np.ndarray) -> list[jax.Array]:
    return [
        jnp.asarray(part, jnp.uint32)
        for each in (u, v)
        for part in (each >> np.uint64(32), each & np.uint64(0xFFFFFFFF))
    ]


def true_pair(u: int, v: int, bits: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    radius, turn = mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(u) / 2**bits)), 2 * mpmath.pi * mpmath.mpf(v) / 2**bits
    return radius * mpmath.cos(turn), radius * mpmath.sin(turn)


def test_draws_are_gaussian_and_five_percent_off_would_show():
    sample = draws(200_001)
    assert stats.kstest(sample, "norm").pvalue > 1e-3
    assert stats.kstest(sample * 1.05, "norm").pvalue < 1e-6
    # The members of a pair, the pairs of a cipher block, and neighbours.
    rows = sample[: 8 * (len(sample) // 8)].reshape(8, -1)
    assert np.abs(np.corrcoef(rows) - np.eye(8)).max() < 0.03
    assert abs(np.corrcoef(sample[1:], sample[:-1])[0, 1]) < 0.02


def test_moments_of_many_draws():
    sample = np.concatenate([draws(300_000, KEY.stream(block)) for block in range(4)])
    for power, expected, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((sample**power).mean() - expected) < 4.5 * np.sqrt(spread / len(sample))


def test_the_tolerance_is_four_times_what_float64_is_off():
    """Against 60 digits: random words, words near both ends of U, and angles at the borders of quadrants and octants."""
    generator = np.random.default_rng(2)
    u = generator.integers(0, 2**64, 3000, dtype=np.uint64)
    v = generator.integers(0, 2**64, 3000, dtype=np.uint64)
    u[:600] = (u[:600] >> generator.integers(1, 60, 600).astype(np.uint64)) | np.uint64(8)
    u[600:1200] |= ~(np.uint64(2**64 - 1) >> generator.integers(1, 50, 600).astype(np.uint64))
    u[1200:1300] = np.uint64(round(2**0.5 * 2**62)) + generator.integers(0, 4096, 100).astype(np.uint64)
    v[1500:2300] = (generator.integers(0, 16, 800).astype(np.uint64) << np.uint64(60)) + generator.integers(
        0, 2**20, 800
    ).astype(np.uint64)
    with jax.enable_x64(True):
        g, tolerance = (np.asarray(each) for each in jax.jit(normal_pairs)(*words(u, v)))
    worst = 0.0
    with mpmath.workprec(200):
        for place in range(len(u)):
            for end in (1, 255):  # further bits near both ends of the cell
                truth = true_pair(int(u[place]) << 8 | end, int(v[place]) << 8 | end, 72)
                for member in (0, 1):
                    off = abs(mpmath.mpf(float(g[member, place])) - truth[member])
                    worst = max(worst, float(off / tolerance[place]))
    assert 0.001 < worst < 0.25


def test_a_word_of_zeros_and_one_of_ones_are_left_to_further_bits():
    ends = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 2**64 - 1], np.uint64)
    with jax.enable_x64(True):
        tolerance = normal_pairs(*words(ends, ends))[1]
    assert (np.asarray(tolerance) * SCALE > 0.5).all()


def test_nearly_all_draws_are_decided_at_once():
    with jax.enable_x64(True):
        tolerance = np.asarray(noise.standard_normal(200_000, STREAM.key, STREAM.nonce)[1])
    assert 2 * SCALE * tolerance.mean() < 2.0**-23


@settings(max_examples=30)
@given(
    st.lists(st.floats(-(2.0**40), 2.0**40), min_size=24, max_size=24),
    st.floats(2.0**19, 2.0**21),
    st.integers(0, 50),
)
def test_every_coordinate_is_the_exact_rounding(centre: list[float], scale: float, block: int):
    """Whatever the centre: what float64 decides is what hundreds of bits decide."""
    stream = KEY.stream(block)
    found = rounded(np.array(centre), stream, scale)
    for place, (c, n) in enumerate(zip(centre, found, strict=True)):
        assert n == exact.rounded(c, scale, *place_of(place, 24), stream)


def test_coordinates_of_every_tile_are_the_exact_rounding():
    size = 20_001
    found = rounded(np.arange(size) / 7)
    for place in [*range(0, size, 331), 8191, 8192, 16383, 16384, size - 1]:
        assert found[place] == exact.rounded(place / 7, SCALE, *place_of(place, size), STREAM)


def test_undecided_coordinates_are_decided_in_their_place(monkeypatch: pytest.MonkeyPatch):
    """With centres that put c + s·G next to a half-integer, float64 decides nothing, and the result is still exact."""
    size = 40
    with jax.enable_x64(True):
        g = np.asarray(noise.standard_normal(size, STREAM.key, STREAM.nonce)[0])
    centre = 0.5 - (SCALE * g - np.round(SCALE * g)) + 1000.0 * np.arange(size)
    asked = []
    decide = exact.rounded
    monkeypatch.setattr(exact, "rounded", lambda *arguments: asked.append(arguments) or decide(*arguments))
    with jax.enable_x64(True):
        parts = {"a": jnp.asarray(centre[:3]), "b": jnp.asarray(centre[3:]).reshape(37, 1)}
        found = rounded_gaussian(parts, SCALE, STREAM)
    flat = np.concatenate([np.asarray(found["a"]), np.asarray(found["b"]).ravel()])
    assert len(asked) == size
    for place in range(size):
        block, pair, member = place_of(place, size)
        u, v = STREAM.first_bits(block, pair)
        further = STREAM.further_bits(block, pair, 0)
        u, v = (w << 128 | int.from_bytes(f, "little") for w, f in ((u, further[:16]), (v, further[16:])))
        with mpmath.workprec(400):
            assert flat[place] == int(mpmath.nint(mpmath.mpf(centre[place]) + SCALE * true_pair(u, v, 192)[member]))


def test_an_infinite_sum_stays_visible():
    assert np.isnan(rounded(np.array([np.inf, 0.0, np.nan]))).tolist() == [True, False, True]


def test_too_many_coordinates_for_one_counter_are_refused():
    with pytest.raises(PrivacyError, match=f"at most {LARGEST_SIZE} coordinates in a block, got {LARGEST_SIZE + 1}"):
        rounded_gaussian(jax.ShapeDtypeStruct((LARGEST_SIZE + 1,), jnp.float64), SCALE, STREAM)
    assert block_count(LARGEST_SIZE) == 2**32


@pytest.mark.parametrize("size", [1, 7, 8, 9, 1000, 8192, 8193, 20_000])
def test_coordinates_have_places_of_their_own_within_the_counter(size: int):
    places = [place_of(coordinate, size) for coordinate in range(size)]
    assert len(set(places)) == size
    assert all(0 <= block < block_count(size) and pair < 4 and member < 2 for block, pair, member in places)


def test_no_two_draws_of_a_run_share_a_cipher_block():
    """Over rounds, attempts, blocks of the sum and coordinates: (key, nonce, counter) never comes twice."""
    randomness, seen = Randomness(bytes(range(32))), set()
    for round, attempt, block in itertools.product(range(12), range(3), range(4)):
        stream = randomness.noise_key(round=round, attempt=attempt).stream(block)
        for counter in {place_of(coordinate, 50)[0] for coordinate in range(50)}:
            place = (stream.key.tobytes(), stream.nonce.tobytes(), counter)
            assert place not in seen
            seen.add(place)
    assert len(seen) == 12 * 3 * 4 * 7
    firsts = {
        rounded(np.zeros(1), randomness.noise_key(round=r, attempt=a).stream(b)).item()
        for r, a, b in itertools.product(range(4), range(3), range(3))
    }
    assert len(firsts) == 36


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


@pytest.mark.parametrize("centre", [0.0, -0.0, -1e-9, 1e-9])
def test_a_released_zero_has_one_sign(centre: float) -> None:
    """A negative zero would tell that the sum was below zero, however little."""
    with jax.enable_x64(True):
        found = np.asarray(rounded_gaussian(np.full(20_000, centre), 0.4, KEY.stream(0)))
    assert (found == 0).sum() > 1000
    assert not np.signbit(found[found == 0]).any()
