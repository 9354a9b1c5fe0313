"""Places go only to devices that may have them, also with concurrent check-ins; the others get a waiting time."""

from __future__ import annotations

import random
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select, update

from tacit.fleet.database import device_table, schema
from tacit.fleet.database.leases import LEAVING, appear
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database, read_only
from tacit.fleet.rounds.pace_steering import IDLE_WAIT_S
from tacit.fleet.rounds.selection import SNAPSHOT_S, SnapshotCache, check_in, could_come, take_snapshot
from tacit.fleet.server.enrolment import revoke
from tacit.fleet.wire.messages import CheckInRequest, padded
from tacit.fleet.wire.task import DeviceTask
from tacit.privacy.participation.pace import LONGEST_WAIT_S
from tests.support.fleet.people import NOW, a_process, a_round, a_task, enrolled_many, finish

TERMS = {
    "dimension": 3,
    "scale": 1.0,
    "element_clip": 9,
    "bits": 16,
    "block": 4,
    "rounding_failure": 1e-9,
    "local_variance": 0,
    "weighted": False,
}


def ask(engine, device, *, now=NOW, seed=0, busy_with=(), was_in=None, sent=()):
    request = CheckInRequest(busy_with=busy_with, was_in=was_in or {}, sent=tuple(sent))
    return check_in(engine, device, request, now=now, draw=random.Random(seed))


def places(engine, round_id):
    query = select(schema.assignments.c.device, schema.assignments.c.place)
    with read_only(engine) as connection:
        return dict(connection.execute(query.where(schema.assignments.c.round_id == round_id)).all())


def test_a_device_gets_a_place_and_everything_it_needs(engine):
    task, process = a_task(engine), a_process(engine, address="https://somewhere:1")
    round_id = a_round(engine, task, 7, clip_norm=0.5, threshold=0.25)
    (device,) = enrolled_many(engine, 1)
    assignment = ask(engine, device, now=NOW + 5).assignment
    assert assignment.round_id == round_id
    assert (assignment.task, assignment.round, assignment.checkpoint) == (task, 7, "3" * 64)
    assert (assignment.upload_to, assignment.clip_norm, assignment.threshold) == ("https://somewhere:1", 0.5, 0.25)
    assert assignment.seconds_left == 55
    assert places(engine, round_id) == {device: 0}
    with read_only(engine) as connection:
        assert connection.execute(select(schema.assignments.c.aggregator)).scalar_one() == process


def test_only_as_many_are_chosen_as_there_are_places(engine):
    task = a_task(engine)
    a_process(engine)
    round_id = a_round(engine, task, places=3)
    answers = [ask(engine, device) for device in enrolled_many(engine, 5)]
    assert [answer.assignment is not None for answer in answers] == [True] * 3 + [False] * 2
    assert sorted(places(engine, round_id).values()) == [0, 1, 2]
    assert len({len(padded(answer)) for answer in answers}) == 1


def test_a_device_that_asks_again_has_the_same_place(engine):
    task = a_task(engine)
    for _ in range(5):
        a_process(engine)
    round_id = a_round(engine, task)
    (device,) = enrolled_many(engine, 1)
    first = ask(engine, device).assignment
    for seed in range(5):
        assert ask(engine, device, seed=seed).assignment == first
    assert places(engine, round_id) == {device: 0}


def test_a_device_that_has_reported_is_not_chosen_again_in_the_round(engine):
    task = a_task(engine)
    a_process(engine)
    a_round(engine, task)
    (device,) = enrolled_many(engine, 1)
    ask(engine, device)
    with engine.begin() as connection:
        connection.execute(update(schema.assignments).values(state="reported"))
    assert ask(engine, device).assignment is None


def test_a_device_has_one_place_at_a_time(engine):
    a_process(engine)
    tasks = [a_task(engine), a_task(engine)]
    for task in tasks:
        a_round(engine, task)
    (device,) = enrolled_many(engine, 1)
    first = ask(engine, device).assignment
    assert ask(engine, device, busy_with=(first.task,)).assignment is None


def test_a_device_is_not_given_a_task_it_is_busy_with(engine):
    a_process(engine)
    tasks = [a_task(engine), a_task(engine)]
    for task in tasks:
        a_round(engine, task)
    (device,) = enrolled_many(engine, 1)
    assert ask(engine, device, busy_with=tuple(tasks)).assignment is None
    assert ask(engine, device, busy_with=(tasks[0],)).assignment.task == tasks[1]


def test_in_secure_aggregation_a_place_is_offered_once(engine):
    task = a_task(engine, secagg=TERMS)
    process = a_process(engine, address="https://the.one")
    for _ in range(3):
        a_process(engine)
    a_round(engine, task, aggregator=process)
    first, second = enrolled_many(engine, 2)
    assert ask(engine, first).assignment.upload_to == "https://the.one"
    assert ask(engine, second).assignment.upload_to == "https://the.one"
    assert ask(engine, first).assignment is None


@pytest.mark.parametrize(
    "change", [{"state": "settled"}, {"state": "abandoned"}, {"deadline": NOW}, {"places": 0}, {"aggregator": "f" * 32}]
)
def test_a_round_that_is_closed_or_full_is_not_offered(engine, change):
    task = a_task(engine)
    a_process(engine)
    a_round(engine, task, **change)
    assert ask(engine, *enrolled_many(engine, 1)).assignment is None


def test_no_device_is_sent_to_a_process_that_is_gone_or_accepts_no_reports(engine):
    task = a_task(engine)
    a_process(engine, seen_at=NOW - 60)
    a_process(engine, role="selector")
    a_round(engine, task)
    (device,) = enrolled_many(engine, 1)
    assert ask(engine, device).assignment is None
    a_process(engine, role="all")
    assert ask(engine, device).assignment is not None


def test_a_process_that_leaves_finishes_what_it_has_and_gets_nothing_new(engine):
    plain, secure = a_task(engine), a_task(engine, secagg=TERMS)
    process = a_process(engine, address="https://old")
    for task, aggregator in ((plain, None), (secure, process)):
        a_round(engine, task, aggregator=aggregator, places=9)
    first, second = enrolled_many(engine, 2)
    before = ask(engine, first, busy_with=(secure,)).assignment
    appear(engine, process, role=LEAVING, address="https://old", now=NOW)
    assert ask(engine, second, busy_with=(secure,)).assignment is None
    a_process(engine, address="https://new")
    assert ask(engine, second, busy_with=(secure,)).assignment.upload_to == "https://new"
    # Who has a place there keeps it, and the round that it alone can add up is filled.
    assert ask(engine, first, busy_with=(secure,)).assignment == before
    assert ask(engine, *enrolled_many(engine, 1), busy_with=(plain,)).assignment.upload_to == "https://old"


def test_an_inactive_task_and_a_revoked_device_get_nothing(engine):
    task = a_task(engine)
    a_process(engine)
    a_round(engine, task)
    first, second = enrolled_many(engine, 2)
    revoke(engine, first)
    assert ask(engine, first).assignment is None
    with engine.begin() as connection:
        connection.execute(update(schema.tasks).values(active=False))
    assert ask(engine, second).assignment is None


def test_the_separation_is_the_number_of_rounds_in_between(engine):
    task = a_task(engine, min_separation=2, max_participation=9)
    a_process(engine)
    (device,) = enrolled_many(engine, 1)
    chosen = []
    for round in range(8):
        round_id = a_round(engine, task, round)
        chosen.append(ask(engine, device).assignment is not None)
        finish(engine, round_id)
    assert chosen == [True, False, False, True, False, False, True, False]


def test_a_round_that_only_the_device_counts_keeps_it_away_and_no_other_word_brings_it_nearer(engine):
    task = a_task(engine, min_separation=2)
    a_process(engine)
    (device,) = enrolled_many(engine, 1)
    a_round(engine, task, 5)
    same, near = ask(engine, device, was_in={task: 5}), ask(engine, device, was_in={task: 3})
    assert same.assignment is near.assignment is None  # it reported to a try at this round, and it came to nothing
    assert same.come_back_s > near.come_back_s
    chosen = ask(engine, device, was_in={task: 2, "f" * 64: 5}).assignment
    assert chosen is not None
    finish(engine, chosen.round_id)
    a_round(engine, task, 6)
    assert ask(engine, device, was_in={task: 0}).assignment is None


def test_the_limit_of_participations_holds_for_good(engine):
    task = a_task(engine, min_separation=0, max_participation=2)
    a_process(engine)
    (device,) = enrolled_many(engine, 1)
    chosen = []
    for round in range(5):
        round_id = a_round(engine, task, round)
        answer = ask(engine, device)
        chosen.append(answer.assignment is not None)
        finish(engine, round_id)
    assert chosen == [True, True, False, False, False]
    assert answer.come_back_s >= LONGEST_WAIT_S / 2


def test_another_attempt_at_a_round_counts_as_one(engine):
    task = a_task(engine, min_separation=0, max_participation=9)
    a_process(engine)
    (device,) = enrolled_many(engine, 1)
    first = a_round(engine, task, 4)
    ask(engine, device)
    finish(engine, first)
    a_round(engine, task, 4, attempt=1)
    assert ask(engine, device).assignment is None


def test_an_abandoned_round_counts_for_nothing(engine):
    task = a_task(engine, min_separation=5, max_participation=1)
    a_process(engine)
    (device,) = enrolled_many(engine, 1)
    first = a_round(engine, task, 4)
    ask(engine, device)
    finish(engine, first, counted=False)
    second = a_round(engine, task, 4)
    assert ask(engine, device).assignment.round_id == second


def test_could_come_leaves_out_devices_that_wait_or_are_done_and_not_those_of_failed_tries(engine):
    name = a_task(engine, min_separation=2, max_participation=1)
    with read_only(engine) as connection:
        task = DeviceTask.model_validate_json(connection.execute(select(schema.tasks.c.description)).scalar_one())
    people = enrolled_many(engine, 12)
    a_round(engine, name, 0, state="committed", reported=2)
    done = [{"task": name, "device": device, "round": 0, "attempt": 0} for device in people[:2]]
    with engine.begin() as connection:
        connection.execute(insert(schema.participations), done)
    # In the rounds near it they rest; later they have been there as often as they may.
    assert [could_come(engine, task, name, round) for round in (1, 2, 3)] == [10, 10, 10]
    assert could_come(engine, task.model_copy(update={"max_participation": 2}), name, 3) == 12
    a_round(engine, name, 3, state="abandoned", reported=3)
    revoke(engine, people[-1])
    device_table.quarantine(engine, [people[-2]], "gave false shares")
    assert could_come(engine, task, name, 3) == 8


def test_a_device_learns_which_of_its_tries_came_to_nothing(engine):
    task = a_task(engine, min_separation=5, max_participation=9)
    a_process(engine)
    me, other = enrolled_many(engine, 2)
    abandoned, late, counted = (a_round(engine, task, number) for number in (0, 1, 2))
    for round_id in (abandoned, late, counted):
        assert ask(engine, me, sent=[round_id]).uncounted == ()  # it is under way
    finish(engine, abandoned, counted=False)
    taken_part(engine, task, 1, other)
    taken_part(engine, task, 2, me)
    close(engine, late, "committed")
    close(engine, counted, "committed")
    answer = ask(engine, me, sent=[abandoned, late, counted, "e" * 32])
    assert set(answer.uncounted) == {abandoned, late}


def test_a_try_with_an_intent_counts_until_another_one_at_its_attempt_is_committed(engine):
    task = a_task(engine)
    (me,) = enrolled_many(engine, 1)
    first, second = a_round(engine, task, 3), a_round(engine, task, 3)
    taken_part(engine, task, 3, me)
    close(engine, first, "abandoned")
    assert ask(engine, me, sent=[first]).uncounted == ()  # it may be the one whose intent is in the ledger
    close(engine, second, "committed")
    assert ask(engine, me, sent=[first]).uncounted == (first,)
    assert ask(engine, me, sent=[second]).uncounted == ()


def test_a_device_that_rests_or_is_quarantined_gets_no_place(engine):
    task = a_task(engine)
    a_process(engine)
    a_round(engine, task, places=9)
    rests, lied, free = enrolled_many(engine, 3)
    device_table.quarantine(engine, [lied], "gave false shares")
    device_table.require(engine, rests, rests_until=NOW + 10)
    assert [ask(engine, device).assignment is not None for device in (rests, lied, free)] == [False, False, True]
    assert ask(engine, rests, now=NOW + 10).assignment is not None


def taken_part(engine, task, round, device):
    with engine.begin() as connection:
        row = {"task": task, "device": device, "round": round, "attempt": 0}
        connection.execute(insert(schema.participations).values(**row))


def close(engine, round_id, state):
    with engine.begin() as connection:
        connection.execute(update(schema.rounds).where(schema.rounds.c.round_id == round_id).values(state=state))


def test_tasks_are_counted_apart(engine):
    a_process(engine)
    (device,) = enrolled_many(engine, 1)
    first = a_round(engine, a_task(engine), 0)
    ask(engine, device)
    finish(engine, first)
    other = a_round(engine, a_task(engine), 1)
    assert ask(engine, device).assignment.round_id == other


def play(engine, plan, draw, *, min_separation, max_participation, devices, at_once):
    """Rounds with check-ins from several threads, each device several times in each round; who took part in each."""
    tasks = [a_task(engine, min_separation=min_separation, max_participation=max_participation) for _ in range(2)]
    a_process(engine)
    numbers = enrolled_many(engine, devices)
    took_part = defaultdict(list)
    round = 0
    with ThreadPoolExecutor(at_once) as pool:
        for size, counted in plan:
            opened = [a_round(engine, task, round, places=size) for task in tasks]
            callers = 3 * numbers
            draw.shuffle(callers)
            list(pool.map(lambda pair: ask(engine, pair[1], seed=pair[0]), enumerate(callers)))
            here = [places(engine, round_id) for round_id in opened]
            for found in here:
                assert sorted(found.values()) == list(range(len(found)))
                assert len(found) <= size
            assert not set(here[0]) & set(here[1])
            for task, round_id in zip(tasks, opened, strict=True):
                for device in finish(engine, round_id, counted=counted):
                    if counted:
                        took_part[task, device].append(round)
            round += counted
    return took_part


def check_limits(took_part, min_separation, max_participation):
    for when in took_part.values():
        assert len(when) <= max_participation
        assert all(later - earlier - 1 >= min_separation for earlier, later in pairwise(when))


@pytest.mark.parametrize("limits", [(0, 2), (1, 3)])
def test_limits_hold_under_concurrent_check_ins(engine, limits):
    min_separation, max_participation = limits
    plan = [(3, True), (2, True), (3, False), (3, True), (4, True)]
    took_part = play(
        engine,
        plan,
        random.Random(1),
        min_separation=min_separation,
        max_participation=max_participation,
        devices=6,
        at_once=6,
    )
    assert max(map(len, took_part.values())) > 1  # some came back, so there was something to break
    check_limits(took_part, min_separation, max_participation)


@settings(max_examples=12, derandomize=True)
@given(
    plan=st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=8),
    seed=st.integers(0, 2**16),
    min_separation=st.integers(0, 3),
    max_participation=st.integers(1, 3),
)
def test_limits_hold_whatever_the_rounds(tmp_path_factory, plan, seed, min_separation, max_participation):
    engine = open_database(f"sqlite:///{tmp_path_factory.mktemp('db')}/fleet.db")
    migrate(engine)
    draw, limits = random.Random(seed), {"min_separation": min_separation, "max_participation": max_participation}
    check_limits(play(engine, plan, draw, **limits, devices=4, at_once=1), *limits.values())
    engine.dispose()


def test_a_device_that_comes_early_is_sent_away_for_as_long_as_those_rounds_take(engine):
    task = a_task(engine, min_separation=50, max_participation=9)
    (device, other, *_) = enrolled_many(engine, 100)
    for round in range(4):
        a_round(engine, task, round, opened_at=NOW + 30 * round, state="committed", places=2)
    with engine.begin() as connection:
        row = {"task": task, "device": device, "round": 3, "attempt": 0}
        connection.execute(insert(schema.participations).values(**row))
    early, free = ask(engine, device, now=NOW + 120), ask(engine, other, now=NOW + 120)
    assert early.come_back_s - free.come_back_s == pytest.approx(50 * 30)


def test_with_nothing_to_do_devices_come_back_soon_if_they_are_few(engine):
    (device,) = enrolled_many(engine, 1)
    assert IDLE_WAIT_S / 2 <= ask(engine, device).come_back_s <= 2 * IDLE_WAIT_S


def test_a_snapshot_is_read_again_when_it_is_old(sqlite_engine):
    lookout = SnapshotCache(sqlite_engine)
    first = lookout.at(NOW)
    a_task(sqlite_engine)
    assert lookout.at(NOW + 0.9 * SNAPSHOT_S) is first
    assert len(lookout.at(NOW + 1.1 * SNAPSHOT_S).tasks) == 1
    assert lookout.at(NOW - 5) is not first  # the clock was put back


def test_an_old_snapshot_gives_away_no_place_that_is_gone(engine):
    task = a_task(engine, min_separation=0)
    a_process(engine)
    round_id, full = a_round(engine, task, places=9), a_round(engine, a_task(engine), places=1)
    first, second, third = enrolled_many(engine, 3)
    old = take_snapshot(engine, now=NOW)

    def again(device):
        request = CheckInRequest(busy_with=() if places(engine, full) else (task,))
        return check_in(engine, device, request, now=NOW, draw=random.Random(0), snapshot=old).assignment

    assert again(first).round_id == full
    assert again(second).round_id == round_id
    finish(engine, round_id)
    assert again(third) is None
    assert places(engine, round_id) == {}
    assert len(places(engine, full)) == 1
