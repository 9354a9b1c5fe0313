"""The release: noise of the stated scale on every total, and words of one user alone only as often as delta says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, kstest

from tacit.privacy.discovery import release as release_module
from tacit.privacy.discovery.release import ShareSum, WordTotals, release, summed
from tacit.privacy.discovery.shares import UNIT, SharesRule
from tacit.privacy.noise.randomness import NoiseStream, Randomness

RULE = SharesRule(words_per_user=4, largest_share=1.0)


def stream(seed: int) -> NoiseStream:
    return Randomness.from_seed(seed).noise_key(round=0, attempt=0).stream(0)


def released(
    users: list[dict[str, int]], candidates: tuple[str, ...] = (), *, seed: int = 0, **given: float
) -> WordTotals:
    settings = {"noise": 1.0, "threshold_delta": 1e-4} | given
    return release(summed(users, RULE), candidates, stream=stream(seed), **settings)


def test_words_that_many_people_use_are_found_and_those_of_one_are_not() -> None:
    users = [{"everybody": 1, "common": 1, f"only-{number}": 1} for number in range(60)]
    found = released(users).found
    assert set(found) == {"everybody", "common"}
    assert found["common"] == pytest.approx(60 / np.sqrt(3), abs=5)


def test_noise_has_the_stated_scale() -> None:
    """Totals of candidates that nobody has are pure noise; a scale that is 5% off is rejected."""
    words = tuple(f"w{number}" for number in range(40_000))
    values = np.array(list(released([], words, noise=3.0).candidates.values()))
    assert kstest(values / 3.0, "norm").pvalue > 1e-3
    assert kstest(values / 3.0 * 1.05, "norm").pvalue < 1e-6


def test_a_total_is_the_sum_of_shares_and_the_same_noise() -> None:
    """With the same key, a user's share moves exactly their words, by exactly their share."""
    users = [{"a": 4, "b": 1}, {"b": 2, "c": 2}]
    with_both, without = (released(some, ("a", "b", "c")).candidates for some in (users, users[:1]))
    share = RULE.shares(users[1])["b"] * UNIT
    assert with_both["b"] - without["b"] == pytest.approx(share, abs=3e-6)
    assert with_both["a"] == without["a"]


def test_planted_words_of_one_person_pass_as_often_as_delta_says_and_no_more() -> None:
    """Attack: a user whose words nobody else has, in 3,000 discoveries. The bound is tight here: all shares are the largest."""
    rule, trials, delta = SharesRule(4, 0.5), 3_000, 0.05
    total = summed([{"pin-1": 1, "pin-2": 1, "pin-3": 1, "pin-4": 1}], rule)
    shown = sum(
        bool(release(total, (), noise=1.0, threshold_delta=delta, stream=stream(seed)).found) for seed in range(trials)
    )
    assert shown <= binom.ppf(1 - 1e-4, trials, delta)
    assert shown >= binom.ppf(1e-4, trials, 0.8 * delta)  # the attack works: words do pass, about as often as allowed


def test_the_threshold_counts_for_words_outside_the_list_alone() -> None:
    users = [{"listed": 1, "unlisted": 1}]
    found = released(users, ("listed", "nobody"))
    assert list(found.candidates) == ["listed", "nobody"]
    assert found.found == {}


@pytest.mark.parametrize(("threshold_in_steps", "shown"), [(99.3, True), (99.7, False), (100.0, False)])
def test_a_total_is_shown_only_if_its_unrounded_value_reached_the_threshold(
    monkeypatch: pytest.MonkeyPatch, threshold_in_steps: float, shown: bool
) -> None:
    """A rounded total of 100 steps may come from any value from 99.5 on."""
    step = release_module.grid_step(1.0)
    monkeypatch.setattr(release_module, "rounded_gaussian", lambda *_: np.array([100.0]))
    monkeypatch.setattr(release_module, "threshold_for", lambda *_: threshold_in_steps * step)
    assert bool(released([{"word": 1}]).found) is shown


def test_the_order_of_users_changes_nothing() -> None:
    users = [{"a": 1, "b": 2}, {"b": 1, "z": 3}, {"c": 1}] * 30
    assert released(users, ("a",)) == released(users[::-1], ("a",))


def test_private_sums_do_not_show_in_a_traceback() -> None:
    total = summed([{"secret": 1}], RULE)
    assert "secret" not in repr(total)
    assert "1" not in repr(total).replace(repr(RULE), "")


def test_nobody_and_no_candidates() -> None:
    assert released([]) == WordTotals({}, {}, 1.0)


def test_a_candidate_that_is_listed_twice_counts_once() -> None:
    assert list(released([], ("a", "a", "b")).candidates) == ["a", "b"]


def test_a_total_beyond_what_float64_holds_counts_as_the_largest() -> None:
    """One share more does not move it, so sums stay exact and one user's share bounded."""
    huge = ShareSum(RULE, {"a": 2**53 - 1})
    values = []
    for more in (0, 1, 2**20):
        huge.totals["a"] = 2**53 - 1 + more
        values.append(release(huge, ("a",), noise=1.0, threshold_delta=1e-4, stream=stream(0)).candidates["a"])
    assert values[1] == values[2]
    assert values[0] == pytest.approx(values[1], abs=1e-5)
