"""Secure sums in the batched engine: exact integers, the stated bound, noise of the stated distribution, the protocol."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tacit.data.users import names_of_numbers
from tacit.errors import PrivacyError, ProtocolError
from tacit.learning.secure_sums import SecureSums
from tacit.privacy.gate.sums import HEADROOM, ClipThresholds, Contributions, Gate
from tacit.privacy.noise.mechanisms import Discrete
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.samplers import FixedSize
from tacit.privacy.plan import PrivacyPlan
from tacit.secagg.encoding import decoded, encoded
from tacit.simulation import secure_gate
from tacit.simulation.cohorts import CohortStream
from tacit.simulation.secure_gate import SecureGate, open_round, through_the_protocol

USERS, SIZE = 6, 37
TEMPLATE = {"a": jnp.zeros((5, 5), jnp.float32), "b": jnp.zeros(12, jnp.float32)}
CLIP = ClipThresholds(0.5)
NO_KEY = Randomness.from_seed(0).noise_key(round=0, attempt=0)  # which Discrete does not use
CHECK_IN = {"sampling": "check_in", "min_separation": 1, "max_participation": 4}


def plan(**changes: Any) -> PrivacyPlan:
    fields: dict[str, Any] = {
        "mechanism": "none",
        "population": 100,
        "cohort": USERS,
        "clip_norm": 0.5,
        "delta": 1e-4,
        "secagg": {"bits": 20},
        **CHECK_IN,
    }
    return PrivacyPlan(**(fields | changes))


def from_devices(z: float = 3.0, bits: int = 20, **secagg: Any) -> PrivacyPlan:
    section = {"bits": bits, "scheme": "device_noise", **secagg}
    return plan(mechanism="discrete", noise_multiplier=z, secagg=section)


def sums_of(plan: PrivacyPlan, dimension: int = SIZE) -> SecureSums:
    found = SecureSums.of_plan(plan, dimension)
    assert found is not None
    return found


@dataclasses.dataclass
class SecureCohort:
    users: np.ndarray
    entropy: Callable[[str], bytes]


def entropy_of(seed: int) -> Callable[[str], bytes]:
    return lambda purpose: Randomness.from_seed(seed).derive(purpose, round=0, attempt=0, size=32)


def updates_of(users: int = USERS, scale: float = 1.0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    return {
        name: (scale * generator.standard_normal((users, *leaf.shape))).astype(np.float32)
        for name, leaf in TEMPLATE.items()
    }


def gate_of(
    sums: SecureSums,
    updates: Any,
    *,
    seed: int = 1,
    norms: ClipThresholds = CLIP,
    weights: Any = None,
    weighted: bool = False,
    present: Any = None,
    template: Any = TEMPLATE,
) -> SecureGate:
    users = len(next(iter(updates.values())))
    round = open_round(sums, SecureCohort(np.arange(min(users, sums.cohort)), entropy_of(seed)))
    gate = SecureGate(template, norms, round, style="flat", weighted=weighted)
    weights = np.ones(users, np.float32) if weights is None else weights
    present = np.ones(users, bool) if present is None else present
    gate.admit(Contributions(updates, weights, present))
    return gate


def flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(tree)])


def plain_sum(updates: Any, norms: ClipThresholds = CLIP, weights: Any = None) -> Any:
    gate = Gate(TEMPLATE, norms, style="flat", weighted=True)
    users = len(next(iter(updates.values())))
    weights = np.ones(users, np.float32) if weights is None else weights
    gate.admit(Contributions(updates, weights, np.ones(users, bool)))
    return gate.close()


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_the_sum_is_that_of_each_users_integers_encoded_one_by_one(weight):
    """The reference: NumPy, one user at a time, clipped by the formula, with the uniforms of each user's place."""
    sums, updates = sums_of(plan()), updates_of()
    gate = gate_of(sums, updates, weights=np.full(USERS, weight, np.float32))
    words = np.frombuffer(entropy_of(1)("rounding")[:8], "<u4")
    key = jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")
    total = np.zeros(sums.encoding.padded, np.int64)
    for user in range(USERS):
        vector = np.concatenate([updates["a"][user].ravel(), updates["b"][user]]).astype(np.float64)
        clipped = vector * min(1.0, 0.5 / np.linalg.norm(vector)) * weight * HEADROOM / 0.5
        with jax.enable_x64(True):
            uniforms = jax.random.uniform(jax.random.fold_in(key, user), (sums.encoding.padded + 1,), jnp.float64)
        total += encoded(clipped, sums.encoding, signs=gate.round.signs, uniforms=np.asarray(uniforms)[:-1])
    np.testing.assert_array_equal(gate.integers(), total & ((1 << 20) - 1))
    expected = decoded(np.asarray(gate.integers()), sums.encoding, signs=gate.round.signs) * 0.5
    np.testing.assert_allclose(flat(gate.close().blocks["update"].total), expected, atol=1e-12)


@pytest.mark.parametrize(("bits", "error"), [(12, 0.05), (20, 2e-4), (28, 1e-6)])
def test_more_bits_come_closer_to_the_plain_sum(bits, error):
    updates = updates_of(scale=0.05)
    found = gate_of(sums_of(plan(secagg={"bits": bits})), updates).close().blocks["update"]
    difference = np.linalg.norm(flat(found.total) - flat(plain_sum(updates).blocks["update"].total))
    assert difference < error * 0.5 * math.sqrt(USERS)
    assert difference > error * 1e-3


def test_rounding_has_no_bias():
    updates, sums = updates_of(scale=0.05), sums_of(plan(secagg={"bits": 8}))
    found = np.stack([flat(gate_of(sums, updates, seed=seed).close().blocks["update"].total) for seed in range(80)])
    target = flat(plain_sum(updates).blocks["update"].total)
    errors = (found.mean(axis=0) - target) / (found.std(axis=0, ddof=1) / math.sqrt(80))
    assert np.abs(errors).max() < 4.5
    assert np.linalg.norm(found[0] - target) > 4 * np.linalg.norm(found.mean(axis=0) - target)


@pytest.mark.parametrize("bits", [4, 6, 10, 20])
@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_no_user_moves_the_decoded_sum_by_more_than_the_stated_bound(bits, scale):
    sums, updates = sums_of(plan(secagg={"bits": bits})), updates_of(scale=scale)
    updates["a"][2], updates["b"][2] = 0.0, np.eye(12)[0] * 1e9  # all in one entry
    whole = gate_of(sums, updates).close().blocks["update"]
    assert whole.bound == sums.bound(0.5) >= 0.5 * (1 - 1e-3)
    for user in range(USERS):
        present = np.arange(USERS) != user
        rest = gate_of(sums, updates, present=present).close().blocks["update"]
        moved = np.linalg.norm(flat(whole.total) - flat(rest.total))
        assert moved <= whole.bound
        assert moved > 0 or bits == 4


def test_the_largest_cohort_does_not_wrap_and_a_larger_one_is_refused():
    sums = sums_of(plan(secagg={"bits": 5}))
    assert sums.cohort * sums.encoding.element_clip < 1 << 4
    # Everybody sends the same vector, which is one rotated entry: all the norm is in one integer.
    for sign in (1, -1):
        one = decoded(
            np.eye(sums.encoding.padded)[0].astype(np.int64),
            sums.encoding,
            signs=gate_of(sums, updates_of()).round.signs,
        )
        same = np.tile(sign * one / np.linalg.norm(one), (USERS, 1)).astype(np.float32)
        gate = gate_of(sums, {"a": same[:, :25].reshape(-1, 5, 5), "b": same[:, 25:]})
        centred = ((np.asarray(gate.integers(), np.int64) + 16) & 31) - 16
        assert np.sign(centred[np.abs(centred).argmax()]) == sign
    with pytest.raises(PrivacyError, match="at most 6 users in a round, for which sums of 5 bits are planned, got 7"):
        open_round(sums, SecureCohort(np.arange(7), entropy_of(1)))


def test_numbers_beside_the_update_cross_as_integers_within_their_bounds():
    weights = np.array([1, 0.5, 0.25, 0.3, 1, 0], np.float32)
    norms, updates = ClipThresholds(0.5, 6.0), updates_of()
    sums = sums_of(plan(secagg={"bits": 24}))
    found = gate_of(sums, updates, norms=norms, weights=weights, weighted=True).close()
    plain = plain_sum(updates, norms, weights)
    assert set(found.blocks) == {"update", "weight", "within"}
    assert float(found.blocks["within"].total) == pytest.approx(float(plain.blocks["within"].total), abs=1e-9)
    assert float(found.blocks["weight"].total) == pytest.approx(float(plain.blocks["weight"].total), abs=1e-5)
    assert (found.blocks["weight"].bound, found.blocks["within"].bound) == (1.0, 0.5)
    for user in range(USERS):
        rest = gate_of(
            sums, updates, norms=norms, weights=weights, weighted=True, present=np.arange(USERS) != user
        ).close()
        for name in ("weight", "within"):
            block = found.blocks[name]
            assert abs(float(block.total) - float(rest.blocks[name].total)) <= block.bound


def test_gates_of_several_devices_add_up_to_one():
    sums, updates = sums_of(from_devices()), updates_of()
    whole = gate_of(sums, updates)
    round = open_round(sums, SecureCohort(np.arange(USERS), entropy_of(1)))
    gates = [SecureGate(TEMPLATE, ClipThresholds(0.5), round, style="flat", weighted=False) for _ in range(2)]
    for gate, part in zip(gates, (slice(0, 4), slice(4, 6)), strict=True):
        some = {name: leaf[part] for name, leaf in updates.items()}
        gate.admit(Contributions(some, np.ones(len(some["b"]), np.float32), np.ones(len(some["b"]), bool)))
    gates[0].merge(gates[1])
    np.testing.assert_array_equal(gates[0].integers(), whole.integers())
    assert gates[0].close().blocks["update"].device_noise == whole.close().blocks["update"].device_noise


@pytest.mark.parametrize("noise", [False, True])
def test_the_whole_protocol_gives_the_plain_integer_sum_exactly(noise, monkeypatch):
    made = from_devices if noise else lambda **section: plan(secagg={"bits": 20, **section})
    rehearsed: list[int] = []

    def watched(vectors: Any, bits: int, *, minimum: int) -> Any:
        rehearsed.append(len(vectors))
        assert minimum == (USERS if noise else 2)
        return through_the_protocol(vectors, bits, minimum=minimum)

    monkeypatch.setattr(secure_gate, "through_the_protocol", watched)
    updates = updates_of()
    plain, masked = (gate_of(sums_of(made(protocol=each)), updates).integers() for each in (False, True))
    np.testing.assert_array_equal(masked, plain)
    assert rehearsed == [USERS]


def test_the_noise_of_the_devices_has_the_stated_law_and_five_percent_more_is_another():
    template = {"a": jnp.zeros(1 << 14, jnp.float32)}
    zeros = {"a": np.zeros((USERS, 1 << 14), np.float32)}
    sums = sums_of(from_devices(z=3.0), 1 << 14)
    gate = gate_of(sums, zeros, template=template)
    centred = ((np.asarray(gate.integers(), np.int64) + (1 << 19)) & ((1 << 20) - 1)) - (1 << 19)
    deviation = math.sqrt(USERS * sums.local_variance)
    spread = (centred.astype(float) ** 2).sum() / deviation**2
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], len(centred))
    assert low < spread < high
    assert not low < spread * 1.05**2 < high
    block = gate.close().blocks["update"]
    assert block.device_noise == pytest.approx(0.5 * deviation / sums.encoding.scale)
    assert block.device_noise >= 3.0 * block.bound
    assert block.device_noise < 3.0 * block.bound * 1.01
    # Released as it is: the rotation keeps its spread.
    release, _ = Discrete({"update": 3.0}).release(gate.close(), (), key=NO_KEY)
    assert np.asarray(release["update"]["a"]).std() == pytest.approx(block.device_noise, rel=0.03)


def test_without_noise_it_is_the_quantised_sum():
    sums, updates = sums_of(from_devices()), updates_of()
    silent = gate_of(dataclasses.replace(sums, local_variance=0), updates)
    noisy = gate_of(sums, updates)
    expected = np.zeros(sums.encoding.padded, np.int64)
    for place in range(USERS):
        expected += noisy.round.share(place, sums.encoding.padded)
    difference = np.asarray(noisy.integers(), np.int64) - np.asarray(silent.integers(), np.int64) - expected
    assert (difference % (1 << 20) == 0).all()
    total = flat(silent.close().blocks["update"].total)
    plain = flat(plain_sum(updates).blocks["update"].total)
    assert np.abs(total - plain).max() < 0.05 * np.abs(plain).max()
    with pytest.raises(PrivacyError, match="got 0"):
        Discrete({"update": 3.0}).release(silent.close(), (), key=NO_KEY)


def test_shares_differ_between_devices_and_rounds_and_repeat_for_the_same_place():
    sums = sums_of(from_devices())
    one, again, other = (open_round(sums, SecureCohort(np.arange(2), entropy_of(seed))) for seed in (1, 1, 2))
    draws = [tuple(each.share(place, 50)) for each in (one, other) for place in (0, 1)]
    assert len(set(draws)) == 4
    assert tuple(again.share(1, 50)) == draws[1]
    assert hashlib.sha256(one.signs.tobytes()).digest() != hashlib.sha256(other.signs.tobytes()).digest()


def test_a_cohort_has_bytes_of_its_own_for_every_purpose_round_and_attempt():
    found = []
    for attempts in ({}, {0: 1}):
        stream = CohortStream(
            FixedSize(3, 9),
            Randomness(b"r" * 32),
            names_of_numbers(np.arange(9)),
            lambda users: iter(()),
            start=0,
            stop=2,
            attempts=attempts,
        )
        for cohort in stream:
            found += [(cohort.round, cohort.attempt, cohort.entropy(f"share {place}")) for place in range(3)]
            assert cohort.entropy("share 1") == found[-2][2]
        stream.close()
    # Round 1 is attempt 0 in both, and so draws the same bytes; everything else differs.
    assert len(found) == 12
    assert len({drawn for *_, drawn in found}) == len(set(found)) == 9
    assert all(len(drawn) == 32 for *_, drawn in found)


def test_corrupt_devices_and_missing_reports_are_made_up_for_by_the_others():
    plenty, few = (sums_of(from_devices(fewest_reports=reports)) for reports in (6, 3))
    shares = [each.local_variance / each.encoding.scale**2 for each in (plenty, few)]
    assert shares[1] == pytest.approx(2 * shares[0], rel=1e-3)
    corrupt = sums_of(from_devices(corrupt=0.5))
    assert corrupt.section.noisy(USERS, USERS) == 3
    block = gate_of(corrupt, updates_of()).close().blocks["update"]
    assert block.device_noise >= 3.0 * block.bound
    # Two reports where three were promised: the round is not released.
    lone = gate_of(few, updates_of(), present=np.arange(USERS) < 2).close()
    with pytest.raises(PrivacyError, match="too few devices reported"):
        Discrete({"update": 3.0}).release(lone, (), key=NO_KEY)


def test_corrupt_devices_are_not_among_the_lost():
    """Half of six are corrupt and one honest one is lost: two shares of noise are left, and not 5 - ⌈5/2⌉."""
    sums = sums_of(from_devices(corrupt=0.5, fewest_reports=5))
    shares = [each.local_variance / each.encoding.scale**2 for each in (sums, sums_of(from_devices(fewest_reports=2)))]
    assert shares[0] == pytest.approx(shares[1], rel=1e-3)
    block = gate_of(sums, updates_of(), present=np.arange(USERS) < 5).close().blocks["update"]
    assert block.device_noise == pytest.approx(3.0 * block.bound, rel=1e-3)


def test_the_devices_themselves_refuse_a_sum_with_less_noise_than_promised():
    """A server that is not trusted to add noise is not trusted to count it either."""
    sums, present = sums_of(from_devices(fewest_reports=4, protocol=True)), np.arange(USERS)
    assert sums.minimum == 4
    gate_of(sums, updates_of(), present=present < 4).integers()
    with pytest.raises(ProtocolError, match="at least 4 devices, got 3"):
        gate_of(sums, updates_of(), present=present < 3).integers()


def test_noise_that_does_not_fit_the_bits_is_refused():
    with pytest.raises(PrivacyError, match=r"secagg\.bits wide enough"):
        sums_of(from_devices(z=30.0, bits=8), 1 << 14)


def test_the_widest_numbers_keep_a_share_within_what_the_sampler_takes():
    assert 1 <= sums_of(from_devices(bits=32)).local_variance <= 1 << 30


def test_upload_is_the_packed_integers():
    sums = sums_of(plan(secagg={"bits": 12}), 100)
    assert sums.encoding.padded == 128
    assert sums.upload_bytes() == 128 * 12 // 8
    assert sums.upload_bytes(1) == (129 * 12 + 7) // 8
