"""The server's public log over its own interface: what it proves, what it does not show, and how a device leaves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from tacit.errors import FleetError
from tacit.fleet.database import device_table, leases, public_log, round_table, schema
from tacit.fleet.device import account, leaving, receipts
from tacit.fleet.device import public_log as following
from tacit.fleet.device.connection import Connection
from tacit.fleet.device.enrolment import enrol
from tacit.fleet.device.home import Home
from tacit.fleet.device.policy import OwnerPolicy
from tacit.fleet.device.terms import PolicyRefusal
from tacit.fleet.rounds import selection
from tacit.fleet.rounds.aggregator import Aggregator
from tacit.fleet.server import enrolment
from tacit.fleet.server.api import create_app
from tacit.fleet.wire.blobs import sha256_of
from tacit.fleet.wire.messages import CheckInRequest
from tacit.fleet.wire.public_log import LEAVE, LeaveRequest, Receipt, TaskEntry, salted
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.server_key import ServerKey
from tacit.fleet.wire.task import DeviceTask
from tacit.secagg.keys import identity_public
from tests.support.fleet.people import NOW, Person, a_process, a_round, a_task
from tests.support.fleet.reports import place, report
from tests.support.fleet.serving import running

KEY = ServerKey(b"\3" * 32)
POLICY = OwnerPolicy.for_trying().model_copy(update={"log": "required"})


@dataclass
class Fleet:
    """A server with a task and an aggregator, and two devices with homes."""

    engine: Engine
    aggregator: Aggregator
    lease: leases.Lease
    task: str
    homes: list[Home]
    connections: dict[Path, Connection] = field(default_factory=dict)

    def connection(self, home: Home) -> Connection:
        return self.connections.setdefault(home.path, Connection(home))

    def log(self, home: Home) -> following.LogMemory:
        """The home's log, followed to its newest head."""
        found = following.followed(self.connection(home), home.memory.log, POLICY)
        home.remember(home.memory.model_copy(update={"log": found}))
        return found

    def described(self) -> DeviceTask:
        with self.engine.connect() as connection:
            return DeviceTask.model_validate_json(connection.execute(select(schema.tasks.c.description)).scalar_one())

    def round(self, number: int, *, abandoned: bool = False) -> str:
        """A round in which both devices report, and which is then over."""
        round_id = a_round(self.engine, self.task, number)
        place(self.engine, round_id, [home.config.device for home in self.homes], self.aggregator.process)
        for home in self.homes:
            body = report(round_id, home.config.device)
            sent = sending(self.task, number, round_id, body)
            account.add(home.account_path, sent)
            answer = self.aggregator.report(round_id, home.config.device, body)
            again = self.aggregator.report(round_id, home.config.device, body)
            assert (again.receipt, again.repeated) == (answer.receipt, True)
            found = receipts.receipt_in(answer.model_dump_json().encode(), sent, self.log(home), home.config.device)
            account.add(home.account_path, account.Receipted(round_id=round_id, receipt=found))
        if abandoned:
            round_table.abandon(self.engine, self.lease, round_id, "because")
        else:
            round_table.settle(self.engine, self.lease, round_id)
            round_table.commit(self.engine, self.lease, round_id, ledger="ab" * 32)
        return round_id

    def check(self, home: Home, now: float = NOW) -> list[account.Contributed]:
        receipts.check_all(self.connection(home), self.log(home), home.account_path, now=now, most=99)
        return account.read(home.account_path)


def sending(task: str, round: int, round_id: str, body: bytes) -> account.Sending:
    return account.Sending(
        at=NOW,
        until=NOW + 60,
        issue=1,
        task=task,
        name="a task",
        run="",
        plan="1" * 64,
        kind="train",
        round=round,
        round_id=round_id,
        clip_norm=1.0,
        report_goal=2,
        noise_multiplier=1.0,
        noise_from="server",
        secure_aggregation=False,
        numbers=3,
        size=len(body),
        body=sha256_of(body),
        rho=None,
    )


@pytest.fixture
def fleet(engine: Engine, tmp_path: Path) -> Iterator[Fleet]:
    """On both databases."""
    text = tmp_path / "typed.txt"
    text.write_text("see you soon\n")
    token = enrolment.make_token(engine, uses=9, expires_at=2e9 * 2)
    task, process = a_task(engine), a_process(engine)
    with engine.begin() as connection:
        row = connection.execute(select(schema.tasks)).one()
        public_log.append(connection, TaskEntry.of(task, DeviceTask.model_validate_json(row.description)))
    aggregator = Aggregator(engine, process, KEY)
    lease = leases.acquire(engine, "run:x", "h" * 32, now=NOW)
    app = create_app(engine, admin_token="0" * 64, reports=aggregator, selects=True, key=KEY)
    with running(app) as address:
        homes = []
        for name in ("ann", "bo"):
            enrol(tmp_path / name, server=address, token=token, data=text)
            homes.append(Home.open(tmp_path / name))
        found = Fleet(engine, aggregator, lease, task, homes)
        yield found
        for each in (*found.connections.values(), *homes):
            each.close()


def test_what_is_in_the_log_is_proven_and_nothing_else(fleet: Fleet) -> None:
    ann, _ = fleet.homes
    log, task = fleet.log(ann), fleet.described()
    assert following.with_task(fleet.connection(ann), log, fleet.task, task).tasks
    with pytest.raises(PolicyRefusal, match="not in the server's public log"):
        following.with_task(fleet.connection(ann), log, "0" * 64, task)
    for number in range(5):
        fleet.round(3 * number, abandoned=number == 2)
    outcomes = [each.checked.outcome for each in fleet.check(ann)]
    assert outcomes == ["committed", "committed", "abandoned", "committed", "committed"]
    assert all(each.checked.counted == 2 for each in account.read(ann.account_path))
    # Another device has the same log, and the same numbers of a later head.
    assert fleet.log(fleet.homes[1]) == ann.memory.log
    assert ann.memory.log.checkpoint.size == 6


def test_the_log_and_its_receipts_show_no_device(fleet: Fleet) -> None:
    fleet.round(0)
    with fleet.engine.connect() as connection:
        entries = "\n".join(connection.execute(select(schema.log_entries.c.entry)).scalars())
        leaves = connection.execute(select(schema.receipts.c.leaf)).scalars().all()
    assert "device" not in entries
    assert len(set(leaves)) == 2
    # The salt depends on the server's secret: whoever has the database alone cannot try the numbers of all devices.
    (mine,), number = account.read(fleet.homes[0].account_path), str(fleet.homes[0].config.device)
    receipt = Receipt.model_validate_json(mine.receipt.text)
    salts = [key.salt("receipt", mine.sent.round_id, number) for key in (KEY, ServerKey(b"\4" * 32))]
    assert receipt.salt == salts[0] != salts[1]
    assert receipt.device == salted(receipt.salt, int(number))


def test_a_round_without_reports_is_not_in_the_log_unless_committed(fleet: Fleet) -> None:
    round_table.abandon(fleet.engine, fleet.lease, a_round(fleet.engine, fleet.task, 0), "because")
    assert fleet.log(fleet.homes[0]).checkpoint.size == 1
    round_id = a_round(fleet.engine, fleet.task, 1)
    round_table.settle(fleet.engine, fleet.lease, round_id)
    round_table.commit(fleet.engine, fleet.lease, round_id)
    assert fleet.log(fleet.homes[0]).checkpoint.size == 2


def test_an_entry_is_written_once(fleet: Fleet) -> None:
    entry = TaskEntry.of(fleet.task, fleet.described())
    with fleet.engine.begin() as connection:
        public_log.append(connection, entry)
    assert fleet.log(fleet.homes[0]).checkpoint.size == 1


def test_a_database_that_was_restored_shows_another_log(fleet: Fleet) -> None:
    ann, _ = fleet.homes
    fleet.round(0)
    fleet.log(ann)
    with fleet.engine.begin() as connection:
        connection.execute(schema.log_entries.delete().where(schema.log_entries.c.number == 1))
        public_log.append(connection, TaskEntry(task="9" * 64, plan="1" * 64, vocabulary="2" * 64))
    app = create_app(fleet.engine, admin_token="0" * 64, reports=None, selects=True, key=KEY)
    with running(app) as address:
        ann.configure(ann.config.model_copy(update={"server": address}))
        fleet.connections.pop(ann.path).close()
        with pytest.raises(PolicyRefusal, match="Two different logs were shown"):
            fleet.log(ann)


@pytest.mark.parametrize("path", ["consistency/3/2", "consistency/0/99", f"entries/{'0' * 64}/1", "entries/zz/1"])
def test_what_the_log_does_not_have_is_refused(fleet: Fleet, path: str) -> None:
    with pytest.raises(Refusal) as refusal:
        fleet.connection(fleet.homes[0]).ask("GET", f"/v1/log/{path}")
    assert refusal.value.status in (404, 422)


def test_strangers_are_shown_nothing(fleet: Fleet) -> None:
    connection = fleet.connection(fleet.homes[0])
    connection._identity = b"\1" * 32
    for method, path in (("GET", "/v1/log"), ("POST", LEAVE)):
        body = LeaveRequest(identity="1" * 64).model_dump_json().encode() if method == "POST" else b""
        with pytest.raises(Refusal) as refusal:
            connection.ask(method, path, body)
        assert refusal.value.status == 401


def test_a_device_that_leaves_is_gone_and_its_rounds_stay_counted(fleet: Fleet, tmp_path: Path) -> None:
    ann, _ = fleet.homes
    fleet.round(0)
    number, identity, engine = ann.config.device, ann.identity, fleet.engine
    participation = {"task": fleet.task, "device": number, "round": 0, "attempt": 0}
    with engine.begin() as connection:
        connection.execute(schema.participations.insert().values(**participation))
    found = leaving.leave(ann, fleet.connection(ann), keep_text=False)
    assert found.confirmed is not None
    assert any("rounds that it took part in (1)" in each for each in found.confirmed.kept)
    with engine.connect() as connection:
        row = connection.execute(select(schema.devices).where(schema.devices.c.device == number)).one()
        kept = connection.execute(select(schema.participations)).one()
        entries = connection.execute(select(schema.log_entries.c.entry)).scalars().all()
    assert found.confirmed.text() in entries
    assert bytes(row.identity) == KEY.pseudonym(identity_public(identity))
    assert (row.last_word, row.seen_at, kept.device) == (None, None, number)
    assert device_table.page(engine, now=NOW, after=number - 1, most=1)[0].state == "left"
    # It gets no place, and no answer.
    a_round(engine, fleet.task, 9)
    answer = selection.check_in(engine, number, CheckInRequest(), now=NOW, draw=random.Random(1))
    assert answer.assignment is None
    assert enrolment.enrolled(engine) == 1
    assert selection.could_come(engine, fleet.described(), fleet.task, 9) == 1


def test_a_device_that_leaves_in_the_middle_of_a_round_is_told_so_and_nothing_new_is_written_down(fleet: Fleet) -> None:
    ann, bo = fleet.homes
    numbers = [home.config.device for home in fleet.homes]
    round_id = a_round(fleet.engine, fleet.task, 0)
    place(fleet.engine, round_id, numbers, fleet.aggregator.process)
    fleet.aggregator.report(round_id, numbers[0], report(round_id, numbers[0]))
    for home, open_round in ((ann, True), (bo, False)):
        found = leaving.leave(home, fleet.connection(home), keep_text=True)
        assert found.confirmed is not None
        assert any("a round that is not over" in each for each in found.confirmed.kept) == open_round
    silent = round_table.Dropped({numbers[1]: round_table.REPORT}, 60.0)
    round_table.abandon(fleet.engine, fleet.lease, round_id, "because", dropped=silent)
    with fleet.engine.connect() as connection:
        rows = connection.execute(select(schema.devices)).all()
    assert [(row.last_word, row.failures, row.rests_until) for row in rows] == [(None, 0, 0.0)] * 2


def test_a_device_that_missed_the_confirmation_gets_the_same_one_again(fleet: Fleet) -> None:
    ann, bo = fleet.homes
    body = LeaveRequest(identity=identity_public(ann.identity).hex()).model_dump_json().encode()
    first = fleet.connection(ann).ask("POST", LEAVE, body)
    assert fleet.connection(ann).ask("POST", LEAVE, body) == first
    with pytest.raises(Refusal):  # and it can do nothing else
        fleet.connection(ann).ask("GET", "/v1/log")
    # Nobody else can leave in its place, or take its number.
    stolen = fleet.connection(bo)
    stolen.device = ann.config.device
    for identity in (ann, bo):
        body = LeaveRequest(identity=identity_public(identity.identity).hex()).model_dump_json().encode()
        with pytest.raises(Refusal):
            stolen.ask("POST", LEAVE, body)


def test_coming_back_with_the_same_key_resets_no_limit(fleet: Fleet) -> None:
    ann, _ = fleet.homes
    number, engine, private = ann.config.device, fleet.engine, ann.identity
    participation = {"task": fleet.task, "device": number, "round": 0, "attempt": 0}
    with engine.begin() as connection:
        connection.execute(schema.participations.insert().values(**participation))
    leaving.leave(ann, fleet.connection(ann), keep_text=True)
    person, token = Person(private), enrolment.make_token(engine, uses=1, expires_at=2e9 * 2)
    assert enrolment.enrol(engine, person.request(token), now=NOW, key=KEY) == number
    with engine.connect() as connection:
        task = fleet.described()
        assert selection.rounds_early(connection, task, fleet.task, number, 1) == task.min_separation
    # Without the same secret, or the same key, it would be somebody else.
    other = Person()
    token = enrolment.make_token(engine, uses=1, expires_at=2e9 * 2)
    assert enrolment.enrol(engine, other.request(token), now=NOW, key=KEY) != number


def test_a_server_without_a_key_has_no_log(engine: Engine, tmp_path: Path) -> None:
    text = tmp_path / "typed.txt"
    text.write_text("see you soon\n")
    token = enrolment.make_token(engine, uses=1, expires_at=2e9 * 2)
    app = create_app(engine, admin_token="0" * 64, reports=None, selects=True)
    with running(app) as address:
        enrol(tmp_path / "home", server=address, token=token, data=text)
        with Home.open(tmp_path / "home") as home:
            connection = Connection(home)
            with pytest.raises(PolicyRefusal, match="this one has none"):
                following.followed(connection, home.memory.log, POLICY)
            with pytest.raises(FleetError):
                leaving.leave(home, connection, keep_text=False)
            assert home.identity
            connection.close()
