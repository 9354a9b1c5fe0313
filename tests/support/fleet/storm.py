"""A run under a storm: processes are killed, the database restarts, and devices are silent, lie and drop out."""

from __future__ import annotations

import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from tacit.errors import FleetError, ProtocolError
from tacit.fleet.device.memory import Memory
from tacit.fleet.rounds.secure_aggregation import STAGES
from tacit.fleet.wire.messages import CHECK_IN, Assignment, CheckInAnswer, CheckInRequest
from tacit.fleet.wire.reports import pack_report
from tacit.privacy.record.ledger import read_ledger
from tacit.recipe.training import Recipe
from tests.support.fleet.crowd import fleet_recipe
from tests.support.fleet.phones import Part, Phone, Phones
from tests.support.fleet.postgres import PostgresServer
from tests.support.fleet.processes import ROLES, Fleet


@dataclass(frozen=True)
class Storm:
    """What happens during a run. A tenth of the devices is always silent, and a tenth always lies."""

    rounds: int
    kills: int  # of processes, each role in turn
    restarts: int  # of the database
    secagg: bool
    devices: int = 60
    goal: int = 16
    dropout: float = 0.3
    stage_s: float = 5.0  # the devices are one thread: on a slow machine they need longer
    seed: int = 1

    def recipe(self) -> Recipe:
        """A run of so many rounds, with one round between two participations of a device."""
        plan: dict[str, Any] = {
            "population": self.devices,
            "cohort": self.goal,
            "min_separation": 1,
            "max_participation": -(-self.rounds // 2),
        }
        if self.secagg:
            plan["secagg"] = {"bits": 24}
        fleet = {"over_selection": 2.0, "deadline_s": 30.0, "replace_s": 4.0, "selection_s": 3.0}
        return fleet_recipe(
            data={"users": self.devices},
            privacy=plan,
            run={"rounds": self.rounds, "evaluate_every": self.rounds},
            fleet={
                **fleet,
                "stage_s": self.stage_s,
                "dropout": self.dropout,
                "corruption": 0.1,
                "most_lost": max(8, self.kills),
            },
        )


class StormPhones(Phones):
    """Devices with a real device's memory and with habits."""

    def __init__(self, engine: Engine, storm: Storm) -> None:
        super().__init__(engine, storm.devices)
        self._storm, self._draw = storm, random.Random(storm.seed)
        tenth = max(1, storm.devices // 10)
        numbers = [phone.number for phone in self.all]
        self.silent, self.liars = set(numbers[:tenth]), set(numbers[tenth : 2 * tenth])
        self._memory: defaultdict[int, Memory] = defaultdict(Memory)
        self._ends: dict[int, tuple[str, float]] = {}  # the try a device does nothing in, and until when
        self.sent = 0  # messages that devices have tried to send, whatever became of them
        self.counts: Counter[str] = Counter()

    def check_in(self, phone: Phone) -> Assignment | None:
        for _ in range(2):
            memory = self._memory[phone.number]
            request = CheckInRequest(
                busy_with=tuple(memory.busy_with(time.time())), was_in=dict(memory.was_in()), sent=memory.asked()
            )
            address = self._selector()
            if address is None:
                return None
            body = request.model_dump_json().encode()
            answer = self._client.post(
                address + CHECK_IN, content=body, headers=phone.person.headers("POST", CHECK_IN, body)
            )
            if answer.status_code != 200:
                return None
            found = CheckInAnswer.model_validate_json(answer.content)
            self._memory[phone.number] = memory.without(found.uncounted)
            if found.assignment is not None or not found.uncounted:
                return found.assignment
        return None

    def _visit(self, phone: Phone, limit: Any) -> None:
        if phone.part is not None:
            self._go_on(phone, phone.part)
            return
        if time.monotonic() < phone.back_at:
            return
        phone.back_at = time.monotonic() + 0.3
        place = self.check_in(phone)
        if place is None or self._ends.get(phone.number, ("",))[0] == place.round_id:
            return
        drops = phone.number in self.silent or self._draw.random() < self._storm.dropout
        if self._storm.secagg:
            phone.part = Part(place)
            phone.stages = 0 if phone.number in self.silent else self._draw.randrange(5) if drops else 5
        elif drops:
            self._ends[phone.number] = (place.round_id, 0.0)
        elif self._counted(phone, place):
            norm = 5.0 if phone.number in self.liars else 1.0
            body = pack_report(place.round_id, 1.0, 0, norm * self._vector(phone, place))
            self.sent += 1
            self.counts[f"report {self.send(phone, place, body).status_code}"] += 1

    def _done(self) -> int:
        return self.sent

    def _go_on(self, phone: Phone, part: Part) -> None:
        """One stage further; a device that drops out is back when the round must be over."""
        if part.said < phone.stages:
            if part.said == STAGES.index("mask") and not getattr(part, "counted", False):
                if not self._counted(phone, part.place):
                    phone.part = None
                    return
                part.counted = True  # type: ignore[attr-defined]
            try:
                self._speak(phone, part, None)
            except (FleetError, ProtocolError):  # the device leaves the round
                phone.part = None
            return
        if part.said < len(STAGES):
            phone.part = None
            self._ends[phone.number] = (part.place.round_id, 0.0)

    def _secagg(self, phone: Phone, part: Part, method: str, what: str, body: bytes = b"") -> bytes | None:
        self.sent += method == "POST"
        return super()._secagg(phone, part, method, what, body)

    def _message(self, phone: Phone, part: Part, stage: str, heard: bytes) -> tuple[bytes, Any]:
        if stage == "reveal" and phone.number in self.liars:
            self.counts["lies"] += 1
            part.state = replace(part.state, shares={other: os.urandom(64) for other in part.state.shares})
        return super()._message(phone, part, stage, heard)

    def _counted(self, phone: Phone, place: Assignment) -> bool:
        """Count the round in the device's memory; False if the device refuses it."""
        now, task = time.time(), self._task(place)
        memory = self._memory[phone.number].offered(place.task, task, now)
        try:
            memory.require_free(place, now)
        except FleetError as error:
            self.counts[f"refused: {error.sentence[:40]}"] += 1
            self._ends[phone.number] = (place.round_id, 0.0)
            return False
        self._memory[phone.number] = memory.taking_part(place, now, None)
        return True


@dataclass(frozen=True)
class Ridden:
    """A storm that is over: the fleet, and how often processes were killed and the database restarted before the run ended."""

    fleet: Fleet
    kills: int
    restarts: int


def ride_out(storm: Storm, folder: Path, url: str, postgres: PostgresServer, *, say: Callable[[str], None]) -> Ridden:
    """Run until the run is over: the coordinator has ended and the ledger is closed. `say` hears about each kill.

    AssertionError, with the process's last lines, if a process ended that was not killed.
    """
    draw, killed, restarted = random.Random(storm.seed), 0, 0
    # When to kill depends on progress, not on the clock: on how many rounds are committed, and how far the next one is. The
    # last kill comes before half of the last round's messages are sent, so no run ends before all kills are made.
    kills = [*sorted(draw.uniform(0, storm.rounds - 0.5) for _ in range(storm.kills)), float("inf")]
    with Fleet(folder, url, storm.recipe(), devices=0) as fleet:
        phones, began = StormPhones(fleet.engine, storm), time.monotonic()
        progress = _Progress(fleet, phones, storm)
        try:
            while True:
                phones.go(lambda at=kills[killed]: bool(fleet.dead()) or progress.rounds() >= at)
                if fleet.dead() and _is_over(fleet):
                    break
                role = ROLES[killed % len(ROLES)]
                fleet.kill(role)
                fleet.replace(role)
                killed += 1
                if restarted < storm.restarts and killed * storm.restarts >= storm.kills * (restarted + 1):
                    postgres.stop("immediate")
                    postgres.start()
                    restarted += 1
                say(
                    f"{time.monotonic() - began:6.0f} s: {killed} kills, {restarted} restarts, "
                    f"{fleet.committed()} of {storm.rounds} rounds"
                )
        finally:
            phones.close()
        say(f"{time.monotonic() - began:6.0f} s in all; devices: {dict(phones.counts)}")
    return Ridden(fleet, killed, restarted)


class _Progress:
    """How many rounds are committed, and the share of the messages of the next round that devices have tried to send.

    A message counts before it is sent: what the server has taken, and its answer was lost, counts too.
    """

    def __init__(self, fleet: Fleet, phones: StormPhones, storm: Storm) -> None:
        self._fleet, self._phones = fleet, phones
        # About so many messages make a round; it never takes fewer than half of that.
        self._a_round = 0.9 * storm.goal * (len(STAGES) if storm.secagg else 1)
        self._committed, self._begun_at, self._seen = 0, 0, -1

    def rounds(self) -> float:
        sent = self._phones.sent
        if sent != self._seen:
            self._seen, committed = sent, self._fleet.committed()
            if committed > self._committed:
                self._committed, self._begun_at = committed, sent - 1
        return self._committed + min(1.0, (sent - self._begun_at) / self._a_round)


def _is_over(fleet: Fleet) -> bool:
    """Whether the run is over: the coordinator has ended with code 0 and closed the ledger, and all others are running."""
    path = fleet.run / "ledger.jsonl"
    closed = read_ledger(path).closed if path.exists() else None
    dead = fleet.dead()
    assert dead == {"coordinator": 0}, f"Processes ended that nobody killed: {dead}.\n{fleet.last_lines(dead)}"
    assert closed is not None, f"The coordinator ended with the ledger open.\n{fleet.last_lines(dead)}"
    return True
