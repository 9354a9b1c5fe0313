"""A round of secure aggregation in one process: the stages of `tacit.secagg.server`, driven by messages and time.

    advertise ─► share ─► mask ─► waiting ─► agree ─► reveal ─► done

A stage ends when all expected devices have sent their message, or when its time is up. Masking ends when the goal is reached,
and accepts no further vector. Then the round waits: the set of included devices is fixed, but no device learns it until the run
has written it down durably (`proceed`), so that nothing is revealed that is not in the ledger. If too few devices are left
after a stage, the round has failed, and the vectors stay masked.

Devices that did not send a message in time, and devices that must have passed on or dealt false shares, are remembered
(`conduct`): the first rest for a while, the second are quarantined. False shares themselves are corrected where there are
enough right ones (`tacit.secagg.decoding`), so that the round goes on without noticing.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, get_args

from tacit.errors import FleetError, ProtocolError
from tacit.fleet.database.round_table import ReportResult
from tacit.fleet.rounds.secure_size import size_for
from tacit.fleet.wire.blobs import sha256_of
from tacit.fleet.wire.messages import Message, Received, Stage
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.task import SessionTerms
from tacit.secagg import decoding, masks, messages, server
from tacit.secagg.session import ID_BYTES, Session

STAGES: tuple[str, ...] = get_args(Stage)
SESSION, WAITING, DONE, FAILED = "session", "waiting", "done", "failed"
# The set of included devices is fixed.
_SETTLED = (WAITING, "agree", "reveal", DONE)
_RECEIVE: dict[str, Callable[[Any, int, bytes], Any]] = {
    "advertise": server.receive_advertisement,
    "share": server.receive_shares,
    "mask": server.receive_masked,
    "agree": server.receive_agreement,
    "reveal": server.receive_reveal,
}
_CLOSE: dict[str, Callable[[Any], tuple[server.Outgoing, Any]]] = {
    "advertise": server.close_advertising,
    "share": server.close_sharing,
    "mask": server.close_masking,
    "agree": server.close_agreeing,
}


class SecureRoundTerms(Message):
    """What the coordinator wants of a round: the sum of `goal` vectors of `dimension` entries below 2^`bits`."""

    goal: int
    dimension: int
    bits: int
    stage_s: float
    dropout: float
    corruption: float


class Conduct(Message):
    """What devices did wrong in a round: the stage whose message did not come, and who must have lied."""

    missed: dict[int, str]
    liars: tuple[int, ...]


class StageProgress(Message):
    """The round's current stage, or waiting, done or failed."""

    stage: str
    reason: str | None = None


def open_session(devices: int, terms: SecureRoundTerms, session_id: bytes) -> Session:
    """A session of this name for this many devices; ProtocolError if they are too few.

    It is safe against a malicious server where so many devices allow it, and else against an honest-but-curious one.
    """
    found = size_for(devices, terms.goal, dropout=terms.dropout, corruption=terms.corruption)
    return Session(
        session_id=session_id,
        graph_seed=os.urandom(ID_BYTES),
        devices=devices,
        neighbours=found.neighbours,
        threshold=found.threshold,
        minimum=max(2, terms.goal),
        dimension=terms.dimension,
        bits=terms.bits,
    )


class SecureAggregationRound:
    """One round. `devices` and their enrolled `identities` are in the order of their numbers in the session.

    `count` counts a device's vector, by its digest, in the database, and says what the device is told. It is called once for
    each vector, before the vector is in the sum.
    """

    def __init__(
        self,
        session: Session,
        terms: SecureRoundTerms,
        devices: Sequence[int],
        identities: Sequence[bytes],
        count: Callable[[int, str], tuple[ReportResult, Received]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.session, self._terms, self._devices, self._identities = session, terms, list(devices), list(identities)
        self._numbers = {device: index for index, device in enumerate(devices)}
        self._count, self._clock = count, clock
        self._lock = threading.RLock()
        self._stage, self._reason = STAGES[0], ""
        self._state: Any = server.opened(session)
        self._outgoing: dict[str, server.Outgoing] = {}
        self._received: dict[tuple[str, int], str] = {}
        self._answers: dict[tuple[str, int], Received] = {}
        self._until = clock() + terms.stage_s
        self._total: masks.Words | None = None
        self._missed: dict[int, str] = {}
        self._liars: frozenset[int] = frozenset()

    def most_bytes(self, stage: str) -> int:
        """The longest message that an honest device sends in this stage."""
        session = self.session
        return {
            "advertise": messages.bundled_size(messages.ADVERTISED_BYTES),
            "share": messages.bundled_size(32 + session.neighbours * (4 + messages.CIPHERTEXT_BYTES)),
            "mask": messages.witness_size(session) + masks.packed_bytes(session.dimension, session.bits),
            "agree": messages.bundled_size(32),
            "reveal": messages.bundled_size(session.neighbours * (4 + 1 + 32)),
        }[stage]

    def post(self, device: int, stage: str, body: bytes) -> Received:
        """Accept a device's message of a stage; Refusal, and nothing changes, if it is invalid or comes at the wrong time."""
        digest = sha256_of(body)
        with self._lock:
            self._tick()
            index = self._number(device)
            if (before := self._received.get((stage, index))) is not None:
                if before != digest:
                    raise Refusal("The device has already sent a different message in this stage.", status=409)
                return self._answers[stage, index].model_copy(update={"repeated": True})
            if self._stage != stage:
                early = self._stage in STAGES and STAGES.index(stage) > STAGES.index(self._stage)
                sentence = f"Expected a message of the stage {self._stage!r}, got one of {stage!r}."
                raise Refusal(sentence, status=409 if early else 410, again=early)
            try:
                state = _RECEIVE[stage](self._state, index, body)
            except ProtocolError as error:
                raise Refusal(error.sentence) from None
            if stage == "advertise" and state.advertisements[index].identity != self._identities[index]:
                raise Refusal("The keys are not signed with the identity that the device enrolled with.")
            received = Received()
            if stage == "mask":
                result, received = self._count(device, digest)
                if result is not ReportResult.COUNTED:
                    raise Refusal("The vector is too late: the round accepts no more.", status=410)
            self._state = state
            self._received[stage, index], self._answers[stage, index] = digest, received
            self._tick()
        return received

    def fetch(self, device: int, stage: str) -> bytes | None:
        """The server's message to a device after a stage, or the session's terms; None if it is not ready yet."""
        with self._lock:
            self._tick()
            index = self._number(device)
            if stage == SESSION:
                return SessionTerms.of(self.session, index).model_dump_json().encode()
            if stage not in self._outgoing:
                return None
            if index not in self._outgoing[stage]:
                raise Refusal("The device is no longer in the round: it missed a stage.", status=410)
            return self._outgoing[stage][index]

    def progress(self) -> StageProgress:
        """The round's current stage."""
        with self._lock:
            self._tick()
            return StageProgress(stage=self._stage, reason=self._reason or None)

    def included(self) -> list[int]:
        """The devices whose vectors are in the sum. The set is fixed once the round is waiting."""
        with self._lock:
            if self._stage not in _SETTLED:
                self._require(WAITING)
            settled = self._state.witnesses if self._stage == WAITING else self._state.survivors
            return sorted(self._devices[index] for index in settled)

    def proceed(self) -> None:
        """Tell the devices who is in the sum. The caller has written this set to disk.

        A coordinator that goes on with the round says so again, which changes nothing: there is one set, and one sum.
        """
        with self._lock:
            if self._stage not in _SETTLED:
                self._require(WAITING)
            elif self._stage == WAITING:
                self._close("mask")

    def total(self) -> masks.Words:
        """The sum of the included vectors; FleetError unless the round is done, ProtocolError if a share was wrong."""
        with self._lock:
            self._tick()
            self._require(DONE)
            if self._total is None:
                self._total = self._unmasked()
            return self._total

    def conduct(self) -> Conduct:
        """Which devices did something wrong, as far as it is known by now."""
        with self._lock:
            return Conduct(
                missed={self._devices[index]: stage for index, stage in sorted(self._missed.items())},
                liars=tuple(sorted(self._devices[index] for index in self._liars)),
            )

    def _unmasked(self) -> masks.Words:
        """The sum; liars are named. If the round fails now, it says why, and stays failed."""
        try:
            found = server.recovered(self._state)
        except server.FalseShares as error:
            self._liars = self._named(error.false_shares)
            owners = {owner for owner in error.owners if self._has_dealt_false_shares(owner)}
            # More would be more corrupt devices than are assumed: then it may as well have been the holders.
            if len(self._liars | owners) <= self._most_corrupt:
                self._liars |= owners
            known = f" {len(self._liars)} devices that must have lied are quarantined." if self._liars else ""
            self._fail(error.sentence.rstrip(".") + "." + known)
            raise
        except ProtocolError as error:
            self._fail(error.sentence)
            raise
        self._liars = self._named(found.false_shares)
        return masks.with_masks(self._state.total, found.masks, self.session.bits)

    @property
    def _most_corrupt(self) -> int:
        """How many corrupt neighbours an honest device has at most."""
        return min(math.ceil(self._terms.corruption * self.session.devices), self.session.threshold - 1)

    def _named(self, false_shares: frozenset[tuple[int, int]]) -> frozenset[int]:
        return decoding.liars(false_shares, self._most_corrupt)

    def _has_dealt_false_shares(self, owner: int) -> bool:
        """Whether the shares of this secret cannot be too few right ones because of their holders alone."""
        held = [holder for holder in self._state.shares[owner] if holder not in self._liars]
        return (len(held) - self.session.threshold) // 2 >= self._most_corrupt

    def _require(self, stage: str) -> None:
        if self._stage != stage:
            raise FleetError(f"Expected the round to be {stage!r}, got {self._stage!r}.")

    def _number(self, device: int) -> int:
        """The device's number in the session; Refusal if the device has no place, or if the round has failed."""
        if device not in self._numbers:
            raise Refusal("The device has no place in this round.", status=403)
        if self._stage == FAILED:
            raise Refusal("The round has failed.", status=410)
        return self._numbers[device]

    def _tick(self) -> None:
        """End the stage if all its messages have arrived or its time is up."""
        if self._stage not in STAGES:
            return
        arrived, expected = self._arrivals()
        late = self._clock() >= self._until
        if self._stage == "mask":
            if arrived >= self._terms.goal:
                self._stage = WAITING
            elif late:
                self._note_missing()
                self._fail(f"Expected {self._terms.goal} vectors in time, got {arrived}")
        elif arrived >= expected or late:
            self._note_missing()
            if self._stage == "reveal":
                self._stage = DONE
            else:
                self._close(self._stage)

    def _arrivals(self) -> tuple[int, int]:
        """How many messages of this stage have arrived, and how many may."""
        arrived, expected = self._senders()
        return len(arrived), len(expected)

    def _senders(self) -> tuple[Collection[int], Collection[int]]:
        """Whose messages of this stage have arrived, and whose may."""
        state = self._state
        match self._stage:
            case "advertise":
                return state.advertisements, range(self.session.devices)
            case "share":
                return state.sealed, state.advertisements
            case "mask":
                return state.witnesses, state.commitments
            case "agree":
                return state.agreements, state.survivors
            case _:
                return state.heard, state.asked

    def _note_missing(self) -> None:
        arrived, expected = self._senders()
        self._missed |= dict.fromkeys(set(expected) - set(arrived), self._stage)

    def _close(self, stage: str) -> None:
        try:
            self._outgoing[stage], self._state = _CLOSE[stage](self._state)
        except ProtocolError as error:
            self._fail(error.sentence.rstrip("."))
            return
        self._stage = STAGES[STAGES.index(stage) + 1]
        self._until = self._clock() + self._terms.stage_s

    def _fail(self, reason: str) -> None:
        self._stage, self._reason, self._state = FAILED, reason, None
