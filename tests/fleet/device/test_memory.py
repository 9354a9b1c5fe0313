"""Separation, limit and timer are the device's own, whatever the server says."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import FleetError
from tacit.fleet.device.memory import SPARE_TRIES, Memory
from tacit.fleet.device.policy import OwnerPolicy
from tacit.fleet.device.terms import PolicyRefusal
from tacit.fleet.wire.messages import Assignment
from tacit.fleet.wire.task import SecAggTerms
from tests.support.fleet.device_task import task

NAME, OTHER = "a" * 64, "b" * 64
POLICY = OwnerPolicy.for_trying()


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
    with pytest.raises(
        FleetError, match="3 rounds of this task and in 0 tries that came to nothing, as many as it may"
    ):
        taken(memory, 40, 1e6)


def test_what_came_to_nothing_no_longer_counts_but_not_without_end():
    memory, most = Memory().offered(NAME, task(max_participation=1), 0.0), 1 + SPARE_TRIES
    for number in range(most):
        memory = taken(memory, 5, 100.0 * number)
        with pytest.raises(FleetError, match="as many as it may"):
            taken(memory, 5, 100.0 * number + 50)
        assert memory.asked() == ("0" * 32,)
        memory = memory.without(["0" * 32, "f" * 32])
        assert (memory.tasks[NAME].taken, memory.tasks[NAME].last_round) == (0, None)
    with pytest.raises(FleetError, match=f"in {most} tries that came to nothing"):
        taken(memory, 5, 1e6)


def test_the_timer_runs_after_a_report_that_came_to_nothing():
    memory = taken(Memory().offered(NAME, task(), 0.0), 5, 0.0).without(["0" * 32])
    with pytest.raises(FleetError, match="timer"):
        taken(memory, 5, 9.0)
    taken(memory, 5, 10.0)


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
    with pytest.raises(FleetError, match="weakened its terms"):
        memory.offered(OTHER, task(**weaker), 1.0)
    if "max_participation" in weaker:  # rounds are limited for all tasks together
        assert OTHER in memory.offered(OTHER, task(name="another", **weaker), 1.0).tasks
    else:
        with pytest.raises(PolicyRefusal, match="weakened its terms"):
            memory.offered(OTHER, task(name="another", **weaker), 1.0)
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
    with pytest.raises(FleetError, match="offered secure aggregation before, and none now"):
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


def test_no_name_or_run_gives_a_server_more_rounds_or_shorter_pauses():
    policy = POLICY.model_copy(update={"most_rounds": 4, "least_pause_s": 5.0})
    memory, now = Memory(), 0.0
    for number in range(4):
        name = f"{number:064x}"
        memory = memory.offered(name, task(name=f"task {number}", run=str(number)), now)
        memory.server.require_free(f"{number:032x}", now, policy)
        memory = memory.taking_part(place(number, name), now, None)
        again = memory.offered(OTHER, task(name="yet another"), now)
        with pytest.raises(FleetError, match="pause of 5 s" if number < 3 else "4 rounds of this server"):
            again.server.require_free("f" * 32, now + 4.9, policy)
        now += 5.0
    with pytest.raises(PolicyRefusal, match="4 rounds of this server, as many as the owner's policy allows"):
        memory.offered(OTHER, task(name="yet another"), now).server.require_free("f" * 32, 1e9, policy)


def test_a_round_is_taken_once_under_any_task():
    first = place(0)
    memory = Memory().offered(NAME, task(), 0.0).taking_part(first, 0.0, None)
    memory = memory.offered(OTHER, task(name="another"), 1e3)
    with pytest.raises(PolicyRefusal, match="a round again"):
        memory.server.require_free(first.round_id, 1e3, POLICY)


def test_a_session_is_begun_once():
    memory = Memory().begins("5" * 64)
    with pytest.raises(PolicyRefusal, match="a session of secure aggregation again"):
        memory.begins("5" * 64)
    memory.begins("6" * 64)


def test_a_new_edition_of_the_policy_lets_terms_change_and_an_old_one_is_refused():
    second = POLICY.model_copy(update={"issue": 2})
    memory = Memory().under(POLICY).offered(NAME, task(), 0.0)
    changed = task(name="another", report_goal=3)
    with pytest.raises(PolicyRefusal, match="a report goal of 4 before, and 3 now"):
        memory.under(POLICY).offered(OTHER, changed, 1.0)
    after = memory.under(second).offered(OTHER, changed, 1.0)
    with pytest.raises(FleetError, match="Expected issue 2 or a later one"):
        after.under(POLICY)


def test_a_server_cannot_fill_the_memory_with_tasks():
    memory = Memory().offered(NAME, task(), 0.0, most_tasks=1)
    assert memory.offered(NAME, task(), 1.0, most_tasks=1).tasks
    with pytest.raises(PolicyRefusal, match="1 different tasks"):
        memory.offered(OTHER, task(name="another"), 1.0, most_tasks=1)


def test_refusals_are_kept_once_each_and_not_for_ever():
    memory = Memory()
    for number in range(30):
        memory = memory.objecting(f"No. {number}", float(number)).objecting(f"No. {number}", float(number))
    assert [each.sentence for each in memory.refusals] == [f"No. {number}" for number in range(10, 30)]
