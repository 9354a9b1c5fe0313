"""Receives devices' messages in one process: reports, which are added up as they arrive, or the stages of secure aggregation.

This is the users' side of the gate. A report is checked, counted in the database, and then added to the round's running sum. A
single update is in memory only that long; a sum, until the round is over. Counting and adding
happen under one lock, so a sum that is fetched contains every report that was counted. A repeated report counts once: the
same bytes are acknowledged, other bytes refused.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy import Engine, select

from tacit.errors import FleetError
from tacit.fleet.database import round_table, task_table
from tacit.fleet.database.round_table import Place, ReportResult, RoundRow
from tacit.fleet.database.schema import OPEN, SETTLED
from tacit.fleet.database.schema import devices as devices_table
from tacit.fleet.database.transactions import read_only
from tacit.fleet.rounds.notary import Notary
from tacit.fleet.rounds.partial_sums import PartialSum, pack_sum
from tacit.fleet.rounds.secure_aggregation import (
    FAILED,
    SESSION,
    SecureAggregationRound,
    SecureRoundTerms,
    open_session,
)
from tacit.fleet.wire.blobs import sha256_of
from tacit.fleet.wire.messages import Received
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.reports import report_bytes, unpack_report
from tacit.fleet.wire.server_key import ServerKey
from tacit.fleet.wire.task import DeviceTask, session_id_of


class PeerQuestion(StrEnum):
    """What a coordinator can ask a process that adds up (`Aggregator.ask`)."""

    SUM = "sum"  # a settled round's partial sum
    BEGIN = "begin"  # start secure aggregation; the content is SecureRoundTerms
    PROGRESS = "progress"  # of secure aggregation
    INCLUDED = "included"  # the devices whose vectors are in the masked sum
    PROCEED = "proceed"  # the intent is durable: let the devices remove the masks
    TOTAL = "total"  # the unmasked sum
    CONDUCT = "conduct"  # of secure aggregation: which devices did something wrong
    HOLDS = "holds"  # whether this process still has its part of a settled round


@dataclass
class _RunningSum:
    """A round's running sum, and the SHA-256 of each report in it."""

    round: RoundRow
    task: DeviceTask
    total: PartialSum
    digests: dict[int, str] = field(default_factory=dict)
    receipts: dict[int, Received] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Aggregator:
    """Receives what devices send (`api.Reports`) and answers the coordinator. It may be called from many threads."""

    def __init__(self, engine: Engine, process: str, key: ServerKey | None = None) -> None:
        """`key` signs the receipts; without one there are none."""
        self.process = process
        self._engine, self._notary = engine, Notary(engine, key)
        self._lock = threading.Lock()
        self._sums: dict[str, _RunningSum] = {}
        self._secure: dict[str, SecureAggregationRound] = {}
        self._tasks: dict[str, DeviceTask] = {}

    # Called for devices' requests.

    def most_bytes(self, round_id: str, device: int, stage: str | None) -> int:
        """The longest body that this device may send now; Refusal if it has no place in this round in this process."""
        place = self._place(round_id, device)
        if stage is None:
            return report_bytes(self._task(place.round.task).dimension)
        return self._secure_round(round_id).most_bytes(stage)

    def report(self, round_id: str, device: int, body: bytes | bytearray, digest: str | None = None) -> Received:
        """Count a report once and add it to the round's sum; Refusal, or FleetError if it is not a valid report.

        `digest` is the SHA-256 of the body, if the caller has computed it.
        """
        running = self._running_sum(round_id)
        weight, within, update = unpack_report(body, round_id, running.task.dimension)
        if (within == 0) != (running.round.threshold is None):
            raise FleetError("The report's bit must be 1 or -1 in a round with a threshold, and 0 in any other round.")
        # All checks happen before the report counts.
        clipped = running.total.clipped(update)
        digest = digest or sha256_of(body)
        with running.lock:
            if (before := running.digests.get(device)) is not None:
                if before != digest:
                    raise Refusal("The device has already sent a different report in this round.", status=409)
                return running.receipts[device].model_copy(update={"repeated": True})
            received, leaf = self._notary.receipt(running.round, device, digest)
            result = round_table.take_report(self._engine, round_id, device, self.process, leaf)
            if result is ReportResult.COUNTED:
                running.total.add(device, clipped, weight, within)
                running.digests[device], running.receipts[device] = digest, received
                return received
        if result is ReportResult.OVER:
            raise _over()
        self._place(round_id, device)  # raises if the device has no place here
        raise Refusal("The device has already reported in this round.", status=409)

    def post(self, round_id: str, device: int, stage: str, body: bytes) -> Received:
        """Accept a device's message of a stage of secure aggregation."""
        return self._secure_round(round_id).post(device, stage, body)

    def fetch(self, round_id: str, device: int, stage: str) -> bytes | None:
        """The server's message to a device after a stage; None if it is not ready yet."""
        found = self._secure.get(round_id)
        if found is not None:
            return found.fetch(device, stage)
        place = self._place(round_id, device)
        if stage != SESSION or place.round.aggregator is None:
            raise Refusal("Secure aggregation has not begun in this round.", status=404)
        return None

    # Called for the coordinator.

    def ask(self, round_id: str, question: str, content: bytes = b"") -> bytes:
        """Answer the coordinator, which the caller has authenticated; FleetError if the round is not here or not that far."""
        match question:
            case PeerQuestion.SUM:
                return self._give_sum(round_id)
            case PeerQuestion.BEGIN:
                self._begin(round_id, SecureRoundTerms.model_validate_json(content))
                return b""
            case PeerQuestion.PROGRESS:
                return self._secure_round(round_id).progress().model_dump_json().encode()
            case PeerQuestion.INCLUDED:
                return json.dumps(self._secure_round(round_id).included()).encode()
            case PeerQuestion.PROCEED:
                self._secure_round(round_id).proceed()
                return b""
            case PeerQuestion.TOTAL:
                return self._secure_round(round_id).total().astype("<u4", copy=False).tobytes()
            case PeerQuestion.CONDUCT:
                return self._secure_round(round_id).conduct().model_dump_json().encode()
            case PeerQuestion.HOLDS:
                return self._holds(round_id)
        raise FleetError(f"Expected one of {', '.join(PeerQuestion)}, got {question!r}.")

    def sweep(self) -> None:
        """Delete the sums of rounds that are over."""
        with self._lock:
            here = {*self._sums, *self._secure}
        over = round_table.closed(self._engine, here) if here else set()
        with self._lock:
            for round_id in over:
                self._sums.pop(round_id, None)
                self._secure.pop(round_id, None)

    def _give_sum(self, round_id: str) -> bytes:
        """The round's partial sum. It is kept until the round is over: another coordinator may go on with the round."""
        found = round_table.find(self._engine, round_id)
        if found is None or found.state != SETTLED:
            raise FleetError("The round is not settled.")
        with self._lock:
            running = self._sums.get(round_id)
        if running is None:
            raise FleetError("This process has no reports of the round.")
        with running.lock:
            return pack_sum(running.total)

    def _holds(self, round_id: str) -> bytes:
        with self._lock:
            secure, plain = self._secure.get(round_id), round_id in self._sums
        if plain or (secure is not None and secure.progress().stage != FAILED):
            return b""
        raise FleetError("This process has no part of the round.")

    def _begin(self, round_id: str, terms: SecureRoundTerms) -> None:
        """Start secure aggregation in a round whose selection has ended."""
        chosen = [device for _, device in round_table.assigned(self._engine, round_id)]
        row = round_table.find(self._engine, round_id)
        assert row is not None  # the coordinator has just closed its selection

        def count(device: int, digest: str) -> tuple[ReportResult, Received]:
            received, leaf = self._notary.receipt(row, device, digest)
            return round_table.take_report(self._engine, round_id, device, self.process, leaf), received

        with read_only(self._engine) as connection:
            query = select(devices_table.c.device, devices_table.c.identity).where(devices_table.c.device.in_(chosen))
            identities = {row.device: row.identity for row in connection.execute(query)}
        opened = SecureAggregationRound(
            open_session(len(chosen), terms, session_id_of(row)),
            terms,
            chosen,
            [identities[device] for device in chosen],
            count,
        )
        with self._lock:
            self._secure.setdefault(round_id, opened)  # the question may come twice

    def _place(self, round_id: str, device: int) -> Place:
        """The device's place; Refusal if there is no such round, it is over, or the device has no place in it here."""
        round, place = round_table.place_of(self._engine, round_id, device)
        if round is None:
            raise Refusal("No such round.", status=404)
        if round.state != OPEN and not (round.state == SETTLED and round_id in self._secure):
            raise _over()
        if place is None or place.aggregator != self.process:
            raise Refusal("The device has no place in this round at this address.", status=403)
        return place

    def _running_sum(self, round_id: str) -> _RunningSum:
        with self._lock:
            if (running := self._sums.get(round_id)) is not None:
                return running
        round = round_table.find(self._engine, round_id)
        if round is None:
            raise Refusal("No such round.", status=404)
        if round.state != OPEN:
            raise _over()
        task = self._task(round.task)
        if task.secagg is not None:
            raise Refusal("This round uses secure aggregation and accepts no plain reports.", status=404)
        with self._lock:
            return self._sums.setdefault(round_id, _RunningSum(round, task, _empty(round, task)))

    def _secure_round(self, round_id: str) -> SecureAggregationRound:
        with self._lock:
            if (found := self._secure.get(round_id)) is not None:
                return found
        raise Refusal("Secure aggregation has not begun in this round.", status=404, again=True)

    def _task(self, task: str) -> DeviceTask:
        with self._lock:
            if (known := self._tasks.get(task)) is not None:
                return known
        found = DeviceTask.model_validate_json(task_table.description_of(self._engine, task))
        with self._lock:
            return self._tasks.setdefault(task, found)


def _empty(round: RoundRow, task: DeviceTask) -> PartialSum:
    return PartialSum(round.clip_norm, task.update_shapes, task.clipping == "per_layer")


def _over() -> Refusal:
    return Refusal("The round is over.", status=410)
