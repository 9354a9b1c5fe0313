"""One round with devices: it is opened, devices report until the goal is reached, and it is settled, or abandoned.

    publish the model ─► open the round ─► wait for the goal or the deadline ─► settle ─► fetch the sums ─► record who took part

If too few devices report before the deadline, or a process that holds a part of the sum is gone, the round is abandoned before
anything of it is released. That costs no privacy: the reason is kept, and the same round is opened again under a new name. With
secure aggregation the sum is still masked when the cohort is settled; `MaskedSum.unmasked` fetches it after the intent is
durable.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import FleetError, ProtocolError
from tacit.fleet.database import clock, leases, participation_table, round_table, task_table
from tacit.fleet.database.round_table import RoundRow
from tacit.fleet.database.schema import OPEN
from tacit.fleet.rounds.aggregator import PeerQuestion
from tacit.fleet.rounds.fleet_context import FleetContext, places_of
from tacit.fleet.rounds.partial_sums import PartialSum, unpack_sum
from tacit.fleet.rounds.participation_check import ParticipationCheck
from tacit.fleet.rounds.peers import Peer
from tacit.fleet.rounds.secure_aggregation import DONE, FAILED, STAGES, WAITING, SecureRoundTerms, StageProgress
from tacit.fleet.rounds.selection import could_come
from tacit.fleet.wire.task import DeviceTask
from tacit.learning.secure_sums import SecureSums
from tacit.privacy.gate.sums import ClipThresholds

POLL_S = 0.1
# How long to wait before an abandoned round is opened again.
_RETRY_S = 1.0
_SEED_BYTES = 32


class RoundLost(FleetError):
    """A round failed after its intent: it counts as released, and runs again."""


class _RoundFailed(FleetError):
    """A round failed before anything of it was released; it is abandoned and opened again."""


@dataclass(frozen=True)
class DeviceCohort:
    """The devices that took part in one attempt at a round, and their sum: plain, or still masked in another process."""

    round: int
    attempt: int
    users: NDArray[np.int64] = field(repr=False)
    noise_key: Any = field(repr=False)
    round_id: str
    plain: PartialSum | None
    masked: MaskedSum | None = None


@dataclass(frozen=True)
class MaskedSum:
    """A masked sum in another process; `signs_seed` is the seed of its public rotation."""

    peer: Peer
    round_id: str
    signs_seed: bytes

    def unmasked(self) -> NDArray[np.uint32]:
        """The sum, after the devices have revealed what removes the masks; RoundLost if that fails."""
        try:
            self.peer.ask(self.round_id, PeerQuestion.PROCEED)
            while (found := _progress(self.peer, self.round_id)).stage != DONE:
                if found.stage == FAILED:
                    raise FleetError(found.reason or "")
                time.sleep(POLL_S)
            return np.frombuffer(self.peer.ask(self.round_id, PeerQuestion.TOTAL), "<u4")
        except (FleetError, ProtocolError) as error:
            raise RoundLost(f"Secure aggregation failed after the intent: {error.sentence}") from error


class RoundAttempt:
    """One attempt at one round, for which devices are selected and report. `devices` are those in its settled cohort."""

    def __init__(
        self, context: FleetContext, round: int, attempt: int, noise_key: Any, participation: ParticipationCheck
    ) -> None:
        self.round, self.attempt, self.noise_key = round, attempt, noise_key
        self.opened: RoundRow | None = None
        self.devices: list[int] = []
        self._context, self._participation = context, participation

    def settle(self, broadcast: Any, norms: ClipThresholds) -> DeviceCohort:
        """A cohort of exactly the report goal. Rounds that fail are abandoned and opened again until one succeeds."""
        context, content = self._context, self._context.content(broadcast)
        while True:
            while not context.enough_room(len(content)):
                context.log("waiting for disk space", round=self.round)
                context.pause(_RETRY_S)
            try:
                self.opened = self._open(content, norms)
                return self._plain(self.opened) if context.secure is None else self._masked(self.opened, context.secure)
            except _RoundFailed as error:
                self.abandon(error.sentence)
                context.pause(_RETRY_S)

    def abandon(self, reason: str) -> None:
        """Abandon the round, if it is open or settled, and log the reason."""
        context = self._context
        if self.opened is not None and round_table.abandon(context.engine, context.lease, self.opened.round_id, reason):
            context.log("round abandoned", task=context.name, round=self.round, attempt=self.attempt, reason=reason)

    def _open(self, content: bytes, norms: ClipThresholds) -> RoundRow:
        context, goal = self._context, self._context.task.report_goal
        chosen = None
        if context.secure is not None:
            there = sorted(context.peers.alive(leaving=False))
            if not there:
                raise _RoundFailed("No aggregator process is running.")
            chosen = there[self.round % len(there)]
        return round_table.open_round(
            context.engine,
            context.lease,
            task=context.name,
            round=self.round,
            attempt=self.attempt,
            checkpoint=task_table.put_blob(context.engine, content),
            clip_norm=norms.clip,
            threshold=norms.threshold,
            signs_seed=None if context.secure is None else os.urandom(_SEED_BYTES).hex(),
            aggregator=chosen,
            goal=goal,
            places=places_of(context),
            seconds=context.section.deadline_s
            + (0.0 if context.secure is None else len(STAGES) * context.section.stage_s),
        )

    def _plain(self, opened: RoundRow) -> DeviceCohort:
        """Wait for plain reports, then fetch the partial sums from the processes that have them."""
        context = self._context
        for now in self._watched(opened):
            if now.reported >= now.goal:
                break
            if clock.now(context.engine) >= now.deadline:
                raise _RoundFailed(
                    f"Expected {now.goal} reports before the deadline, got {now.reported}.{self._too_few(now)}"
                )
        self._settle(opened)
        total = PartialSum(opened.clip_norm, context.task.update_shapes, context.task.clipping == "per_layer")
        for peer, counted in self._holders(opened):
            try:
                part = unpack_sum(peer.ask(opened.round_id, PeerQuestion.SUM), total)
            except FleetError as error:
                raise _RoundFailed(f"A partial sum is lost: {error.sentence}") from error
            if set(part.devices) != counted or len(part.devices) != len(counted):
                raise _RoundFailed("A partial sum has other devices than the database counted.")
            total.merge(part)
        return self._cohort(opened, total.devices, plain=total)

    def _masked(self, opened: RoundRow, secure: SecureSums) -> DeviceCohort:
        """Select devices, run secure aggregation up to the masked sum, and fetch which devices are in it."""
        context, section = self._context, self._context.section
        peer = context.peers.alive().get(str(opened.aggregator))
        if peer is None:
            raise _RoundFailed("The round's aggregator process is gone.")
        for now in self._watched(opened):
            waited = clock.now(context.engine) - now.opened_at
            if now.selected >= now.places or (now.selected >= now.goal and waited >= section.selection_s):
                break
            if waited >= section.deadline_s:
                raise _RoundFailed(
                    f"Expected {now.goal} devices before the deadline, got {now.selected}.{self._too_few(now)}"
                )
        round_table.close_selection(context.engine, context.lease, opened.round_id)
        width = secure.encoding.padded + len(
            secure.sides(ClipThresholds(opened.clip_norm, opened.threshold), weighted=_weighted(context.task))
        )
        terms = SecureRoundTerms(
            goal=opened.goal,
            dimension=width,
            bits=secure.encoding.bits,
            stage_s=section.stage_s,
            dropout=section.dropout,
            corruption=section.corruption,
        )
        try:
            peer.ask(opened.round_id, PeerQuestion.BEGIN, terms.model_dump_json().encode())
            while (found := _progress(peer, opened.round_id)).stage != WAITING:
                if found.stage == FAILED:
                    raise _RoundFailed(f"Secure aggregation failed: {found.reason}.")
                context.pause(POLL_S)
            self._settle(opened)
            included = json.loads(peer.ask(opened.round_id, PeerQuestion.INCLUDED))
        except (_RoundFailed, leases.LeaseLost):
            raise
        except (FleetError, ProtocolError) as error:
            raise _RoundFailed(f"Secure aggregation failed: {error.sentence}") from error
        if {str(opened.aggregator): set(included)} != round_table.reported_to(context.engine, opened.round_id):
            raise _RoundFailed("The masked sum has other devices than the database counted.")
        seed = bytes.fromhex(str(opened.signs_seed))
        return self._cohort(opened, included, masked=MaskedSum(peer, opened.round_id, seed))

    def _cohort(
        self,
        opened: RoundRow,
        devices: list[int],
        *,
        plain: PartialSum | None = None,
        masked: MaskedSum | None = None,
    ) -> DeviceCohort:
        context = self._context
        if len(devices) != opened.goal:
            raise _RoundFailed(f"Expected {opened.goal} reports in the sum, got {len(devices)}.")
        if not self._participation.allows(self.round, devices):
            participation_table.match_participation(
                context.engine, context.lease, context.name, self._participation.recorded()
            )
            raise _RoundFailed(
                "A device took part too early, because the database had lost participations; they have been restored."
            )
        self.devices = devices
        participation_table.record_participation(
            context.engine, context.lease, task=context.name, round=self.round, attempt=self.attempt, devices=devices
        )
        users = np.sort(np.asarray(devices, np.int64))
        return DeviceCohort(self.round, self.attempt, users, self.noise_key, opened.round_id, plain, masked)

    def _too_few(self, opened: RoundRow) -> str:
        """A sentence for the case that waiting cannot help, because too few devices may take part in this round; else empty."""
        context = self._context
        able = could_come(context.engine, context.task, context.name, self.round)
        if able >= opened.goal:
            return ""
        return (
            f" Only about {able} devices may take part: the others took part too recently, or as often as they may. The run "
            "continues when more devices enrol."
        )

    def _watched(self, opened: RoundRow) -> Iterator[RoundRow]:
        """The round's row, read again every POLL_S; _RoundFailed if the round was closed or a process it needs is gone."""
        beats = 0
        while True:
            found = round_table.find(self._context.engine, opened.round_id)
            if found is None or found.state != OPEN:
                raise _RoundFailed("Another process has closed the round.")
            yield found
            beats += 1
            if beats % max(1, round(leases.RENEW_S / POLL_S)) == 0:
                self._holders(opened)
            self._context.pause(POLL_S)

    def _settle(self, opened: RoundRow) -> None:
        if not round_table.settle(self._context.engine, self._context.lease, opened.round_id):
            raise _RoundFailed("Another process has closed the round.")

    def _holders(self, opened: RoundRow) -> list[tuple[Peer, set[int]]]:
        """The processes that hold partial sums, each with its devices; _RoundFailed if one of them is gone."""
        there, counted = self._context.peers.alive(), round_table.reported_to(self._context.engine, opened.round_id)
        needed = counted.keys() | ({opened.aggregator} - {None})
        if needed - there.keys():
            raise _RoundFailed("A process is gone, and its partial sum is lost.")
        return [(there[process], devices) for process, devices in counted.items()]


def _progress(peer: Peer, round_id: str) -> StageProgress:
    return StageProgress.model_validate_json(peer.ask(round_id, PeerQuestion.PROGRESS))


def _weighted(task: DeviceTask) -> bool:
    return task.secagg is not None and task.secagg.weighted
