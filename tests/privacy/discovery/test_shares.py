"""One user's shares: bounded in every way that the proof needs, and dependent on that user alone."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import PrivacyError
from tacit.privacy.discovery.shares import UNIT, SharesRule

COUNTS = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=4), st.integers(0, 10**9), max_size=60)


@given(COUNTS, st.integers(1, 40), st.floats(0.01, 1))
def test_squares_add_up_to_at_most_one_exactly(counts: dict[str, int], most: int, largest: float) -> None:
    shares = SharesRule(most, largest).shares(counts)
    assert sum(units * units for units in shares.values()) <= round(1 / UNIT) ** 2
    assert len(shares) <= most
    assert all(0 < units * UNIT <= largest for units in shares.values())


def test_a_user_with_few_words_is_not_counted_for_more() -> None:
    assert SharesRule(100, 0.25).shares({"hello": 7}) == {"hello": round(0.25 / UNIT)}


def test_shares_use_up_the_bound() -> None:
    shares = SharesRule(1000, 1.0).shares(Counter({str(number): 1 + number for number in range(300)}))
    norm = math.sqrt(sum(units * units for units in shares.values())) * UNIT
    assert 0.999999 < norm <= 1


def test_the_most_frequent_words_count_and_ties_go_by_the_alphabet() -> None:
    rule = SharesRule(words_per_user=2, largest_share=1.0)
    assert set(rule.shares({"d": 1, "c": 5, "b": 1, "a": 1})) == {"c", "a"}
    assert rule.shares({"a": 1, "b": 1, "d": 1}) == rule.shares({"d": 1, "b": 1, "a": 1})


def test_a_word_that_is_used_four_times_as_often_has_twice_the_share() -> None:
    shares = SharesRule(10, 1.0).shares({"often": 4, "once": 1})
    assert shares["often"] == pytest.approx(2 * shares["once"], rel=1e-6)


def test_nobody_and_nothing() -> None:
    assert SharesRule().shares({}) == {}
    assert SharesRule().shares({"never": 0}) == {}


@pytest.mark.parametrize(
    ("words", "largest", "named"), [(0, 0.5, "words_per_user"), (5, 0.0, "largest_share"), (5, 1.5, "1.5")]
)
def test_settings_without_meaning_are_refused(words: int, largest: float, named: str) -> None:
    with pytest.raises(PrivacyError, match=named):
        SharesRule(words, largest)
