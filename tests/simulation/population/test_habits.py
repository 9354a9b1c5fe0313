"""Windows of devices: none is missed, none overlaps, and devices are available at night in their time zone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import RecipeError
from tacit.simulation.population.habits import DAY, HOUR, ZONES, Habits, parse_zones


def drawn(devices: int = 50, zones: str = "us", seed: int = 0) -> Habits:
    return Habits.draw(devices, parse_zones(zones), np.random.default_rng(seed))


def all_windows(habits: Habits, device: int, days: int) -> list[tuple[int, int]]:
    """Every window of a device in UTC, found by asking about each day in turn, one device at a time."""
    who, offset, found = np.array([device]), int(habits.offset_s[device]), []
    for day in range(-2, days):
        for kind in (habits._top_up, habits._night):
            opens, closes, there = kind(who, np.array([day]))
            if there[0]:
                found.append((int(opens[0]) - offset, int(closes[0]) - offset))
    return found


@given(seed=st.integers(0, 2**32), device=st.integers(0, 19), at=st.integers(0, 6 * DAY))
@settings(max_examples=60)
def test_the_next_window_is_the_first_that_has_not_closed(seed, device, at):
    habits = drawn(20, "world", seed)
    windows = all_windows(habits, device, 60)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(windows))
    assert all(opens < closes for opens, closes in windows)
    expected = next(window for window in windows if window[1] > at)
    opens, closes = habits.next_window(np.array([device]), np.array([at]))
    assert (int(opens[0]), int(closes[0])) == expected
    assert habits.available(np.array([device]), np.array([at]))[0] == (expected[0] <= at)


def test_many_devices_at_once_are_each_asked_for_themselves():
    habits = drawn(300)
    at = np.random.default_rng(1).integers(0, 9 * DAY, 300)
    opens, closes = habits.next_window(np.arange(300), at)
    for device in range(300):
        one = habits.next_window(np.array([device]), at[device : device + 1])
        assert (opens[device], closes[device]) == (one[0][0], one[1][0])


def test_devices_are_available_at_night_and_scarce_at_noon_where_they_live():
    habits = drawn(4_000, "5.5:1")
    everybody = np.arange(4_000)

    def share(local_hour: float) -> float:
        return habits.available(everybody, np.full(4_000, int(10 * DAY + (local_hour - 5.5) * HOUR))).mean()

    assert share(2) > 0.4
    assert share(12) < 0.03
    assert share(14) > 0


def test_a_device_keeps_its_hours_and_differs_from_day_to_day():
    habits = drawn(200, "one")
    opens = [np.array([o % DAY for o, c in all_windows(habits, d, 60) if c - o > 90 * 60]) for d in range(200)]
    evenings = [(hours + DAY // 2) % DAY for hours in opens]  # so that midnight does not cut through the night
    within = np.mean([np.std(hours) for hours in evenings])
    between = np.std([np.mean(hours) for hours in evenings])
    assert 0.5 * HOUR < within < 1 * HOUR
    assert 1.2 * HOUR < between < 1.7 * HOUR


def test_people_live_in_the_zones_in_the_stated_shares():
    habits = drawn(100_000, "us")
    for offset, share in ZONES["us"].items():
        assert np.mean(habits.offset_s == offset * HOUR) == pytest.approx(share, abs=0.01)
    assert all(sum(shares.values()) == pytest.approx(1) for shares in ZONES.values())


@pytest.mark.parametrize("text", ["mars", "", "1:1:1", "-13:1", "1:0", "1:nan", "1:inf", "nan:1"])
def test_zones_that_are_none(text):
    with pytest.raises(RecipeError, match=r"^Expected zones .* got .*\.$"):
        parse_zones(text)
