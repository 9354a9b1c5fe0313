"""A round with devices, from the moment it is opened until it is settled who is in its sum.

    publish the model ─► open a row ─► wait for the goal or the deadline ─► settle ─► take the sums ─► write down who took part

A round that comes to nothing (too few reports, a process gone with its part of the sum) is abandoned, with the reason, before
anything of it was released: it costs nobody anything, and the same round is opened again under a new name. With secure
aggregation the sum is still masked when the cohort is settled; `MaskedSum.unmasked` asks for it once the intent is durable.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tacit.errors import FleetError, PrivacyError, ProtocolError
from tacit.fleet.rounds import aggregator as questions
from tacit.fleet.rounds import lifecycle as rounds
from tacit.fleet.rounds.attendance import Attendance
from tacit.fleet.rounds.lifecycle import Round
from tacit.fleet.rounds.sealed import unpack_sum
from tacit.fleet.rounds.secure_rounds import DONE, FAILED, STAGES, WAITING, Progress, Terms
from tacit.fleet.rounds.selection import could_come
from tacit.fleet.rounds.sums import PartialSum
from tacit.fleet.server import clock, leases
from tacit.fleet.server.heartbeat import Heartbeat
from tacit.fleet.server.internal import Peer, RemotePeer
from tacit.fleet.server.leases import Lease
from tacit.fleet.wire.messages import Task
from tacit.learning.secure_sums import SecureSums
from tacit.privacy.gate.sums import ClipThresholds
from tacit.privacy.noise.randomness import Randomness
from tacit.recipe.sections import FleetSection
from tacit.runs.journal import StopRequested

POLL_S = 0.1
_RETRY_S = 1.0
# A round that is lost after its intent costs everybody in it, and devices can make rounds fail on purpose. A run may lose fewer
# than this, or than a twentieth of its rounds if that is more.
MOST_LOST = 8
_SEED_BYTES = 32


class RoundLost(FleetError):
    """A round failed after its intent: it counts as released, and runs again."""


class _Short(FleetError):
    """A round came to nothing before anything of it was released."""


class Log(Protocol):
    """Where events go: a name and numbers, never anything about a device."""

    def __call__(self, event: str, **fields: Any) -> None: ...


@dataclass(frozen=True)
class Peers:
    """The processes that add up; `local` is the one that is this process, where it does."""

    engine: Engine
    secret: bytes = field(repr=False)
    local: questions.Aggregator | None

    def alive(self, *, leaving: bool = True) -> dict[str, Peer]:
        """Those that were seen lately, by their names, with or without those that take on nothing new."""
        roles = (*leases.AGGREGATES, leases.LEAVING) if leaving else leases.AGGREGATES
        found = leases.alive(self.engine, roles, now=clock.now(self.engine))
        return {process: self._peer(process, address) for process, address in found.items()}

    def _peer(self, process: str, address: str) -> Peer:
        if self.local is not None and process == self.local.process:
            return self.local
        return RemotePeer(self.secret, process, address)


@dataclass(frozen=True)
class RoundContext:
    """What all rounds of a run have in common."""

    engine: Engine
    lease: Lease
    heartbeat: Heartbeat
    peers: Peers
    name: str  # the task's, the SHA-256 of its description
    task: Task
    section: FleetSection
    secure: SecureSums | None
    enough_room: Callable[[int], bool]
    content: Callable[[Any], bytes]  # what devices download in a round that begins with this model
    stopping: threading.Event
    log: Log

    def pause(self, seconds: float) -> None:
        """Wait; StopRequested or LeaseLost if there is nothing more to wait for."""
        if self.stopping.wait(seconds):
            raise StopRequested
        self.heartbeat.require()


def places_of(context: RoundContext) -> int:
    """How many devices may be chosen for a round."""
    return math.ceil(context.task.report_goal * context.section.over_selection)


@dataclass(frozen=True)
class DeviceCohort:
    """Who took part in one attempt at one round, and where their sum is: here, or still masked with a peer."""

    round: int
    attempt: int
    users: NDArray[np.int64] = field(repr=False)
    noise_key: Any = field(repr=False)
    round_id: str
    plain: PartialSum | None
    masked: MaskedSum | None = None


@dataclass(frozen=True)
class MaskedSum:
    """A sum under masks in another process; `signs_seed` names its public rotation."""

    peer: Peer
    round_id: str
    signs_seed: bytes

    def unmasked(self) -> NDArray[np.uint32]:
        """Have the devices take their masks off; RoundLost if they do not."""
        try:
            self.peer.ask(self.round_id, questions.PROCEED)
            while (found := _progress(self.peer, self.round_id)).stage != DONE:
                if found.stage == FAILED:
                    raise FleetError(found.reason or "")
                time.sleep(POLL_S)
            return np.frombuffer(self.peer.ask(self.round_id, questions.TOTAL), "<u4")
        except (FleetError, ProtocolError) as error:
            raise RoundLost(f"Secure aggregation failed after the intent: {error.sentence}") from error


class DeviceRounds:
    """The rounds of a run, one after another: each is committed when the loop asks for the next."""

    def __init__(
        self,
        context: RoundContext,
        randomness: Randomness,
        start: int,
        stop: int,
        attempts: Mapping[int, int],
        attendance: Attendance,
    ) -> None:
        self._ground, self._randomness, self._rounds, self._attempts = context, randomness, range(start, stop), attempts
        self._attendance = attendance
        self._under_way: Invitation | None = None

    def __iter__(self) -> Iterator[Invitation]:
        context = self._ground
        # The ledger has an intent for every round of the checkpoint, and one for every round that was lost.
        lost, most = sum(self._attempts.values()) - self._rounds.start, max(MOST_LOST, self._rounds.stop // 20)
        if lost >= most:
            raise PrivacyError(
                f"Expected fewer than {most} rounds of a run to be lost after their intent, each of which costs privacy, got "
                f"{lost}: this run goes on no more."
            )
        for round in self._rounds:
            attempt = self._attempts.get(round, 0)
            key = self._randomness.noise_key(round=round, attempt=attempt)
            self._under_way = invited = Invitation(context, round, attempt, key, self._attendance)
            yield invited
            opened = invited.opened
            assert opened is not None  # the loop settles what it is given
            self._attendance.add(round, invited.devices)
            rounds.commit(context.engine, context.lease, opened.round_id)
            rounds.drop_checkpoint(context.engine, opened.checkpoint)
            context.log("round committed", task=context.name, round=round, attempt=attempt)
            self._under_way = None

    def close(self) -> None:
        """Give up the round under way, if there is one."""
        if self._under_way is not None:
            settled = "it was lost after its cohort was settled: if the ledger has its intent, it counts"
            reason = settled if self._under_way.devices else "the coordinator stopped"
            with suppress(SQLAlchemyError, leases.LeaseLost):  # whoever coordinates next gives it up
                self._under_way.give_up(reason)


class Invitation:
    """A round that devices are invited to."""

    def __init__(self, context: RoundContext, round: int, attempt: int, noise_key: Any, attendance: Attendance) -> None:
        self.round, self.attempt, self.noise_key = round, attempt, noise_key
        self.opened: Round | None = None
        self.devices: list[int] = []
        self._ground, self._attendance = context, attendance

    def settle(self, broadcast: Any, norms: ClipThresholds) -> DeviceCohort:
        """The cohort as it came: exactly the goal. Tries until there is one."""
        context, content = self._ground, self._ground.content(broadcast)
        while True:
            while not context.enough_room(len(content)):
                context.log("waiting for room on the disk", round=self.round)
                context.pause(_RETRY_S)
            try:
                self.opened = self._open(content, norms)
                return (
                    self._gathered(self.opened) if context.secure is None else self._masked(self.opened, context.secure)
                )
            except _Short as error:
                self.give_up(error.sentence)
                context.pause(_RETRY_S)

    def give_up(self, reason: str) -> None:
        """Abandon the round as it stands."""
        context = self._ground
        if self.opened is not None and rounds.abandon(context.engine, context.lease, self.opened.round_id, reason):
            context.log("round abandoned", task=context.name, round=self.round, attempt=self.attempt, reason=reason)

    def _open(self, content: bytes, norms: ClipThresholds) -> Round:
        context, goal = self._ground, self._ground.task.report_goal
        chosen = None
        if context.secure is not None:
            there = sorted(context.peers.alive(leaving=False))
            if not there:
                raise _Short("Expected a process that adds up, found none.")
            chosen = there[self.round % len(there)]
        return rounds.open_round(
            context.engine,
            context.lease,
            task=context.name,
            round=self.round,
            attempt=self.attempt,
            checkpoint=rounds.put_blob(context.engine, content),
            clip_norm=norms.clip,
            threshold=norms.threshold,
            signs_seed=None if context.secure is None else os.urandom(_SEED_BYTES).hex(),
            aggregator=chosen,
            goal=goal,
            places=places_of(context),
            seconds=context.section.deadline_s
            + (0.0 if context.secure is None else len(STAGES) * context.section.stage_s),
        )

    def _gathered(self, opened: Round) -> DeviceCohort:
        """Wait for plain reports and take their sums from those who hold them."""
        context = self._ground
        for now in self._watched(opened):
            if now.reported >= now.goal:
                break
            if clock.now(context.engine) >= now.deadline:
                raise _Short(f"{now.reported} reports came in time, and {now.goal} were wanted.{self._too_few(now)}")
        self._settle(opened)
        total = PartialSum(opened.clip_norm, context.task.update_shapes, context.task.clipping == "per_layer")
        for peer, counted in self._holders(opened):
            try:
                part = unpack_sum(peer.ask(opened.round_id, questions.SUM), total)
            except FleetError as error:
                raise _Short(f"A part of the sum is lost: {error.sentence}") from error
            if set(part.devices) != counted or len(part.devices) != len(counted):
                raise _Short("A part of the sum is not of those who were counted.")
            total.merge(part)
        return self._cohort(opened, total.devices, plain=total)

    def _masked(self, opened: Round, secure: SecureSums) -> DeviceCohort:
        """Gather devices, have them mask and add up, and learn whose vectors are in."""
        context, section = self._ground, self._ground.section
        peer = context.peers.alive().get(str(opened.aggregator))
        if peer is None:
            raise _Short("The process that adds up is gone.")
        for now in self._watched(opened):
            waited = clock.now(context.engine) - now.opened_at
            if now.selected >= now.places or (now.selected >= now.goal and waited >= section.selection_s):
                break
            if waited >= section.deadline_s:
                raise _Short(f"{now.selected} devices came in time, and {now.goal} were wanted.{self._too_few(now)}")
        rounds.close_selection(context.engine, context.lease, opened.round_id)
        width = secure.encoding.padded + len(
            secure.sides(ClipThresholds(opened.clip_norm, opened.threshold), weighted=_weighted(context.task))
        )
        terms = Terms(
            goal=opened.goal,
            dimension=width,
            bits=secure.encoding.bits,
            stage_s=section.stage_s,
            dropout=section.dropout,
            corruption=section.corruption,
        )
        try:
            peer.ask(opened.round_id, questions.BEGIN, terms.model_dump_json().encode())
            while (found := _progress(peer, opened.round_id)).stage != WAITING:
                if found.stage == FAILED:
                    raise _Short(f"Secure aggregation failed: {found.reason}.")
                context.pause(POLL_S)
            self._settle(opened)
            included = json.loads(peer.ask(opened.round_id, questions.INCLUDED))
        except (_Short, leases.LeaseLost):
            raise
        except (FleetError, ProtocolError) as error:
            raise _Short(f"Secure aggregation failed: {error.sentence}") from error
        if {str(opened.aggregator): set(included)} != rounds.reported_to(context.engine, opened.round_id):
            raise _Short("The vectors are not of those who were counted.")
        seed = bytes.fromhex(str(opened.signs_seed))
        return self._cohort(opened, included, masked=MaskedSum(peer, opened.round_id, seed))

    def _cohort(
        self,
        opened: Round,
        devices: list[int],
        *,
        plain: PartialSum | None = None,
        masked: MaskedSum | None = None,
    ) -> DeviceCohort:
        context = self._ground
        if len(devices) != opened.goal:
            raise _Short(f"{len(devices)} reports are in the sum, and {opened.goal} were wanted.")
        if not self._attendance.allows(self.round, devices):
            rounds.match_participation(context.engine, context.lease, context.name, self._attendance.recorded())
            raise _Short("A device was too early: the database had forgotten who took part, and was told again.")
        self.devices = devices
        rounds.record_participation(
            context.engine, context.lease, task=context.name, round=self.round, attempt=self.attempt, devices=devices
        )
        users = np.sort(np.asarray(devices, np.int64))
        return DeviceCohort(self.round, self.attempt, users, self.noise_key, opened.round_id, plain, masked)

    def _too_few(self, opened: Round) -> str:
        """What waiting does not mend, if that is so: devices rest for rounds, and no round can end without them."""
        context = self._ground
        able = could_come(context.engine, context.task, context.name, self.round)
        if able >= opened.goal:
            return ""
        return (
            f" About {able} could come at all: the others were in a round too near, or as often as they may. The run goes on "
            "when more devices enrol."
        )

    def _watched(self, opened: Round) -> Iterator[Round]:
        """The round as it stands, again and again; _Short if it, or a process it needs, is gone."""
        beats = 0
        while True:
            found = rounds.find(self._ground.engine, opened.round_id)
            if found is None or found.state != rounds.OPEN:
                raise _Short("The round was closed by somebody else.")
            yield found
            beats += 1
            if beats % max(1, round(leases.RENEW_S / POLL_S)) == 0:
                self._holders(opened)
            self._ground.pause(POLL_S)

    def _settle(self, opened: Round) -> None:
        if not rounds.settle(self._ground.engine, self._ground.lease, opened.round_id):
            raise _Short("The round was closed by somebody else.")

    def _holders(self, opened: Round) -> list[tuple[Peer, set[int]]]:
        """Who holds a part of the sum, and of whom; _Short if one of them is gone."""
        there, counted = self._ground.peers.alive(), rounds.reported_to(self._ground.engine, opened.round_id)
        needed = counted.keys() | ({opened.aggregator} - {None})
        if needed - there.keys():
            raise _Short("A process is gone, and with it its part of the sum.")
        return [(there[process], devices) for process, devices in counted.items()]


def _progress(peer: Peer, round_id: str) -> Progress:
    return Progress.model_validate_json(peer.ask(round_id, questions.PROGRESS))


def _weighted(task: Task) -> bool:
    return task.secagg is not None and task.secagg.weighted


def enough_room_in(*folders: Path) -> Callable[[int], bool]:
    """Whether a checkpoint of a model of so many bytes will fit where the run is, with room to spare.

    A round that cannot be saved would be released in vain, so this is asked before one is opened.
    """

    def enough(size: int) -> bool:
        largest = max((path.stat().st_size for folder in folders for path in folder.iterdir()), default=0)
        status = os.statvfs(folders[0])
        return status.f_bavail * status.f_frsize > 4 * max(size, largest) + (1 << 24)

    return enough
