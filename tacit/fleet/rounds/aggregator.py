"""Rounds in the memory of one process: reports added up as they come, or the stages of secure aggregation.

This is the users' side of the gate. A report is looked at, counted in the database, and then added to the round's running sum;
single updates exist here for as long as that takes, and sums until the coordinator has taken them or the round is over.
Counting and adding happen under one lock, so whoever takes the sum takes all that was counted. A report that is sent again is
counted once: the same bytes are acknowledged, others refused.
"""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field

from sqlalchemy import Engine, select

from tacit.errors import FleetError
from tacit.fleet.rounds import lifecycle as rounds
from tacit.fleet.rounds.lifecycle import OPEN, SETTLED, Place, Round, Taken
from tacit.fleet.rounds.sealed import pack_sum
from tacit.fleet.rounds.secure_rounds import SESSION, SecureRound, Terms, open_session
from tacit.fleet.rounds.sums import PartialSum
from tacit.fleet.server.database import reading
from tacit.fleet.server.schema import devices as devices_table
from tacit.fleet.wire.messages import Received, Task, report_bytes, unpack_report
from tacit.fleet.wire.refusals import Refusal

# What a coordinator can ask of a process (`ask`).
SUM, BEGIN, PROGRESS, INCLUDED, PROCEED, TOTAL = "sum", "begin", "progress", "included", "proceed", "total"


@dataclass
class _Held:
    """A round's running sum, and a digest of each report in it."""

    round: Round
    task: Task
    total: PartialSum
    digests: dict[int, bytes] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Aggregator:
    """Takes what devices send (`api.Reports`) and answers the coordinator. Calls may come from many threads."""

    def __init__(self, engine: Engine, process: str) -> None:
        self.process = process
        self._engine = engine
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._secure: dict[str, SecureRound] = {}
        self._tasks: dict[str, Task] = {}

    # What devices send.

    def most_bytes(self, round_id: str, device: int, stage: str | None) -> int:
        """The longest body this device may send now; Refusal if it has no place in this round in this process."""
        place = self._place(round_id, device)
        if stage is None:
            return report_bytes(self._task(place.round.task).dimension)
        return self._secure_round(round_id).most_bytes(stage)

    def report(self, round_id: str, device: int, body: bytes) -> Received:
        """Count an update once and add it to the round's sum; Refusal, or FleetError if it is no valid report."""
        held = self._round(round_id)
        weight, within, update = unpack_report(body, round_id, held.task.dimension)
        if (within == 0) != (held.round.threshold is None):
            raise FleetError("Expected a bit of 1 or -1 where the round has a threshold, and 0 elsewhere.")
        # Whatever could be wrong with it is found before it counts.
        alone = _empty(held.round, held.task)
        alone.admit(device, update, weight, within)
        digest = hashlib.sha256(body).digest()
        with held.lock:
            if (before := held.digests.get(device)) is not None:
                if before != digest:
                    raise Refusal("Expected the report the device sent before, got another.", status=409)
                return Received(repeated=True)
            taken = rounds.take_report(self._engine, round_id, device, self.process)
            if taken is Taken.COUNTED:
                held.total.merge(alone)
                held.digests[device] = digest
                return Received()
        if taken is Taken.OVER:
            raise _over()
        self._place(round_id, device)  # says what is wrong with its place
        raise Refusal("Expected one report of a device in a round, got another.", status=409)

    def post(self, round_id: str, device: int, stage: str, body: bytes) -> Received:
        """A message of secure aggregation."""
        return self._secure_round(round_id).post(device, stage, body)

    def fetch(self, round_id: str, device: int, stage: str) -> bytes | None:
        """What the round has for a device after a stage; None: not yet."""
        found = self._secure.get(round_id)
        if found is not None:
            return found.fetch(device, stage)
        place = self._place(round_id, device)
        if stage != SESSION or place.round.aggregator is None:
            raise Refusal("Expected a round of secure aggregation that has begun, got another.", status=404)
        return None

    # What the coordinator asks.

    def ask(self, round_id: str, what: str, content: bytes = b"") -> bytes:
        """Answer the coordinator, whom `internal.py` has made sure of; FleetError if the round is not here or not so far."""
        match what:
            case "sum":
                return self._give_sum(round_id)
            case "begin":
                self._begin(round_id, Terms.model_validate_json(content))
                return b""
            case "progress":
                return self._secure_round(round_id).progress().model_dump_json().encode()
            case "included":
                return json.dumps(self._secure_round(round_id).included()).encode()
            case "proceed":
                self._secure_round(round_id).proceed()
                return b""
            case "total":
                total = self._secure_round(round_id).total()
                with self._lock:
                    self._secure.pop(round_id, None)  # it may have been swept away meanwhile
                return total.astype("<u4", copy=False).tobytes()
        raise FleetError(f"Expected a question a coordinator asks, got {what!r}.")

    def sweep(self) -> None:
        """Forget rounds that are over."""
        with self._lock:
            here = {*self._held, *self._secure}
        over = rounds.closed(self._engine, here) if here else set()
        with self._lock:
            for round_id in over:
                self._held.pop(round_id, None)
                self._secure.pop(round_id, None)

    def _give_sum(self, round_id: str) -> bytes:
        """The round's partial sum, once; it is forgotten here."""
        found = rounds.find(self._engine, round_id)
        if found is None or found.state != SETTLED:
            raise FleetError("Expected a settled round, got another.")
        with self._lock:
            held = self._held.pop(round_id, None)
        if held is None:
            raise FleetError("Expected a round that this process has reports of, got another.")
        with held.lock:
            return pack_sum(held.total)

    def _begin(self, round_id: str, terms: Terms) -> None:
        """Open the session of a round whose selection is over."""
        chosen = [device for _, device in rounds.assigned(self._engine, round_id)]
        with reading(self._engine) as connection:
            query = select(devices_table.c.device, devices_table.c.identity).where(devices_table.c.device.in_(chosen))
            identities = {row.device: row.identity for row in connection.execute(query)}
        opened = SecureRound(
            open_session(len(chosen), terms),
            terms,
            chosen,
            [identities[device] for device in chosen],
            lambda device: rounds.take_report(self._engine, round_id, device, self.process),
        )
        with self._lock:
            if round_id in self._secure:
                raise FleetError("Expected a round that has not begun, got one that has.")
            self._secure[round_id] = opened

    # Looking things up.

    def _place(self, round_id: str, device: int) -> Place:
        """The device's place; Refusal if the round is unknown or over, or the device has none here."""
        round, place = rounds.place_of(self._engine, round_id, device)
        if round is None:
            raise Refusal("Expected a round of this server, got another.", status=404)
        if round.state != OPEN and not (round.state == SETTLED and round_id in self._secure):
            raise _over()
        if place is None or place.aggregator != self.process:
            raise Refusal("Expected a device with a place in this round in this process, got another.", status=403)
        return place

    def _round(self, round_id: str) -> _Held:
        with self._lock:
            if (held := self._held.get(round_id)) is not None:
                return held
        round = rounds.find(self._engine, round_id)
        if round is None:
            raise Refusal("Expected a round of this server, got another.", status=404)
        if round.state != OPEN:
            raise _over()
        task = self._task(round.task)
        if task.secagg is not None:
            raise Refusal("Expected the messages of secure aggregation in this round, got a plain report.", status=404)
        with self._lock:
            return self._held.setdefault(round_id, _Held(round, task, _empty(round, task)))

    def _secure_round(self, round_id: str) -> SecureRound:
        with self._lock:
            if (found := self._secure.get(round_id)) is not None:
                return found
        raise Refusal("Expected a round of secure aggregation that has begun, got another.", status=404, again=True)

    def _task(self, task: str) -> Task:
        with self._lock:
            if (known := self._tasks.get(task)) is not None:
                return known
        found = Task.model_validate_json(rounds.description_of(self._engine, task))
        with self._lock:
            return self._tasks.setdefault(task, found)


def _empty(round: Round, task: Task) -> PartialSum:
    return PartialSum(round.clip_norm, task.update_shapes, task.clipping == "per_layer")


def _over() -> Refusal:
    return Refusal("Expected a round under way, got one that is over.", status=410)
