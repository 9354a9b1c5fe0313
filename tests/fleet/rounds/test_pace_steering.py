"""Check-ins of a large population are spread over time; those of a small one come together."""

from __future__ import annotations

import random

import pytest

from tacit.fleet.rounds.pace_steering import FIRST_ROUND_S, SHORTEST_WAIT_S, CheckInPace, check_in_pace, idle_wait_s
from tacit.privacy.participation.pace import LONGEST_WAIT_S, WANTED_CALLS
from tests.support.fleet.people import NOW


def recent(*opened_at, places=10):
    return [(at, places) for at in opened_at]


def test_a_large_population_is_spread_so_that_a_round_hears_enough_calls():
    found = check_in_pace(recent(80.0, 60.0, 40.0), known=10_000, goal=8)
    assert found.round_s == 20
    assert not found.gathers
    assert 10_000 * found.round_s / found.wait_s == pytest.approx(WANTED_CALLS * 10)
    draw = random.Random(0)
    waits = [found.come_back_s(0, now=NOW + i, draw=draw) for i in range(200)]
    assert min(waits) < 0.6 * found.wait_s
    assert max(waits) > min(1.4 * found.wait_s, LONGEST_WAIT_S - 1)


def test_a_small_population_is_gathered_at_one_moment():
    found = check_in_pace(recent(80.0, 60.0), known=16, goal=8)
    assert found.gathers
    moments = [NOW + at + found.come_back_s(0, now=NOW + at, draw=random.Random(at)) for at in range(5)]
    assert max(moments) - min(moments) <= 0.1 * found.wait_s
    assert all(moment > NOW + 4 for moment in moments)


def test_waits_have_limits():
    assert CheckInPace(1.0, 1e9, gathers=False).come_back_s(0, now=NOW, draw=random.Random(0)) == LONGEST_WAIT_S
    quick = check_in_pace(recent(0.02, 0.01, 0.0), known=1, goal=100)
    assert quick.wait_s == SHORTEST_WAIT_S
    assert check_in_pace([], known=1, goal=1).round_s == FIRST_ROUND_S
    assert check_in_pace(recent(5.0, 0.0, places=0), known=1, goal=1).wait_s >= SHORTEST_WAIT_S


def test_the_idle_wait_has_limits_too():
    draw = random.Random(0)
    assert idle_wait_s(10**9, draw=draw) == LONGEST_WAIT_S
    assert idle_wait_s(100_000, draw=draw) > 400
