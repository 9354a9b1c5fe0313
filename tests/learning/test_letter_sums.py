"""Secure sums of a discovery by letters: their errors stay within the margin of the threshold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.learning.letter_sums import _too_long, secure_letters
from tacit.privacy.plan import PrivacyPlan
from tacit.secagg.encoding import decoded, encoded
from tacit.secagg.hadamard import public_signs

COORDINATES, USERS, ROUNDS = 2_048, 40, 3


def plan(**changes: object) -> PrivacyPlan:
    settings = {
        "population": 400,
        "cohort": USERS,
        "sampling": "check_in",
        "min_separation": 0,
        "max_participation": 1,
        "clip_norm": 1.0,
        "noise_multiplier": 1.0,
        "delta": 1e-4,
        "secagg": {"bits": 20},
    }
    return PrivacyPlan(**(settings | changes))  # type: ignore[arg-type]


def test_without_secure_aggregation_there_is_no_margin() -> None:
    assert secure_letters(plan(secagg=None), COORDINATES, ROUNDS, 1e-8) == (None, 0.0)


def test_errors_at_coordinates_that_nobody_has_stay_within_the_margin() -> None:
    secure, margin = secure_letters(plan(), COORDINATES, ROUNDS, 1e-8)
    assert secure is not None
    encoding, draw = secure.encoding, np.random.default_rng(1)
    vectors = np.zeros((USERS, COORDINATES))
    for user, vector in enumerate(vectors):  # from one extension to many; all users have them at the same places
        vector[1 : 2 + 3 * user] = 1 / math.sqrt(1 + 3 * user)
    signs = public_signs(bytes(32), encoding.padded)
    words = encoded(vectors, encoding, signs=signs, uniforms=draw.random((USERS, encoding.padded)))
    total = decoded(words.astype(np.int64).sum(axis=0) % (1 << encoding.bits), encoding, signs=signs)
    error = np.abs(total - vectors.sum(axis=0)).max()
    assert 0 < error <= margin < 0.2


def test_a_margin_grows_where_less_may_fail_and_with_fewer_bits() -> None:
    _, margin = secure_letters(plan(), COORDINATES, ROUNDS, 1e-4)
    assert secure_letters(plan(), COORDINATES, ROUNDS, 1e-12)[1] > margin
    assert secure_letters(plan(secagg={"bits": 12}), COORDINATES, ROUNDS, 1e-4)[1] > margin


@pytest.mark.parametrize(("users", "failure"), [(10, 1e-3), (1_000, 1e-8), (100_000, 1e-8)])
def test_how_many_vectors_are_too_long_by_the_binomial(users: int, failure: float) -> None:
    m = _too_long(users, 16, 1e-6, failure)
    bound = (users * 1e-6) ** (m + 1) / math.factorial(m + 1)
    assert 16 * bound <= failure / 4
    assert m == 0 or 16 * (users * 1e-6) ** m / math.factorial(m) > failure / 4
