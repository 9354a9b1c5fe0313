"""Made-up devices that speak HTTP with real server processes, each no further than a test lets it."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
from sqlalchemy import Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from tacit.fleet.database import schema
from tacit.fleet.device.clipping import Contribution
from tacit.fleet.device.secure_aggregation import integers_of
from tacit.fleet.rounds.secure_aggregation import STAGES
from tacit.fleet.wire.messages import CHECK_IN, ROUNDS, Assignment, CheckInAnswer, CheckInRequest
from tacit.fleet.wire.reports import pack_report
from tacit.fleet.wire.task import DeviceTask, SessionTerms
from tacit.secagg import device
from tests.support.fleet.crowd import vector_of
from tests.support.fleet.people import Person, enrolled

REPORT = "report"
# (stage, count): so many may say it, and nobody anything later.
Limit = tuple[str, int]
# Much longer than anything that is waited for takes, on a machine that others use, too.
_PATIENCE_S = 900.0
# A device that got no place asks again so much later, and one whose next message has to wait for others.
_REST_S, _POLL_S = 0.2, 0.1


@dataclass
class Part:
    """A device's part in a round of secure aggregation, so far."""

    place: Assignment
    state: Any = None
    said: int = 0  # stages
    asks_at: float = 0.0


@dataclass
class Phone:
    """One device. It has no timer and asks for a place as often as it is let.

    In secure aggregation it falls silent, for good, once it has said `stages` things in a round.
    """

    person: Person
    part: Part | None = None
    stages: int = len(STAGES)
    back_at: float = 0.0
    holds_place: bool = False  # it was given one, and its report was not taken yet

    @property
    def number(self) -> int:
        return self.person.number


class Phones:
    """Devices that take part while a test waits for something (`go`); between two waits they are silent."""

    def __init__(self, engine: Engine, count: int) -> None:
        self._engine = engine
        self._client = httpx.Client(timeout=30, trust_env=False)
        self._tasks: dict[str, DeviceTask] = {}
        self._said: Counter[str] = Counter()
        self._free = 0
        self.all = [Phone(enrolled(engine)) for _ in range(count)]

    def close(self) -> None:
        self._client.close()

    def go(
        self,
        until: Callable[[], bool],
        *,
        limit: Limit | None = None,
        among: list[Phone] | None = None,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """Check in and take part, `among` these or all, as far as the limit allows, until something has happened."""
        self._said.clear()
        began = time.monotonic()
        while not until():
            assert time.monotonic() - began < patience_s, "what was waited for did not happen"
            self._free = self._free_places()
            for phone in self.all if among is None else among:
                done = self._done()
                with suppress(httpx.HTTPError, SQLAlchemyError):  # a process or the database is away: another time
                    self._visit(phone, limit)
                if self._done() > done and until():
                    return
            time.sleep(0.02)

    def said(self, stage: str) -> int:
        """How often the server has taken a message of this stage since the last wait began."""
        return self._said[stage]

    def check_in(self, phone: Phone) -> Assignment | None:
        """Ask any selector for a place."""
        address = self._selector()
        if address is None:
            return None
        body = CheckInRequest().model_dump_json().encode()
        headers = phone.person.headers("POST", CHECK_IN, body)
        answer = self._client.post(address + CHECK_IN, content=body, headers=headers)
        place = CheckInAnswer.model_validate_json(answer.content).assignment if answer.status_code == 200 else None
        phone.holds_place = place is not None
        return place

    def report_of(self, phone: Phone, place: Assignment) -> bytes:
        """What this device sends in a round without secure aggregation."""
        return pack_report(place.round_id, 1.0, 0, self._vector(phone, place))

    def send(self, phone: Phone, place: Assignment, body: bytes) -> httpx.Response:
        """Upload it where the server said."""
        path = f"{ROUNDS}/{place.round_id}/report"
        headers = phone.person.headers("PUT", path, body)
        return self._client.put(place.upload_to + path, content=body, headers=headers)

    def _done(self) -> int:
        """What rises when `until` may have changed: how much the server has taken."""
        return self._said.total()

    def _visit(self, phone: Phone, limit: Limit | None) -> None:
        if phone.part is not None:
            self._speak(phone, phone.part, limit)
            return
        if time.monotonic() < phone.back_at or (self._free <= 0 and not phone.holds_place):
            return
        held, place = phone.holds_place, self.check_in(phone)
        if place is None:
            phone.back_at = time.monotonic() + _REST_S
            return
        self._free -= not held
        if self._task(place).secagg is not None:
            phone.part, phone.holds_place = Part(place), False
        elif self._may(REPORT, limit) and self.send(phone, place, self.report_of(phone, place)).status_code == 200:
            self._said[REPORT] += 1
            phone.holds_place = False

    def _speak(self, phone: Phone, part: Part, limit: Limit | None) -> None:
        """The next message, if what it answers has come; a device that is refused leaves the round."""
        if part.said == phone.stages:
            return
        stage = STAGES[part.said]
        if not self._may(stage, limit) or time.monotonic() < part.asks_at:
            return
        heard = self._secagg(phone, part, "GET", "session" if part.said == 0 else STAGES[part.said - 1])
        if heard is None:
            part.asks_at = time.monotonic() + _POLL_S
            return
        message, part.state = self._message(phone, part, stage, heard)
        if self._secagg(phone, part, "POST", stage, message) is None:
            phone.part = None
            return
        self._said[stage] += 1
        part.said += 1
        if part.said == len(STAGES):
            phone.part = None

    def _secagg(self, phone: Phone, part: Part, method: str, what: str, body: bytes = b"") -> bytes | None:
        path = f"{ROUNDS}/{part.place.round_id}/secagg/{what}"
        while True:
            headers = phone.person.headers(method, path, body)
            answer = self._client.request(method, part.place.upload_to + path, content=body or None, headers=headers)
            if answer.status_code != 429:
                break
            time.sleep(0.2)  # these devices ask more often than the server likes
        if answer.status_code in (403, 404, 410):
            phone.part = None
        return answer.content if answer.status_code == 200 else None

    def _message(self, phone: Phone, part: Part, stage: str, heard: bytes) -> tuple[bytes, Any]:
        private, was = phone.person.private, part.state
        match stage:
            case "advertise":
                terms = SessionTerms.model_validate_json(heard)
                return device.advertise(terms.session(), terms.index, identity=private, entropy=os.urandom)
            case "share":
                return device.share(was, heard, vouched=lambda *_: True, entropy=os.urandom)
            case "mask":
                terms_of = self._task(part.place).secagg
                assert terms_of is not None
                vector = self._vector(phone, part.place).astype(np.float64)
                return device.mask(was, heard, integers_of(Contribution(vector, 1.0, 0), terms_of, part.place))
            case "agree":
                return device.agree(was, heard)
            case _:
                return device.reveal(was, heard)

    def _may(self, stage: str, limit: Limit | None) -> bool:
        if limit is None:
            return True
        last, count = limit
        if stage == last:
            return self._said[stage] < count
        return last in STAGES and STAGES.index(stage) < STAGES.index(last)

    def _vector(self, phone: Phone, place: Assignment) -> Any:
        return vector_of(phone.number, place.round, self._task(place).dimension, 0.9 * place.clip_norm)

    def _task(self, place: Assignment) -> DeviceTask:
        if place.task not in self._tasks:
            query = select(schema.tasks.c.description).where(schema.tasks.c.task == place.task)
            with self._engine.connect() as connection:
                self._tasks[place.task] = DeviceTask.model_validate_json(connection.execute(query).scalar_one())
        return self._tasks[place.task]

    def _free_places(self) -> int:
        """How many places are free. Where there is none, asking costs the machine time and changes nothing."""
        query = select(func.sum(schema.rounds.c.places - schema.rounds.c.selected)).where(
            schema.rounds.c.state == "open"
        )
        with suppress(SQLAlchemyError), self._engine.connect() as connection:
            return connection.execute(query).scalar() or 0
        return 0

    def _selector(self) -> str | None:
        query = select(schema.processes.c.address).where(
            schema.processes.c.role == "selector", schema.processes.c.seen_at > 0
        )
        with self._engine.connect() as connection:
            return connection.execute(query).scalars().first()
