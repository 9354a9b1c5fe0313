"""A device sends one report a round whatever happens to it, and checks everything that the server sends."""

from __future__ import annotations

import dataclasses
import json
from math import inf, nan

import httpx
import numpy as np
import pytest

from tacit.fleet.device.home import Home
from tacit.fleet.device.memory import Sent, TaskMemory
from tacit.fleet.rounds import task_compiler
from tacit.fleet.wire import messages
from tacit.fleet.wire.blobs import packed_leaves
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.reports import unpack_report
from tests.support.fleet.fake_server import COME_BACK, Clock, FakeServer, Killed, Running, enrolled, refused
from tests.support.fleet.worlds import sentences_of, setup


@pytest.fixture
def fake():
    return FakeServer(task_compiler.prepare(setup(), timer_s=100.0), setup().start.model)


@pytest.fixture
def home(tmp_path, fake):
    return enrolled(tmp_path, fake, sentences_of(setup(), 0))


def reports(fake):
    return [body for bodies in fake.reports.values() for body in bodies]


def step(home, fake, clock=None):
    """One process, one step: seconds to wait, and what it said."""
    with Running(home, fake, clock or Clock()) as device:
        return device.agent.step(), device.said


def memory(home, fake):
    with Home.open(home) as found:
        return found.memory.tasks.get(fake.prepared.name)


def with_adaptive_clipping(fake):
    """From now on the server offers the same task without a fixed clip norm."""
    task = fake.prepared.task.model_copy(update={"clip_norm": None})
    fake.prepared = dataclasses.replace(fake.prepared, task=task, task_bytes=task.model_dump_json().encode())
    fake.add_blob(fake.prepared.task_bytes)
    return fake


def test_a_device_that_is_not_chosen_comes_back(home, fake):
    assert step(home, fake) == (COME_BACK, [])
    assert fake.requests[1:] == ["POST /v1/check-in"]


def test_a_device_that_is_chosen_reports_once_and_rests(home, fake):
    offer, clock = with_adaptive_clipping(fake).offer(threshold=0.2), Clock()
    wait, said = step(home, fake, clock)
    assert (wait, said) == (COME_BACK, ["Took part in round 0 of small."])
    weight, within, update = unpack_report(*reports(fake), offer.round_id, fake.prepared.task.dimension)
    assert weight == 1
    assert within in (-1, 1)
    assert 0 < np.linalg.norm(update.astype(np.float64)) <= 0.3 * (1 + 1e-6)
    step(home, fake, clock)
    assert fake.check_ins[-1].busy_with == (fake.prepared.name,)
    clock.at += 100.0
    step(home, fake, clock)
    assert fake.check_ins[-1].busy_with == ()


@pytest.mark.parametrize("threshold", [None, 0.2])
def test_a_device_without_sentences_takes_part_with_an_update_of_zero(home, fake, threshold):
    """To leave the round would let what its user wrote decide who is in it."""
    with Home.open(home) as found:
        found.examples_path.write_text("")
    offer = with_adaptive_clipping(fake).offer(threshold=threshold)
    assert step(home, fake) == (COME_BACK, ["Took part in round 0 of small."])
    weight, within, update = unpack_report(*reports(fake), offer.round_id, fake.prepared.task.dimension)
    assert weight == 0
    assert (within == 0) == (threshold is None)  # the server asks for one, and counts none of weight 0
    assert not update.any()
    assert memory(home, fake).taken == 1


def test_text_never_leaves(home, fake):
    fake.offer()
    bodies = []
    fake.before = lambda request: bodies.append(request.content)
    step(home, fake)
    words = {word for sentence in sentences_of(setup(), 0) for word in sentence.split() if len(word) > 3}
    assert len(words) > 3
    assert not any(word.encode() in body for word in words for body in bodies)


def test_an_evaluation_is_taken_the_same_way(home, fake):
    prepared = task_compiler.prepare_evaluation(setup(), timer_s=0.0)
    fake.blobs |= prepared.blobs
    offer = fake.offer(task=prepared.name, clip_norm=1.0)
    step(home, fake)
    weight, _, vector = unpack_report(*reports(fake), offer.round_id, 2)
    found = task_compiler.metrics_of(vector.astype(np.float64))
    assert weight == 1
    assert 0 <= found["top1"] <= 1
    assert 3 < found["loss"] < 7  # near log 120, for it has learned nothing


@pytest.mark.parametrize("round", [0, 1])
def test_separation_is_the_devices_own(home, fake, round):
    clock = Clock()
    fake.offer(0)
    step(home, fake, clock)
    clock.at += 1e4
    fake.offer(round, round_id="f" * 32)
    _, said = step(home, fake, clock)
    assert len(reports(fake)) == 1
    assert "more than 1 rounds after round 0" in said[0]
    assert memory(home, fake).taken == 1


def test_timer_and_limit_are_the_devices_own(home, fake):
    clock = Clock()
    for round in (0, 2, 4, 6, 8):
        fake.offer(round)
        step(home, fake, clock)
        fake.offer(round + 20)  # before the timer is over
        assert ("timer of 100 s" if round < 4 else "as many as it may") in step(home, fake, clock)[1][0]
        clock.at += 100.0
    assert len(reports(fake)) == memory(home, fake).taken == 3


def test_weaker_terms_for_a_known_task_are_refused(home, fake):
    fake.offer()
    clock = Clock()
    step(home, fake, clock)
    weaker = fake.prepared.task.model_copy(update={"min_separation": 0})
    fake.offer(9, task=fake.add_blob(weaker.model_dump_json().encode()))
    clock.at += 1e4
    assert "offered a separation of 1 before, and 0 now" in step(home, fake, clock)[1][0]
    assert len(reports(fake)) == 1


def test_a_task_that_was_declined_is_not_asked_for_again_at_once(home, fake):
    clock = Clock()
    fake.offer(0)
    step(home, fake, clock)
    clock.at += 1e4
    with Running(home, fake, clock) as device:
        fake.offer(1)
        device.agent.step()
        device.agent.step()
    assert [check.busy_with for check in fake.check_ins[-2:]] == [(), (fake.prepared.name,)]
    # A round too near the one it took is not even offered by a server that hears of it.
    assert [check.was_in for check in fake.check_ins] == [{}, {fake.prepared.name: 0}, {}]


def test_a_check_in_speaks_of_no_more_tasks_than_a_server_reads(home, fake):
    def known(number):
        return TaskMemory(
            name="t",
            min_separation=0,
            max_participation=9,
            timer_s=0.0,
            seen_at=number,
            sent=tuple(Sent(round_id=f"{number:016x}{each:016x}", round=2**31 - 1 - number) for each in range(2)),
            rests_until=1e12 if number % 2 else 0.0,
        )

    with Running(home, fake, Clock()) as device:
        home = device.agent.home
        home._known = home.memory.model_copy(update={"tasks": {f"{n:064x}": known(n) for n in range(40)}})
        device.agent.step()
    (said,) = fake.check_ins
    assert len(said.busy_with) == 20
    assert list(said.was_in) == [f"{n:064x}" for n in range(38, 14, -2)]
    assert len(said.sent) == messages.MOST_ASKED
    assert len(said.model_dump_json()) <= messages.MOST_JSON_BYTES


@pytest.mark.parametrize("conditions", [{"charging": False}, {"idle": False}, {"unmetered": False}])
def test_a_device_in_use_does_not_check_in(home, fake, conditions):
    (home / "conditions.json").write_text(json.dumps(conditions))
    fake.offer()
    wait, _ = step(home, fake)
    assert wait > 10
    assert fake.check_ins == []


def test_a_device_that_is_taken_into_use_while_it_works_sends_nothing(home, fake):
    fake.offer()

    def after(request):
        if "/blobs/" in request.url.path:
            (home / "conditions.json").write_text('{"idle": false}')

    fake.after = after
    assert "no longer idle" in step(home, fake)[1][0]
    assert reports(fake) == []
    assert memory(home, fake).taken == 0


# Kills, at each point where one matters.


def kill_at(fake, which, moment):
    """The device's process ends before or after the server sees a request to this path."""

    def kill(request):
        if which in request.url.path:
            raise Killed

    setattr(fake, moment, kill)


def heal(fake):
    fake.before = fake.after = lambda request: None


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("which", ["/check-in", "/blobs/"])
def test_killed_before_anything_was_sent_the_device_takes_the_next_round(home, fake, which, moment):
    fake.offer(0)
    kill_at(fake, which, moment)
    with pytest.raises(Killed):
        step(home, fake)
    heal(fake)
    fake.offers.clear()
    fake.offer(1)
    step(home, fake)
    assert list(fake.reports) == [f"{1:032x}"]
    assert memory(home, fake).taken == 1


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_while_it_reports_a_device_sends_the_same_bytes_again(home, fake, moment):
    offer, clock, seen = fake.offer(0), Clock(), []

    def kill(request):
        if request.url.path.endswith("/report"):
            seen.append(request.content)
            raise Killed

    setattr(fake, moment, kill)
    with pytest.raises(Killed):
        step(home, fake, clock)
    heal(fake)
    fake.offer(0, round_id="f" * 32)  # another try at the same round
    _, said = step(home, fake, clock)
    assert fake.reports[offer.round_id][-1] == seen[0]
    assert list(fake.reports) == [offer.round_id]
    assert "timer of 100 s" in said[0]
    assert memory(home, fake).taken == 1


def test_killed_for_longer_than_the_round_lasts_it_drops_the_report(home, fake):
    fake.offer(0)
    kill_at(fake, "/report", "before")
    clock = Clock()
    with pytest.raises(Killed):
        step(home, fake, clock)
    heal(fake)
    clock.at += 601.0
    step(home, fake, clock)
    assert fake.reports == {}
    assert not (home / "report.bin").exists()
    assert memory(home, fake).taken == 1  # whether it arrived is only the server's word


def test_killed_between_writing_a_report_and_taking_the_round_it_sends_nothing(home, fake, monkeypatch):
    fake.offer(0)
    kept = Home.keep_report

    def kill(self, report):
        kept(self, report)
        raise Killed

    monkeypatch.setattr(Home, "keep_report", kill)
    with pytest.raises(Killed):
        step(home, fake)
    monkeypatch.undo()
    assert (home / "report.bin").exists()
    step(home, fake)
    assert fake.reports == {}
    assert not (home / "report.bin").exists()
    assert memory(home, fake).taken == 0


def test_the_round_is_taken_on_disk_before_the_first_byte_leaves(home, fake):
    fake.offer(0)
    found = []

    def look(request):
        if request.url.path.endswith("/report"):
            found.append(json.loads((home / "state.json").read_text()))

    fake.before = look
    step(home, fake)
    (state,) = found
    assert [each["round_id"] for each in state["tasks"][fake.prepared.name]["sent"]] == [f"{0:032x}"]
    assert state["pending"]["round_id"] == f"{0:032x}"


@pytest.mark.parametrize("lost", ["on the way there", "on the way back"])
def test_a_network_that_fails_makes_it_repeat_the_same_bytes(home, fake, lost):
    offer, clock, seen = fake.offer(0), Clock(), []

    def fail(request):
        if request.url.path.endswith("/report"):
            seen.append(request.content)
            if len(seen) < 4:
                raise httpx.ReadError("lost")

    setattr(fake, "before" if lost == "on the way there" else "after", fail)
    _, said = step(home, fake, clock)
    assert said == ["Took part in round 0 of small."]
    assert len(set(seen)) == 1
    assert set(fake.reports[offer.round_id]) == set(seen)
    assert len(clock.slept) == 3


def test_a_refused_report_still_counts_and_is_not_sent_again(home, fake):
    fake.offer(0)
    fake.before = lambda request: refused(410, "Over.") if request.url.path.endswith("/report") else None
    clock = Clock()
    assert "410: Over." in step(home, fake, clock)[1][0]
    heal(fake)
    step(home, fake, clock)
    assert fake.reports == {}
    assert memory(home, fake).taken == 1


def test_a_server_that_is_away_is_asked_again_ever_later(home, fake):
    def away(request):
        raise httpx.ConnectError("away")

    fake.before = away
    with Running(home, fake, Clock()) as device:
        waits = [device.agent.step() for _ in range(12)]
    assert waits[0] < 2
    assert 30 <= waits[-1] <= 90


def test_a_server_that_does_not_know_the_device_ends_it(home, fake):
    fake.devices.clear()
    with pytest.raises(Refusal, match="401"):
        step(home, fake)


# Servers that lie.


@pytest.mark.parametrize("which", ["task", "plan", "vocabulary", "checkpoint"])
def test_a_download_with_another_hash_is_refused(home, fake, which):
    task = fake.prepared.task
    names = {
        "task": fake.prepared.name,
        "plan": task.plan,
        "vocabulary": task.vocabulary,
        "checkpoint": fake.checkpoint,
    }
    fake.offer()
    fake.blobs[names[which]] += b"\0"
    assert "SHA-256" in step(home, fake)[1][0]
    assert reports(fake) == []
    assert which == "task" or memory(home, fake).taken == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_shapes": ((3,),)}, "a checkpoint"),
        ({"update_shapes": ((3,),)}, "the task's shapes"),
        ({"steps": 4}, "the task's shapes"),
        ({"steps": 1 << 40}, "at most"),
        ({"model_shapes": ((1 << 20, 1 << 20),)}, "at most"),
        ({"model_shapes": ((-1, 3),)}, "at most"),
        ({"vocabulary": "0" * 64}, "SHA-256"),
    ],
)
def test_a_task_that_does_not_fit_its_parts_is_refused(home, fake, changes, message):
    fake.blobs["0" * 64] = b"other words"
    other = fake.prepared.task.model_copy(update=changes)
    fake.offer(task=fake.add_blob(other.model_dump_json().encode()))
    assert message in step(home, fake)[1][0]
    assert reports(fake) == []


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format": 2}'])
def test_a_task_that_is_none_is_refused(home, fake, content):
    fake.offer(task=fake.add_blob(content))
    assert "task description is not valid" in step(home, fake)[1][0]


@pytest.mark.parametrize(
    "changes",
    [{"example_cap": 0.0}, {"example_cap": -1e-9}, {"example_cap": nan}, {"timer_s": inf}],
    ids=["no cap at all", "a weight below zero", "no number", "a rest that no memory can hold"],
)
def test_terms_that_a_device_cannot_keep_are_no_task(home, fake, changes):
    terms = json.loads(fake.prepared.task_bytes) | changes
    fake.offer(task=fake.add_blob(json.dumps(terms).encode()))
    assert "task description is not valid" in step(home, fake)[1][0]
    assert reports(fake) == []


def test_an_update_that_is_not_finite_is_sent_as_nothing(home, fake):
    """Whether a device is in a round must not depend on what its user wrote."""
    shapes = fake.prepared.task.model_shapes
    huge = packed_leaves([np.full(shape, 3e38, np.float32) for shape in shapes])
    offer = fake.offer(checkpoint=fake.add_blob(huge))
    step(home, fake)
    weight, within, update = unpack_report(*reports(fake), offer.round_id, fake.prepared.task.dimension)
    assert (weight, within, np.abs(update).max()) == (0, 0, 0)
    assert memory(home, fake).taken == 1


def test_an_upload_is_not_sent_where_others_could_read_it(home, fake):
    fake.offer(upload_to="http://fleet.test")
    assert "https" in step(home, fake)[1][0]
    assert reports(fake) == []


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (200, b'{"assignment": 3}', "answer to the check-in is not valid"),
        (200, b"<html>" * 2000, "longer than 4096 bytes"),
        (502, b"<html>" * 2000, "answered 502"),
    ],
)
def test_an_answer_that_is_none_is_no_reason_to_stop(home, fake, status, content, message):
    fake.before = lambda request: httpx.Response(status, content=content)
    wait, said = step(home, fake)
    assert wait > 0
    assert message in said[0]


def test_a_server_cannot_send_a_device_away_for_good(home, fake):
    content = messages.CheckInAnswer(assignment=None, come_back_s=1e12).model_dump_json()
    fake.before = lambda request: httpx.Response(200, content=content)
    assert step(home, fake)[0] <= 86_400


def test_copies_are_deleted_when_their_task_is_over(home, fake):
    clock, task = Clock(), fake.prepared.task
    parts = {fake.prepared.name, task.plan, task.vocabulary}

    def copies():
        return {path.name for path in (home / "blobs").iterdir()}

    fake.offer(0)
    step(home, fake, clock)
    assert copies() == parts | {fake.checkpoint}
    step(home, fake, clock)
    assert copies() == parts  # a checkpoint is of one round
    for round in (2, 4):
        clock.at += 100.0
        fake.offer(round)
        step(home, fake, clock)
    step(home, fake, clock)
    assert copies() == set()  # it will never take part again


def test_copies_are_deleted_when_a_task_is_not_offered_any_more(home, fake):
    clock = Clock()
    fake.offer(0)
    step(home, fake, clock)
    clock.at += 31 * 86_400.0
    step(home, fake, clock)
    assert list((home / "blobs").iterdir()) == []
    assert memory(home, fake).taken == 1  # what it did it does not forget


def test_a_second_round_downloads_the_checkpoint_only(home, fake):
    clock = Clock()
    fake.offer(0)
    step(home, fake, clock)
    clock.at += 100.0
    model = setup().start.model
    moved = task_compiler.checkpoint_bytes(dataclasses.replace(model, embedding=model.embedding + np.float32(1)))
    fake.offer(2, checkpoint=fake.add_blob(moved))
    before = len(fake.requests)
    step(home, fake, clock)
    assert sum("/blobs/" in request for request in fake.requests[before:]) == 1
    assert len(reports(fake)) == 2
