"""What whoever accepts devices' reports promises the interface in front of them; the fake of the interface's tests too."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tacit.errors import FleetError
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database
from tacit.fleet.rounds.aggregator import Aggregator
from tacit.fleet.server.api import Reports
from tacit.fleet.wire.messages import Received
from tacit.fleet.wire.refusals import Refusal
from tests.support.fleet import fake_reports
from tests.support.fleet.fake_reports import FakeReports
from tests.support.fleet.people import a_process, a_round, a_task, enrolled_many
from tests.support.fleet.reports import place, report
from tests.support.implementations import implementations


@dataclass(frozen=True)
class Case:
    """A round in which the device has a place, one that is over, one where another process has it, and a report."""

    reports: Reports
    device: int
    here: str
    over: str
    elsewhere: str
    body: bytes

    def send(self) -> Received:
        """Hand the report in, as whoever has checked the digest that the device signed."""
        return self.reports.report(self.here, self.device, self.body, hashlib.sha256(self.body).hexdigest())


def real(engine: Engine) -> Case:
    (device,) = enrolled_many(engine, 1)
    task, other = a_task(engine), a_process(engine)
    rounds = [a_round(engine, task, number) for number in (0, 2)]
    over = a_round(engine, task, 1, state="committed")
    aggregator = Aggregator(engine, a_process(engine))
    place(engine, rounds[0], [device], aggregator.process)
    place(engine, rounds[1], [device], other)
    return Case(aggregator, device, rounds[0], over, rounds[1], report(rounds[0], device))


def fake(engine: Engine) -> Case:
    body = bytes(fake_reports.REPORT_BYTES)
    return Case(FakeReports(), 1, fake_reports.HERE, fake_reports.OVER, fake_reports.ELSEWHERE, body)


IMPLEMENTATIONS: dict[str, Callable[[Engine], Case]] = {"Aggregator": real, "FakeReports": fake}


@pytest.mark.parametrize("make", IMPLEMENTATIONS.values(), ids=IMPLEMENTATIONS)
class TestReports:
    """One suite for both."""

    @pytest.fixture
    def case(self, make: Callable[[Engine], Case], tmp_path: Path) -> Iterator[Case]:
        engine = open_database(f"sqlite:///{tmp_path}/fleet.db")
        migrate(engine)
        yield make(engine)
        engine.dispose()

    def test_a_report_has_exactly_the_stated_length(self, case: Case) -> None:
        assert case.reports.most_bytes(case.here, case.device, None) == len(case.body)

    def test_a_report_counts_once_and_may_be_sent_again(self, case: Case) -> None:
        """A device that lost the answer sends the same report again, and is told that it counted."""
        assert not case.send().repeated
        assert case.send().repeated

    def test_nobody_is_let_into_a_round_that_is_over_or_in_another_process(self, case: Case) -> None:
        for round_id, status in ((case.over, 410), (case.elsewhere, 403)):
            for ask in (
                lambda round_id=round_id: case.reports.most_bytes(round_id, case.device, None),
                lambda round_id=round_id: case.reports.fetch(round_id, case.device, "session"),
            ):
                with pytest.raises(Refusal) as refused:
                    ask()
                assert refused.value.status == status

    def test_a_refusal_is_an_error_of_the_fleet_with_one_sentence(self, case: Case) -> None:
        with pytest.raises(FleetError) as refused:
            case.reports.most_bytes(case.over, case.device, None)
        assert refused.value.sentence.endswith(".")

    def test_a_refused_call_has_changed_nothing(self, case: Case) -> None:
        for round_id in (case.over, case.elsewhere):
            with pytest.raises(Refusal):
                case.reports.most_bytes(round_id, case.device, None)
        assert not case.send().repeated


def test_no_implementation_is_forgotten() -> None:
    assert implementations(Reports) == {"Aggregator"}
