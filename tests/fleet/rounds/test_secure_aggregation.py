"""The stages of secure aggregation, driven by messages and by time, with devices that drop out or lie."""

from __future__ import annotations

import dataclasses
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.errors import FleetError, ProtocolError
from tacit.fleet.database.round_table import ReportResult
from tacit.fleet.device.policy import OwnerPolicy
from tacit.fleet.device.secure_aggregation import require_safe
from tacit.fleet.rounds.fleet_context import places_of
from tacit.fleet.rounds.secure_aggregation import SecureAggregationRound, SecureRoundTerms, open_session
from tacit.fleet.rounds.secure_size import fewest_devices, require_possible, size_for, trusting
from tacit.fleet.server import serving
from tacit.fleet.server.serving import ServeSettings
from tacit.fleet.wire.messages import Received
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.task import SecAggTerms, SessionTerms
from tacit.recipe.sections import FleetSection
from tacit.secagg import device, keys
from tests.support.fleet.crowd import fleet_recipe
from tests.support.fleet.device_task import task

TERMS = SecureRoundTerms(goal=4, dimension=5, bits=12, stage_s=10.0, dropout=0.4, corruption=0.1)
NUMBERS = [10, 20, 30, 40, 50, 60]  # as the database knows them


class People:
    """Devices that speak the protocol, and the round they are in."""

    def __init__(self, terms: SecureRoundTerms = TERMS, numbers: list[int] = NUMBERS) -> None:
        self.goal = terms.goal
        self.identities = {number: os.urandom(32) for number in numbers}
        self.values = {number: np.full(terms.dimension, number, np.uint32) for number in numbers}
        self.states: dict[int, Any] = {}
        self.clock, self.taken = 0.0, list[int]()
        self.round = SecureAggregationRound(
            open_session(len(numbers), terms, os.urandom(32)),
            terms,
            numbers,
            [keys.identity_public(identity) for identity in self.identities.values()],
            self._take,
            clock=lambda: self.clock,
        )

    def _take(self, number: int, digest: str) -> tuple[ReportResult, Received]:
        if len(self.taken) == self.goal:
            return ReportResult.OVER, Received()
        self.taken.append(number)
        return ReportResult.COUNTED, Received(receipt=f"{number}: {digest}")

    def message(self, number: int, stage: str) -> bytes:
        """What this device says in a stage, after hearing what the server has for it."""
        said = None
        if stage == "advertise":
            terms = SessionTerms.model_validate_json(self.round.fetch(number, "session") or b"")
            said, state = device.advertise(
                self.round.session, terms.index, identity=self.identities[number], entropy=os.urandom
            )
        else:
            before = {"share": "advertise", "mask": "share", "agree": "mask", "reveal": "agree"}[stage]
            heard, was = self.round.fetch(number, before), self.states[number]
            assert heard is not None
            said, state = {
                "share": lambda: device.share(was, heard, vouched=lambda *_: True, entropy=os.urandom),
                "mask": lambda: device.mask(was, heard, self.values[number]),
                "agree": lambda: device.agree(was, heard),
                "reveal": lambda: device.reveal(was, heard),
            }[stage]()
        self.states[number] = state
        return said

    def speak(self, stage: str, numbers: list[int]) -> None:
        for number in numbers:
            body = self.message(number, stage)
            assert len(body) <= self.round.most_bytes(stage)
            self.round.post(number, stage, body)

    def until_masked(self, lost: int = 0) -> None:
        """Every stage up to the goal's last vector; the last `lost` devices fall silent after they sent their shares."""
        self.speak("advertise", NUMBERS)
        self.speak("share", NUMBERS)
        self.speak("mask", NUMBERS[: len(NUMBERS) - lost])


@pytest.mark.parametrize("dropout", [0.4, 0.0])
def test_the_sum_is_of_the_included_devices_and_exactly_the_goal(dropout: float) -> None:
    """Also if nobody was expected to be lost: those who are slower than the goal's last always are."""
    people = People(TERMS.model_copy(update={"dropout": dropout}))
    people.until_masked(lost=2)
    assert people.round.progress().stage == "waiting"
    assert people.round.included() == [10, 20, 30, 40]
    people.round.proceed()
    people.speak("agree", [10, 20, 30, 40])
    people.speak("reveal", [10, 20, 30, 40])
    assert people.round.progress().stage == "done"
    assert people.round.total().tolist() == [100] * 5


def test_a_vector_beyond_the_goal_is_refused_and_not_in_the_sum() -> None:
    people = People()
    people.until_masked(lost=2)
    late = people.message(50, "mask")
    with pytest.raises(Refusal) as caught:
        people.round.post(50, "mask", late)
    assert caught.value.status == 410
    assert people.taken == [10, 20, 30, 40]
    people.round.proceed()
    people.speak("agree", [10, 20, 30, 40])
    people.speak("reveal", [10, 20, 30, 40])
    assert people.round.total().tolist() == [100] * 5


def test_no_device_learns_the_included_set_before_the_run_has_written_it() -> None:
    people = People()
    people.until_masked(lost=2)
    people.clock = 1e6  # no time makes it go on by itself
    assert [people.round.fetch(number, "mask") for number in NUMBERS[:4]] == [None] * 4
    assert people.round.progress().stage == "waiting"
    with pytest.raises(FleetError, match="to be 'done'"):
        people.round.total()
    people.round.proceed()
    assert all(people.round.fetch(number, "mask") for number in NUMBERS[:4])
    # A coordinator that goes on with the round says so again: it is the same set, and the same sum.
    people.round.proceed()
    assert people.round.included() == NUMBERS[:4]
    people.speak("agree", NUMBERS[:4])
    people.speak("reveal", NUMBERS[:4])
    people.round.proceed()
    assert people.round.included() == NUMBERS[:4]
    assert people.round.total().tolist() == people.round.total().tolist() == [100] * 5


LARGE = SecureRoundTerms(goal=14, dimension=5, bits=12, stage_s=10.0, dropout=0.3, corruption=0.1)


def revealed(people: People, numbers: list[int], liars: list[int]) -> None:
    """The last stage; liars reveal random shares."""
    for number in numbers:
        if number in liars:
            kept = people.states[number]
            false = {other: os.urandom(64) for other in kept.shares}
            people.states[number] = dataclasses.replace(kept, shares=false)
        people.speak("reveal", [number])


@pytest.mark.parametrize("lies", [0, 2, 6])
def test_dropouts_after_masking_and_false_shares_together(lies: int) -> None:
    """18 chosen for a goal of 14; four drop out after masking, and of those that stay some lie. Both are made room for."""
    numbers = list(range(100, 118))
    people = People(LARGE, numbers)
    for stage in ("advertise", "share"):
        people.speak(stage, numbers)
    people.speak("mask", numbers[:14])
    people.round.proceed()
    people.speak("agree", numbers[:10])
    people.clock += LARGE.stage_s
    revealed(people, numbers[:10], numbers[:lies])
    people.clock += LARGE.stage_s
    assert people.round.progress().stage == "done"
    if lies > 2:
        with pytest.raises(ProtocolError):
            people.round.total()
        found = people.round.progress()
        assert found.stage == "failed"
        assert "shares are wrong" in str(found.reason)
        assert set(people.round.conduct().liars) <= set(numbers[:lies])
        return
    expected = sum(numbers[:14]) % (1 << LARGE.bits)
    assert people.round.total().tolist() == [expected] * 5
    conduct = people.round.conduct()
    assert conduct.liars == tuple(numbers[:lies])
    assert conduct.missed == dict.fromkeys(numbers[10:14], "agree")


@pytest.mark.parametrize("lies", range(1, 8))
def test_more_liars_than_were_assumed_make_nobody_else_a_liar(lies: int) -> None:
    """Two of 18 are assumed, and by chance a round has more: an honest device has a false share from each of them."""
    numbers = list(range(100, 118))
    people = People(LARGE, numbers)
    for stage in ("advertise", "share"):
        people.speak(stage, numbers)
    people.speak("mask", numbers[:14])
    people.round.proceed()
    people.speak("agree", numbers[:14])
    revealed(people, numbers[:14], numbers[:lies])
    if lies <= 5:  # half of the spare shares
        assert people.round.total().tolist() == [sum(numbers[:14]) % (1 << LARGE.bits)] * 5
        assert people.round.conduct().liars == tuple(numbers[:lies])
        return
    with pytest.raises(ProtocolError):
        people.round.total()
    assert set(people.round.conduct().liars) <= set(numbers[:lies])


def test_fifty_eight_chosen_for_forty_four_and_thirty_percent_gone() -> None:
    """Over-selection and drop-outs both count: 13 of 44 may go after masking, though 14 were too many from the start."""
    found = size_for(58, 44, dropout=0.3, corruption=0.1)
    there = 44 - 13 - 1  # of a device's neighbours that are sure to reveal
    assert found.neighbours == 57
    assert found.threshold <= there - 6  # and 6 of them may lie: each costs one more to correct it
    assert found.threshold > 6  # the corrupt cannot rebuild a secret


def test_a_goal_with_which_no_round_can_end_is_refused() -> None:
    section = FleetSection()
    assert [fewest_devices(goal, 40, dropout=0.3, corruption=0.1) for goal in (1, 2, 3, 4)] == [None, None, 3, 4]
    with pytest.raises(FleetError, match="No round of secure aggregation can end with a goal of 2") as raised:
        require_possible(2, 14, section)
    assert raised.value.hint == "Set privacy.cohort to 3 or more, or lower fleet.dropout."


@pytest.mark.parametrize(
    ("better", "fleet"),
    [("fleet.dropout = 0.27", {"dropout": 0.27}), ("fleet.over_selection = 1.22", {"over_selection": 1.22})],
)
def test_whoever_starts_rounds_that_trust_the_server_is_told_what_would_not(better: str, fleet: dict[str, Any]) -> None:
    """The shipped recipe with secure aggregation: devices with the default policy would refuse it, and nobody would know."""
    said = trusting(50, 65, FleetSection())
    assert said is not None
    assert "devices with the default policy refuse them" in said
    assert better in said
    section = FleetSection(**fleet)
    assert trusting(50, places_of(50, section), section) is None
    is_accepted(section)
    with pytest.raises(ProtocolError, match="to a malicious server"):
        is_accepted(FleetSection())


def is_accepted(section: FleetSection) -> None:
    """ProtocolError unless a device with the default policy takes part in a full round with a goal of 50."""
    terms = SecureRoundTerms(
        goal=50, dimension=5, bits=12, stage_s=1.0, dropout=section.dropout, corruption=section.corruption
    )
    encoding = SecAggTerms(
        dimension=5,
        scale=8.0,
        element_clip=9,
        bits=12,
        block=2,
        rounding_failure=1e-9,
        local_variance=0,
        weighted=False,
    )
    offered = open_session(places_of(50, section), terms, os.urandom(32))
    require_safe(offered, task(secagg=encoding, report_goal=50), 5, OwnerPolicy().secagg)


def test_a_server_says_at_its_start_that_devices_will_refuse_its_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for the run, where its operator looks."""
    said = list[str]()
    monkeypatch.setattr(serving, "log", lambda event, **values: said.append(f"{event}: {values.get('sentence')}"))
    monkeypatch.setattr("tacit.fleet.rounds.coordinator.Coordinator.run", lambda self: None)
    for dropout in (0.3, 0.1):
        recipe = fleet_recipe(
            privacy={"population": 60, "cohort": 20, "secagg": {"bits": 24}}, fleet={"dropout": dropout}
        )
        settings = ServeSettings(out=tmp_path, recipe=recipe)
        heart: Any = None
        assert serving._coordinate(settings, heart, heart, bytes(32), None, threading.Event()) is None
    (warning,) = said
    assert warning.startswith(
        "warning: Rounds of 30 devices with a report goal of 20 and fleet.dropout = 0.3 hold only"
    )


def test_a_device_that_is_not_counted_in_the_database_is_not_in_the_sum() -> None:
    people = People()
    people.speak("advertise", NUMBERS)
    people.speak("share", NUMBERS)
    people.taken = [0] * TERMS.goal  # the round was closed meanwhile
    with pytest.raises(Refusal) as caught:
        people.speak("mask", [10])
    assert caught.value.status == 410
    assert people.round.progress().stage == "mask"
    assert not people.round._state.witnesses


def test_a_stage_ends_when_its_time_is_up_and_the_round_continues_with_the_rest() -> None:
    people = People()
    people.speak("advertise", NUMBERS[:5])
    assert people.round.fetch(10, "advertise") is None
    people.clock = TERMS.stage_s
    assert people.round.progress().stage == "share"
    with pytest.raises(Refusal) as caught:
        people.round.fetch(60, "advertise")
    assert caught.value.status == 410
    with pytest.raises(Refusal):
        people.speak("advertise", [60])
    people.speak("share", NUMBERS[:5])
    people.speak("mask", NUMBERS[:4])
    people.round.proceed()
    people.speak("agree", NUMBERS[:4])
    people.speak("reveal", NUMBERS[:3])
    assert people.round.progress().stage == "reveal"
    people.clock += TERMS.stage_s
    assert people.round.progress().stage == "done"
    assert people.round.total().tolist() == [100] * 5


@pytest.mark.parametrize("stage", ["advertise", "share", "mask"])
def test_too_few_in_a_stage_and_the_round_has_failed(stage: str) -> None:
    people = People()
    for each in ("advertise", "share", "mask"):
        people.speak(each, NUMBERS[:3] if each == stage else NUMBERS)
        if each == stage:
            break
    people.clock = TERMS.stage_s
    found = people.round.progress()
    assert (found.stage, bool(found.reason)) == ("failed", True)
    for attempt in (lambda: people.round.fetch(10, stage), lambda: people.round.post(10, stage, b"x")):
        with pytest.raises(Refusal) as caught:
            attempt()
        assert caught.value.status == 410
    with pytest.raises(FleetError):
        people.round.included()


def test_a_repeated_message_counts_once_and_a_different_one_is_refused() -> None:
    people = People()
    body = people.message(10, "advertise")
    assert not people.round.post(10, "advertise", body).repeated
    assert people.round.post(10, "advertise", body).repeated
    with pytest.raises(Refusal) as caught:
        people.round.post(10, "advertise", people.message(10, "advertise"))
    assert caught.value.status == 409
    assert len(people.round._state.advertisements) == 1


def test_a_message_of_a_later_stage_may_come_again() -> None:
    people = People()
    with pytest.raises(Refusal) as caught:
        people.round.post(10, "mask", b"too early")
    assert (caught.value.status, caught.value.again) == (409, True)


def test_no_device_can_send_for_another() -> None:
    people = People()
    body = people.message(10, "advertise")
    for number in (20, 99):  # another place, and none at all
        with pytest.raises(Refusal):
            people.round.post(number, "advertise", body)
    assert not people.round._state.advertisements
    with pytest.raises(Refusal) as caught:
        people.round.fetch(99, "session")
    assert caught.value.status == 403


def test_keys_of_an_identity_that_never_enrolled_are_refused() -> None:
    people = People()
    people.identities[10] = os.urandom(32)
    with pytest.raises(Refusal, match="identity that the device enrolled with"):
        people.speak("advertise", [10])
    assert not people.round._state.advertisements
