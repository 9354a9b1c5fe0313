"""Histograms of accuracies behind the gate, and the percentiles read from them."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.data.users import Examples
from tacit.errors import DataError, PrivacyError
from tacit.inspection.judging import Marks
from tacit.inspection.quantiles import ACCURACY, accuracies, accuracy_histogram, percentile
from tacit.privacy.mechanisms import Gaussian
from tests.helpers import ListUsers


def judge(examples: Examples) -> Marks:
    """Words below 50 are right."""
    lengths = np.diff(examples.example_offsets)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    return Marks(np.bincount(owner[examples.items < 50], minlength=len(lengths)), lengths)


def people(shares: list[int]) -> ListUsers:
    """Users of whose ten words so many are right."""
    return ListUsers([[[4] * right + [60] * (10 - right)] for right in shares])


def totals(users: ListUsers, bins: int = 10) -> np.ndarray:
    return np.asarray(accuracy_histogram(users, judge, bins=bins).blocks[ACCURACY].total)


def test_everybody_stands_in_one_bin() -> None:
    users = people([0, 5, 5, 9, 10])
    users.users.append([])
    assert totals(users).tolist() == [1, 0, 0, 0, 0, 2, 0, 0, 0, 2]
    np.testing.assert_allclose(accuracies(users, judge), [0, 0.5, 0.5, 0.9, 1.0, np.nan])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 10), min_size=1, max_size=8), st.data())
def test_one_user_moves_the_sum_by_at_most_the_bound(shares: list[int], data: st.DataObject) -> None:
    who = data.draw(st.integers(0, len(shares) - 1))
    bound = accuracy_histogram(people(shares), judge).blocks[ACCURACY].bound
    without = shares[:who] + shares[who + 1 :]
    moved = totals(people(shares)) - (totals(people(without)) if without else 0)
    assert np.linalg.norm(moved) <= bound


def test_percentiles_of_a_release() -> None:
    release = {ACCURACY: np.array([10.0, 0.0, 0.0, 30.0, 60.0])}
    assert [percentile(release, share) for share in (0.05, 0.25, 0.75)] == [0.2, 0.8, 1.0]
    assert percentile({ACCURACY: np.array([-3.0, 5.0])}, 0.1) == 1.0


def test_noise_hardly_moves_the_percentile_of_many() -> None:
    shares = np.random.default_rng(0).binomial(10, 0.9, 4000).tolist()
    bounded = accuracy_histogram(people(shares), judge, bins=20)
    release, _ = Gaussian({ACCURACY: 4.0}).release(bounded, (), key=jax.random.key(0))
    exact = percentile({ACCURACY: np.asarray(bounded.blocks[ACCURACY].total)}, 0.25)
    assert percentile(release, 0.25) == pytest.approx(exact, abs=0.051)
    assert not np.array_equal(release[ACCURACY], bounded.blocks[ACCURACY].total)


def test_wrong_use_is_one_sentence() -> None:
    with pytest.raises(DataError, match="between 0 and 1, got 25"):
        percentile({ACCURACY: np.ones(3)}, 25)
    with pytest.raises(DataError, match="at least 1 bin in a histogram, got 0"):
        accuracy_histogram(people([1]), judge, bins=0)
    with pytest.raises(PrivacyError, match="none that outweigh the noise"):
        percentile({ACCURACY: -np.ones(3)}, 0.5)
