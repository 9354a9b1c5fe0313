"""Whatever devices send, in whatever order and how often: exactly the goal is counted, each once, and the sum is theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from sqlalchemy import Engine, insert, select

from tacit.errors import FleetError
from tacit.fleet.database import leases, round_table, schema
from tacit.fleet.database.round_table import UNCLIPPED
from tacit.fleet.rounds.aggregator import Aggregator, PeerQuestion
from tacit.fleet.rounds.partial_sums import PartialSum, unpack_sum
from tacit.fleet.wire.messages import Received
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.reports import pack_report, report_bytes
from tacit.privacy.gate.rounding import HEADROOM
from tests.support.fleet.people import a_round, a_task, enrolled_many
from tests.support.fleet.reports import SIZE, place, report


@pytest.fixture
def lease(engine: Engine) -> leases.Lease:
    found = leases.acquire(engine, "run:x", "me", now=0.0)
    assert found is not None
    return found


def summed(aggregator: Aggregator, round_id: str) -> PartialSum:
    return unpack_sum(aggregator.ask(round_id, PeerQuestion.SUM), PartialSum(1.0, ((SIZE,),), False))


def reported(engine: Engine, round_id: str) -> int:
    found = round_table.find(engine, round_id)
    assert found is not None
    return found.reported


def together(*calls: Callable[[], object]) -> list[str]:
    """Run them at the same moment; how each ended: what it returned, or the error's status."""
    ended, start = [], threading.Barrier(len(calls))

    def one(call: Callable[[], object]) -> None:
        start.wait()
        try:
            found = call()
            ended.append(f"repeated={found.repeated}" if isinstance(found, Received) else str(found))
        except Refusal as refusal:
            ended.append(str(refusal.status))
        except FleetError as error:
            ended.append(error.sentence)

    threads = [threading.Thread(target=one, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


def test_exactly_the_goal_is_counted_however_many_come_at_once(engine: Engine, lease: leases.Lease) -> None:
    devices, one, other = enrolled_many(engine, 12), Aggregator(engine, "1"), Aggregator(engine, "2")
    round_id = a_round(engine, a_task(engine), goal=5, places=12)
    place(engine, round_id, devices[:6], "1")
    with engine.begin() as connection:
        rows = [
            {"round_id": round_id, "device": device, "place": number, "aggregator": "2", "state": "selected"}
            for number, device in enumerate(devices[6:], 6)
        ]
        connection.execute(insert(schema.assignments), rows)
    ended = together(
        *(lambda d=d: one.report(round_id, d, report(round_id, d)) for d in devices[:6]),
        *(lambda d=d: other.report(round_id, d, report(round_id, d)) for d in devices[6:]),
    )
    assert sorted(ended) == ["410"] * 7 + ["repeated=False"] * 5
    assert reported(engine, round_id) == 5
    assert round_table.settle(engine, lease, round_id)
    counted = round_table.reported_to(engine, round_id)
    total = PartialSum(1.0, ((SIZE,),), False)
    for aggregator in (one, other):
        if aggregator.process in counted:
            part = summed(aggregator, round_id)
            assert set(part.devices) == counted[aggregator.process]
            total.merge(part)
    assert len(total.devices) == 5
    expected = sum(np.eye(SIZE)[device % SIZE] * np.float32(0.5) * HEADROOM for device in total.devices)
    np.testing.assert_allclose(total.update, expected, rtol=1e-12)


def test_one_report_sent_many_times_at_once_is_counted_once(engine: Engine, lease: leases.Lease) -> None:
    (device, *_), aggregator = enrolled_many(engine, 2), Aggregator(engine, "1")
    round_id = a_round(engine, a_task(engine))
    place(engine, round_id, [device], "1")
    body = report(round_id, device)
    ended = together(*[lambda: aggregator.report(round_id, device, body)] * 6)
    assert sorted(ended) == ["repeated=False"] + ["repeated=True"] * 5
    assert reported(engine, round_id) == 1
    with pytest.raises(Refusal) as caught:
        aggregator.report(round_id, device, report(round_id, device, norm=0.4))
    assert caught.value.status == 409
    round_table.settle(engine, lease, round_id)
    assert summed(aggregator, round_id).devices == [device]


def test_a_device_cannot_report_to_two_processes(engine: Engine) -> None:
    (device, *_) = enrolled_many(engine, 2)
    here, elsewhere = Aggregator(engine, "1"), Aggregator(engine, "2")
    round_id = a_round(engine, a_task(engine))
    place(engine, round_id, [device], "1")
    body = report(round_id, device)
    with pytest.raises(Refusal) as caught:
        elsewhere.report(round_id, device, body)
    assert caught.value.status == 403
    assert reported(engine, round_id) == 0
    ended = together(lambda: here.report(round_id, device, body), lambda: elsewhere.report(round_id, device, body))
    assert sorted(ended) == ["403", "repeated=False"]
    assert reported(engine, round_id) == 1


def test_a_device_is_counted_once_even_by_a_process_that_has_forgotten_it(engine: Engine) -> None:
    (device, *_) = enrolled_many(engine, 2)
    round_id = a_round(engine, a_task(engine))
    place(engine, round_id, [device], "1")
    Aggregator(engine, "1").report(round_id, device, report(round_id, device))
    with pytest.raises(Refusal) as caught:
        Aggregator(engine, "1").report(round_id, device, report(round_id, device))
    assert caught.value.status == 409
    assert reported(engine, round_id) == 1


def test_a_report_after_settling_is_refused_and_leaves_nothing(engine: Engine, lease: leases.Lease) -> None:
    first, late = enrolled_many(engine, 2)
    aggregator = Aggregator(engine, "1")
    round_id = a_round(engine, a_task(engine))
    place(engine, round_id, [first, late], "1")
    aggregator.report(round_id, first, report(round_id, first))
    round_table.settle(engine, lease, round_id)
    for attempt in (
        lambda: aggregator.report(round_id, late, report(round_id, late)),
        lambda: aggregator.most_bytes(round_id, late, None),
    ):
        with pytest.raises(Refusal) as caught:
            attempt()
        assert caught.value.status == 410
    assert summed(aggregator, round_id).devices == [first]


def test_a_sum_is_given_only_while_its_round_is_settled(engine: Engine, lease: leases.Lease) -> None:
    (device, *_), aggregator = enrolled_many(engine, 2), Aggregator(engine, "1")
    round_id = a_round(engine, a_task(engine))
    place(engine, round_id, [device], "1")
    aggregator.report(round_id, device, report(round_id, device))
    with pytest.raises(FleetError, match="not settled"):
        aggregator.ask(round_id, PeerQuestion.SUM)
    round_table.settle(engine, lease, round_id)
    # Another coordinator may go on with the round, and asks again.
    assert aggregator.ask(round_id, PeerQuestion.SUM) == aggregator.ask(round_id, PeerQuestion.SUM)
    assert aggregator.ask(round_id, PeerQuestion.HOLDS) == b""
    round_table.commit(engine, lease, round_id)
    aggregator.sweep()
    for question in (PeerQuestion.SUM, PeerQuestion.HOLDS):
        with pytest.raises(FleetError):
            aggregator.ask(round_id, question)
    assert not aggregator._sums


def test_an_abandoned_round_leaves_nothing(engine: Engine, lease: leases.Lease) -> None:
    (device, *_), aggregator = enrolled_many(engine, 2), Aggregator(engine, "1")
    task = a_task(engine)
    round_id = a_round(engine, task)
    place(engine, round_id, [device], "1")
    aggregator.report(round_id, device, report(round_id, device))
    assert round_table.abandon(engine, lease, round_id, "because")
    aggregator.sweep()
    assert not aggregator._sums
    with pytest.raises(Refusal) as caught:
        aggregator.report(round_id, device, report(round_id, device))
    assert caught.value.status == 410
    with engine.connect() as connection:
        assert connection.execute(select(schema.assignments)).first() is None
        assert connection.execute(select(schema.participations)).first() is None
    found = round_table.find(engine, round_id)
    assert found is not None
    assert (found.state, found.reason) == ("abandoned", "because")
    # It is never used again: neither settled nor committed.
    assert not round_table.settle(engine, lease, round_id)
    assert not round_table.commit(engine, lease, round_id)


def test_a_round_can_be_given_up_while_reports_pour_in(engine: Engine, lease: leases.Lease) -> None:
    devices, aggregator, task = enrolled_many(engine, 10), Aggregator(engine, "1"), a_task(engine)
    for number in range(8):
        round_id = a_round(engine, task, round=number, goal=9, places=10)
        place(engine, round_id, devices, "1")
        ended = together(
            *(lambda d=d, r=round_id: aggregator.report(r, d, report(r, d)) for d in devices),
            lambda r=round_id: round_table.abandon(engine, lease, r, "because"),
        )
        assert set(ended) <= {"True", "repeated=False", "410"}
        assert "True" in ended


def test_what_is_wrong_with_a_report_is_found_before_it_counts(engine: Engine, lease: leases.Lease) -> None:
    (device, *_), aggregator = enrolled_many(engine, 2), Aggregator(engine, "1")
    round_id = a_round(engine, a_task(engine), clip_norm=0.5)
    place(engine, round_id, [device], "1")
    good = report(round_id, device)
    nan = pack_report(round_id, 1.0, 0, np.full(SIZE, np.nan, np.float32))
    wrong = [
        good[:-1],
        good + b"\0",
        nan,
        report("0" * 32, device),
        report(round_id, device, norm=0.51),
        report(round_id, device, within=1),
        report(round_id, device, weight=1.5),
        report(round_id, device, weight=float("nan")),
    ]
    for body in wrong:
        with pytest.raises(FleetError):
            aggregator.report(round_id, device, body)
    assert reported(engine, round_id) == 0
    assert aggregator.most_bytes(round_id, device, None) == report_bytes(SIZE) == len(good)
    aggregator.report(round_id, device, good)  # none of them has cost the device its place
    round_table.settle(engine, lease, round_id)
    assert np.linalg.norm(summed(aggregator, round_id).update) <= 0.5


def test_a_bit_is_wanted_exactly_where_there_is_a_threshold(engine: Engine) -> None:
    (device, *_), aggregator = enrolled_many(engine, 2), Aggregator(engine, "1")
    round_id = a_round(engine, a_task(engine), threshold=0.4)
    place(engine, round_id, [device], "1")
    with pytest.raises(FleetError, match="bit must be 1 or -1"):
        aggregator.report(round_id, device, report(round_id, device, within=0))
    aggregator.report(round_id, device, report(round_id, device, within=-1))


def test_only_a_device_with_a_place_here_may_send(engine: Engine) -> None:
    chosen, stranger, other = enrolled_many(engine, 3)
    aggregator = Aggregator(engine, "1")
    task = a_task(engine)
    round_id, second = a_round(engine, task), a_round(engine, task, round=1)
    place(engine, round_id, [chosen], "1")
    place(engine, second, [other], "2")
    for wrong, device, status in (
        (round_id, stranger, 403),
        (second, chosen, 403),
        (second, other, 403),
        ("f" * 32, chosen, 404),
    ):
        with pytest.raises(Refusal) as caught:
            aggregator.most_bytes(wrong, device, None)
        assert caught.value.status == status
        with pytest.raises(Refusal) as caught:
            aggregator.report(wrong, device, report(wrong, device))
        assert caught.value.status == status
    assert reported(engine, round_id) == reported(engine, second) == 0


def test_a_round_without_clipping_takes_any_finite_update(engine: Engine) -> None:
    (device, *_), aggregator = enrolled_many(engine, 2), Aggregator(engine, "1")
    round_id = a_round(engine, a_task(engine), clip_norm=UNCLIPPED)
    place(engine, round_id, [device], "1")
    aggregator.report(round_id, device, report(round_id, device, norm=1e30))


def test_a_plain_report_does_not_pass_where_secure_aggregation_is_asked_for(engine: Engine) -> None:
    terms = {
        "dimension": SIZE,
        "scale": 8.0,
        "element_clip": 8,
        "bits": 8,
        "block": 4,
        "rounding_failure": 1e-6,
        "local_variance": 0,
        "weighted": False,
    }
    (device, *_), aggregator = enrolled_many(engine, 2), Aggregator(engine, "1")
    round_id = a_round(engine, a_task(engine, secagg=terms), aggregator="1")
    place(engine, round_id, [device], "1")
    with pytest.raises(Refusal, match="uses secure aggregation"):
        aggregator.report(round_id, device, report(round_id, device))
    assert reported(engine, round_id) == 0
    assert aggregator.fetch(round_id, device, "session") is None  # not yet
