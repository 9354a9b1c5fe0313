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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import FleetError, ProtocolError
from tacit.fleet.database import clock, device_table, leases, participation_table, round_table, task_table
from tacit.fleet.database.round_table import Dropped, RoundRow
from tacit.fleet.database.schema import OPEN
from tacit.fleet.rounds.aggregator import PeerQuestion
from tacit.fleet.rounds.fleet_context import FleetContext, places_of, replace_s
from tacit.fleet.rounds.partial_sums import PartialSum, unpack_sum
from tacit.fleet.rounds.participation_check import ParticipationCheck
from tacit.fleet.rounds.peers import Peer
from tacit.fleet.rounds.secure_aggregation import (
    DONE,
    FAILED,
    STAGES,
    WAITING,
    Conduct,
    SecureRoundTerms,
    StageProgress,
)
from tacit.fleet.rounds.secure_size import require_possible
from tacit.fleet.rounds.selection import could_come
from tacit.fleet.wire.task import DeviceTask
from tacit.learning.secure_sums import SecureSums
from tacit.privacy.gate.sums import ClipThresholds

POLL_S = 0.1
# How long to wait before an abandoned round is opened again, and how often to look for silent devices.
_RETRY_S, _LOOK_S = 1.0, 0.5
# After how many polls to look whether the processes that the round needs are there, and what an operator wants.
_BEATS = max(1, round(leases.RENEW_S / POLL_S))
_SEED_BYTES = 32


class RoundLost(FleetError):
    """A round failed after its intent: it counts as released, and runs again."""


class _RoundFailed(FleetError):
    """A round failed before anything of it was released; it is abandoned and opened again. `silent` are those at fault."""

    def __init__(self, sentence: str, *, silent: Mapping[int, str] | None = None) -> None:
        super().__init__(sentence)
        self.silent = silent or {}


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
    """A masked sum in another process; `signs_seed` is the seed of its public rotation.

    `ended` is called when the sum is unmasked, or cannot be, which it says why.
    """

    peer: Peer
    round_id: str
    signs_seed: bytes
    ended: Callable[[str | None], None]

    def unmasked(self) -> NDArray[np.uint32]:
        """The sum, after the devices have revealed what removes the masks; RoundLost if that fails."""
        try:
            self.peer.ask(self.round_id, PeerQuestion.PROCEED)
            while (found := _progress(self.peer, self.round_id)).stage != DONE:
                if found.stage == FAILED:
                    raise FleetError(found.reason or "")
                time.sleep(POLL_S)
            total = np.frombuffer(self.peer.ask(self.round_id, PeerQuestion.TOTAL), "<u4")
        except (FleetError, ProtocolError) as error:
            why = f"Secure aggregation failed after the intent: {self._reason() or error.sentence}"
            if self._reason() is not None:  # it cannot be tried again
                self.ended(why)
            raise RoundLost(why) from error
        self.ended(None)
        return total

    def _reason(self) -> str | None:
        """Why the round has failed in the other process; None if it has not, or nobody answers."""
        with suppress(FleetError, ProtocolError):
            found = _progress(self.peer, self.round_id)
            return found.reason if found.stage == FAILED else None
        return None


class RoundAttempt:
    """One attempt at one round, for which devices are selected and report. `devices` are those in its settled cohort."""

    def __init__(
        self,
        context: FleetContext,
        round: int,
        attempt: int,
        noise_key: Any,
        participation: ParticipationCheck,
        *,
        unfinished: RoundRow | None = None,
    ) -> None:
        """`unfinished`: the settled try of this attempt, whose intent is in the ledger and whose sum is still there."""
        self._unfinished = unfinished
        self.round, self.attempt, self.noise_key = round, attempt, noise_key
        self.opened: RoundRow | None = None
        self.devices: list[int] = []
        self._context, self._participation = context, participation
        self._silent: Mapping[int, str] = {}

    def settle(self, broadcast: Any, norms: ClipThresholds) -> DeviceCohort:
        """A cohort of exactly the report goal. Rounds that fail are abandoned and opened again until one succeeds."""
        context, content = self._context, self._context.content(broadcast)
        if self._unfinished is not None:
            return self._go_on(self._unfinished, norms)
        while True:
            self._wait_while_paused()
            while not context.enough_room(len(content)):
                context.log("waiting for disk space", round=self.round)
                context.pause(_RETRY_S)
            try:
                self.opened = self._open(content, norms)
                return self._plain(self.opened) if context.secure is None else self._masked(self.opened, context.secure)
            except _RoundFailed as error:
                self.abandon(error.sentence, silent=error.silent)
                context.pause(_RETRY_S)

    def _go_on(self, opened: RoundRow, norms: ClipThresholds) -> DeviceCohort:
        """The cohort of a round that an earlier coordinator settled and wrote into the ledger, with the same sum."""
        self.opened = opened
        self._context.log("going on with the sum of a settled round", round=self.round, attempt=self.attempt)
        try:
            if opened.clip_norm != min(norms.clip, round_table.UNCLIPPED) or opened.threshold != norms.threshold:
                raise _RoundFailed("The round was opened with other norms.")
            if self._context.secure is None:
                return self._sum_of(opened)
            peer = self._context.peers.alive().get(str(opened.aggregator))
            if peer is None:
                raise _RoundFailed("The round's aggregator process is gone.")
            return self._masked_sum_of(opened, peer)
        except _RoundFailed as error:
            raise RoundLost(error.sentence) from error

    def commit(self) -> None:
        """Mark the round as done, after its checkpoint is durable."""
        context, opened = self._context, self.opened
        assert opened is not None  # the loop settles each round that it gets
        dropped, ledger = self._dropped(self._silent), context.run.head()
        round_table.commit(context.engine, context.lease, opened.round_id, dropped=dropped, ledger=ledger)
        task_table.drop_checkpoint(context.engine, opened.checkpoint)
        context.log("round committed", task=context.name, round=self.round, attempt=self.attempt)

    def abandon(self, reason: str, *, silent: Mapping[int, str] | None = None) -> None:
        """Abandon the round, if it is open or settled, and log the reason. `silent`: what each device at fault did not do."""
        context, dropped = self._context, self._dropped(silent or {})
        if self.opened is not None and round_table.abandon(
            context.engine, context.lease, self.opened.round_id, reason, dropped=dropped
        ):
            context.log("round abandoned", task=context.name, round=self.round, attempt=self.attempt, reason=reason)

    def _dropped(self, silent: Mapping[int, str]) -> Dropped:
        return Dropped(silent, replace_s(self._context.section))

    def _wait_while_paused(self) -> None:
        said = False
        while task_table.wishes(self._context.engine, self._context.name).paused:
            if not said:
                self._context.log("paused by an operator", round=self.round)
            said = True
            self._context.pause(_RETRY_S)

    def _open(self, content: bytes, norms: ClipThresholds) -> RoundRow:
        context, wished = self._context, task_table.wishes(self._context.engine, self._context.name)
        goal = wished.goal or context.task.report_goal
        places = places_of(goal, context.section)
        if context.secure is not None:
            # The encoding has room for the goal's vectors, and devices agree to no fewer.
            goal = context.task.report_goal
            places = max(places, require_possible(goal, 3 * goal + 8, context.section))
        deadline_s = wished.deadline_s or context.section.deadline_s
        context.adjusted(self.round, goal, deadline_s)
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
            places=places,
            seconds=deadline_s + (0.0 if context.secure is None else len(STAGES) * self._stage_s()),
        )

    def _stage_s(self) -> float:
        """How long a stage of secure aggregation lasts at most: longer after tries that were too fast for their devices."""
        return self._context.section.stage_s * self._context.run.patience

    def _plain(self, opened: RoundRow) -> DeviceCohort:
        """Wait for plain reports, then fetch the partial sums from the processes that have them."""
        context, looked = self._context, 0.0
        for now in self._watched(opened):
            if now.reported >= now.goal:
                break
            if clock.now(context.engine) >= now.deadline:
                raise _RoundFailed(
                    f"Expected {now.goal} reports before the deadline, got {now.reported}.{self._too_few(now)}",
                    silent=self._find_silent(opened),
                )
            if now.selected >= now.places and time.monotonic() - looked > _LOOK_S:
                looked = time.monotonic()
                self._replace_silent(opened)
        self._settle(opened)
        self._silent = self._find_silent(opened)
        return self._sum_of(opened)

    def _sum_of(self, opened: RoundRow) -> DeviceCohort:
        """Fetch the partial sums of a settled round from the processes that have them."""
        context = self._context
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
        needed = require_possible(opened.goal, opened.places, section)
        for now in self._watched(opened):
            waited = clock.now(context.engine) - now.opened_at
            enough = now.selected >= needed and waited >= section.selection_s * context.run.patience
            if now.selected >= now.places or enough:
                break
            if waited >= section.deadline_s:
                raise _RoundFailed(
                    f"Expected {needed} devices before the deadline, got {now.selected}.{self._too_few(now)}"
                )
        round_table.close_selection(context.engine, context.lease, opened.round_id)
        width = secure.encoding.padded + len(
            secure.sides(ClipThresholds(opened.clip_norm, opened.threshold), weighted=_weighted(context.task))
        )
        terms = SecureRoundTerms(
            goal=opened.goal,
            dimension=width,
            bits=secure.encoding.bits,
            stage_s=self._stage_s(),
            dropout=section.dropout,
            corruption=section.corruption,
        )
        try:
            peer.ask(opened.round_id, PeerQuestion.BEGIN, terms.model_dump_json().encode())
            while (found := _progress(peer, opened.round_id)).stage != WAITING:
                if found.stage == FAILED:
                    self._hear_conduct(peer, opened.round_id)
                    context.run.was_too_fast()
                    reason = (found.reason or "").rstrip(".")
                    raise _RoundFailed(f"Secure aggregation failed: {reason}.", silent=self._silent)
                context.pause(POLL_S)
            self._settle(opened)
            context.run.was_slow_enough()
        except (_RoundFailed, leases.LeaseLost):
            raise
        except (FleetError, ProtocolError) as error:
            raise _RoundFailed(f"Secure aggregation failed: {error.sentence}") from error
        return self._masked_sum_of(opened, peer)

    def _masked_sum_of(self, opened: RoundRow, peer: Peer) -> DeviceCohort:
        """Fetch which devices are in the masked sum of a settled round."""
        context = self._context
        try:
            included = json.loads(peer.ask(opened.round_id, PeerQuestion.INCLUDED))
        except (FleetError, ProtocolError) as error:
            raise _RoundFailed(f"Secure aggregation failed: {error.sentence}") from error
        if {str(opened.aggregator): set(included)} != round_table.reported_to(context.engine, opened.round_id):
            raise _RoundFailed("The masked sum has other devices than the database counted.")
        seed = bytes.fromhex(str(opened.signs_seed))

        def ended(why: str | None) -> None:
            self._hear_conduct(peer, opened.round_id)
            if why is not None:
                self.abandon(why, silent=self._silent)

        return self._cohort(opened, included, masked=MaskedSum(peer, opened.round_id, seed, ended))

    def _hear_conduct(self, peer: Peer, round_id: str) -> None:
        """Who did something wrong in a round of secure aggregation: the silent are remembered, liars are quarantined."""
        with suppress(FleetError, ProtocolError):
            conduct = Conduct.model_validate_json(peer.ask(round_id, PeerQuestion.CONDUCT))
            self._silent = conduct.missed
            if conduct.liars:
                self._context.log(
                    "quarantined devices that gave false shares", round=self.round, devices=len(conduct.liars)
                )
            device_table.quarantine(self._context.engine, conduct.liars, f"gave false shares in round {self.round}")

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
                context.engine, context.lease, context.name, self._participation.before(self.round)
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

    def _find_silent(self, opened: RoundRow) -> dict[int, str]:
        """The devices that have had a place for long and sent nothing."""
        since = clock.now(self._context.engine) - replace_s(self._context.section)
        return dict.fromkeys(
            round_table.silent_places(self._context.engine, opened.round_id, since=since), round_table.REPORT
        )

    def _replace_silent(self, opened: RoundRow) -> None:
        """Offer one more place for each device that is silent; whose report comes first is in the round."""
        places = opened.places + len(self._find_silent(opened))
        round_table.offer_places(self._context.engine, self._context.lease, opened.round_id, places)

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
            if found.stopped_by is not None:
                raise _RoundFailed("An operator gave the round up.")
            if beats % _BEATS == 0 and task_table.wishes(self._context.engine, self._context.name).paused:
                raise _RoundFailed("An operator paused the rounds.")
            yield found
            beats += 1
            if beats % _BEATS == 0:
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
