"""Sums of parts of a round, added up: off by no more than `rounding.py` proves, however the users were cut into parts."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.privacy.gate.rounding import HEADROOM, MOST_USERS, SUM_SHARE
from tacit.privacy.gate.sums import ClipThresholds
from tests.support.gate_sums import SIZE, admit_rows, flat, plain_gates

CLIP = 0.5


def sum_of_parts(rows: np.ndarray, cuts: list[int], order: list[int]) -> np.ndarray:
    """The users are cut at these places; each part's sum travels, and they are merged in this order."""
    places = [0, *sorted(cuts), len(rows)]
    parts = []
    for start, end in pairwise(places):
        (gate,) = plain_gates(ClipThresholds(CLIP))
        numbers = np.arange(len(rows))
        admit_rows(gate, rows, np.ones(len(rows), np.float32), (start <= numbers) & (numbers < end))
        parts.append(gate.partial())
    (total,) = plain_gates(ClipThresholds(CLIP))
    for number in sorted(range(len(parts)), key=lambda part: (order[part], part)):
        total.take(parts[number])
    return flat(total.close())


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    cuts=st.lists(st.integers(0, 24), max_size=6),
    order=st.lists(st.integers(0, 9), min_size=8, max_size=8),
)
def test_a_merged_sum_is_off_by_no_more_than_is_proven(seed: int, cuts: list[int], order: list[int]) -> None:
    """The exact sum is that of fractions. Users' sizes differ by many orders, where rounding loses most."""
    chance = np.random.default_rng(seed)
    rows = (chance.standard_normal((24, SIZE)) * 10.0 ** chance.uniform(-9, -1, (24, 1))).astype(np.float32)
    assert np.linalg.norm(rows.astype(np.float64), axis=1).max() < CLIP  # nobody is clipped
    shrunk = rows.astype(np.float64) * HEADROOM
    exact = [sum(map(Fraction, shrunk[:, column].tolist()), Fraction(0)) for column in range(SIZE)]
    merged = sum_of_parts(rows, cuts, order)
    off = [abs(Fraction(float(here)) - there) for here, there in zip(merged, exact, strict=True)]
    proven = len(rows) * (len(rows) - 1) * 2.0**-53 * CLIP
    assert sum(each**2 for each in off) <= Fraction(proven) ** 2


def test_what_is_proven_fits_into_what_every_contribution_is_shrunk_by() -> None:
    """Each of two neighbours' sums may be off by so much, and a contribution by 2⁻⁴⁰ of itself."""
    rounding, contribution = Fraction(1, 2**53), Fraction(1, 2**40)
    additions = (MOST_USERS - 1) * rounding / (1 - (MOST_USERS - 1) * rounding)
    assert 2 * MOST_USERS * additions + contribution < Fraction(SUM_SHARE)
