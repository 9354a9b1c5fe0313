"""Separation, limit and timer are the device's own, whatever the server says."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import FleetError
from tacit.fleet.device.memory import Memory
from tacit.fleet.wire.messages import Assignment
from tacit.fleet.wire.task import SecAggTerms
from tests.support.fleet.device_task import task

NAME, OTHER = "a" * 64, "b" * 64


def place(round, name=NAME):
    return Assignment(
        round_id="0" * 32,
        task=name,
        round=round,
        checkpoint="e" * 64,
        upload_to="",
        clip_norm=1.0,
        seconds_left=60.0,
    )


def taken(memory, round, now):
    memory.require_free(place(round), now)
    return memory.taking_part(place(round), now, None)


@given(
    offers=st.lists(st.tuples(st.integers(0, 30), st.floats(0, 200)), max_size=30),
    separation=st.integers(0, 4),
    most=st.integers(1, 4),
)
def test_no_order_of_offers_breaks_the_rules(offers, separation, most):
    offered = task(min_separation=separation, max_participation=most)
    memory, rounds, times, now = Memory(), [], [], 0.0
    for round, later in offers:
        now += later
        memory = memory.offered(NAME, offered, now)
        try:
            memory = taken(memory, round, now)
        except FleetError:
            continue
        rounds.append(round)
        times.append(now)
    assert len(rounds) <= most
    assert all(second - first > separation for first, second in itertools.pairwise(rounds))
    assert all(second - first >= 10.0 for first, second in itertools.pairwise(times))


def test_a_device_that_may_take_part_does():
    memory = Memory().offered(NAME, task(), 0.0)
    for round, now in ((5, 0.0), (8, 10.0), (11, 20.0)):
        memory = taken(memory, round, now)
    assert memory.tasks[NAME].taken == 3
    with pytest.raises(FleetError, match="3 rounds of this task, as many as it may"):
        taken(memory, 40, 1e6)


def test_a_round_is_refused_before_its_time():
    memory = taken(Memory().offered(NAME, task(), 0.0), 5, 0.0)
    with pytest.raises(FleetError, match="timer of 10 s"):
        memory.require_free(place(8), 9.9)
    for round in (5, 7, 3):  # the same round again, too close, an earlier one
        with pytest.raises(FleetError, match="more than 2 rounds after round 5"):
            memory.require_free(place(round), 11.0)
    memory.require_free(place(8), 11.0)


@pytest.mark.parametrize("weaker", [{"min_separation": 1}, {"max_participation": 4}, {"timer_s": 9.0}])
def test_a_known_task_cannot_come_back_under_weaker_terms(weaker):
    memory = Memory().offered(NAME, task(), 0.0)
    with pytest.raises(FleetError, match="at least as strong"):
        memory.offered(OTHER, task(**weaker), 1.0)
    assert OTHER in memory.offered(OTHER, task(name="another", **weaker), 1.0).tasks
    assert OTHER in memory.offered(OTHER, task(min_separation=5), 1.0).tasks


def test_a_task_that_was_under_masks_does_not_come_back_without():
    terms = SecAggTerms(
        dimension=2,
        scale=8.0,
        element_clip=9,
        bits=12,
        block=2,
        rounding_failure=1e-9,
        local_variance=0,
        weighted=False,
    )
    memory = Memory().offered(NAME, task(secagg=terms), 0.0)
    with pytest.raises(FleetError, match="no secure aggregation"):
        memory.offered(OTHER, task(), 1.0)
    plain = Memory().offered(NAME, task(), 0.0)
    assert OTHER in plain.offered(OTHER, task(secagg=terms), 1.0).tasks


def test_a_device_says_what_it_will_not_take():
    memory = Memory().offered(NAME, task(), 0.0).offered(OTHER, task(name="another", max_participation=1), 5.0)
    assert memory.busy_with(6.0) == []
    memory = taken(memory, 0, 6.0).taking_part(place(0, OTHER), 6.0, None)
    assert memory.busy_with(7.0) == [OTHER, NAME]
    assert memory.busy_with(17.0) == [OTHER]  # over for good


def test_an_offer_that_is_repeated_forgets_nothing():
    memory = taken(Memory().offered(NAME, task(), 0.0), 5, 0.0)
    again = memory.offered(NAME, task(), 50.0)
    assert (again.tasks[NAME].taken, again.tasks[NAME].last_round) == (1, 5)
