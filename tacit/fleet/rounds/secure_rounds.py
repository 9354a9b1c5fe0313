"""A round of secure aggregation in the memory of one process: the stages of `tacit.secagg.server`, driven by messages and time.

    advertise ─► share ─► mask ─► waiting ─► agree ─► reveal ─► done

A stage ends when everybody it expects has spoken, or when its time is up; masking ends with the goal's last vector, and takes
no more. Then the round waits: whose vectors are in the sum is settled, and until the run has written that down durably
(`proceed`) no device is told, so that nothing can be revealed that is not in the ledger. Too few in any stage, and the round
has failed; what was masked stays masked.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, get_args

from tacit.errors import FleetError, ProtocolError
from tacit.fleet.rounds.lifecycle import Taken
from tacit.fleet.wire.messages import Message, Received, SessionTerms, Stage
from tacit.fleet.wire.refusals import Refusal
from tacit.secagg import masks, messages, parameters, server
from tacit.secagg.session import ID_BYTES, Session

STAGES: tuple[str, ...] = get_args(Stage)
SESSION, WAITING, DONE, FAILED = "session", "waiting", "done", "failed"
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


class Terms(Message):
    """What the coordinator asks of a round: vectors of `dimension` numbers below 2^`bits`, `goal` of them."""

    goal: int
    dimension: int
    bits: int
    stage_s: float
    dropout: float
    corruption: float


class Progress(Message):
    """Where a round is: one of the stages, waiting, done or failed."""

    stage: str
    reason: str | None = None


def open_session(devices: int, terms: Terms) -> Session:
    """A session for so many devices, against a server that looks but does not lie; ProtocolError if they are too few."""
    # Masking ends with the goal's last vector: whoever is beyond the goal and slower is lost, and that must be bearable.
    dropout = max(terms.dropout, 1 - terms.goal / devices)
    found = parameters.choose(devices, dropout=dropout, corruption=terms.corruption, server="curious")
    return Session(
        session_id=os.urandom(ID_BYTES),
        graph_seed=os.urandom(ID_BYTES),
        devices=devices,
        neighbours=found.neighbours,
        threshold=found.threshold,
        minimum=max(2, terms.goal),
        dimension=terms.dimension,
        bits=terms.bits,
    )


class SecureRound:
    """One round. `devices` and their enrolled `identities` are in the order of their numbers in the session.

    `take` counts a device's vector in the database, and is called once for each, before the vector is in the sum.
    """

    def __init__(
        self,
        session: Session,
        terms: Terms,
        devices: Sequence[int],
        identities: Sequence[bytes],
        take: Callable[[int], Taken],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.session, self._terms, self._devices, self._identities = session, terms, list(devices), list(identities)
        self._numbers = {device: index for index, device in enumerate(devices)}
        self._take, self._clock = take, clock
        self._lock = threading.RLock()
        self._stage, self._reason = STAGES[0], ""
        self._state: Any = server.opened(session)
        self._outgoing: dict[str, server.Outgoing] = {}
        self._said: dict[tuple[str, int], bytes] = {}
        self._until = clock() + terms.stage_s

    def most_bytes(self, stage: str) -> int:
        """The longest message a device can honestly send in this stage."""
        session = self.session
        return {
            "advertise": messages.bundled_size(96),
            "share": messages.bundled_size(32 + session.neighbours * (4 + messages.CIPHERTEXT_BYTES)),
            "mask": messages.witness_size(session) + masks.packed_bytes(session.dimension, session.bits),
            "agree": messages.bundled_size(32),
            "reveal": messages.bundled_size(session.neighbours * (4 + 1 + 32)),
        }[stage]

    def post(self, device: int, stage: str, body: bytes) -> Received:
        """A device's message of a stage; Refusal, and nothing changed, if it does not belong there."""
        digest = hashlib.sha256(body).digest()
        with self._lock:
            self._tick()
            index = self._number(device)
            if (before := self._said.get((stage, index))) is not None:
                if before != digest:
                    raise Refusal("Expected the message the device sent before, got another.", status=409)
                return Received(repeated=True)
            if self._stage != stage:
                early = self._stage in STAGES and STAGES.index(stage) > STAGES.index(self._stage)
                sentence = f"Expected a message of the stage {self._stage!r}, got one of {stage!r}."
                raise Refusal(sentence, status=409 if early else 410, again=early)
            try:
                state = _RECEIVE[stage](self._state, index, body)
            except ProtocolError as error:
                raise Refusal(error.sentence) from None
            if stage == "advertise" and state.advertisements[index].identity != self._identities[index]:
                raise Refusal("Expected keys signed with the identity the device enrolled with, got another.")
            if stage == "mask" and self._take(device) is not Taken.COUNTED:
                raise Refusal("Expected a vector while the round takes some, got one too late.", status=410)
            self._state = state
            self._said[stage, index] = digest
            self._tick()
        return Received()

    def fetch(self, device: int, stage: str) -> bytes | None:
        """What the server has for a device after a stage, or the session; None: not yet."""
        with self._lock:
            self._tick()
            index = self._number(device)
            if stage == SESSION:
                return self._session_terms(index).model_dump_json().encode()
            if stage not in self._outgoing:
                return None
            if index not in self._outgoing[stage]:
                raise Refusal("Expected a device that is still in the round, got one that was lost.", status=410)
            return self._outgoing[stage][index]

    def progress(self) -> Progress:
        """Where the round is now."""
        with self._lock:
            self._tick()
            return Progress(stage=self._stage, reason=self._reason or None)

    def included(self) -> list[int]:
        """Whose vectors are in the sum, settled from the stage `waiting` on."""
        with self._lock:
            self._require(WAITING)
            return sorted(self._devices[index] for index in self._state.witnesses)

    def proceed(self) -> None:
        """Tell the devices who is in the sum: the run has it on disk."""
        with self._lock:
            self._require(WAITING)
            self._close("mask")

    def total(self) -> masks.Words:
        """The sum of the included vectors; FleetError unless the round is done, ProtocolError if a share was false."""
        with self._lock:
            self._tick()
            self._require(DONE)
            return masks.with_masks(self._state.total, server.recovered(self._state), self.session.bits)

    def _require(self, stage: str) -> None:
        if self._stage != stage:
            raise FleetError(f"Expected a round of secure aggregation that is {stage}, got one in {self._stage!r}.")

    def _number(self, device: int) -> int:
        """The device's number in the session; Refusal if it has none, or if the round has failed."""
        if device not in self._numbers:
            raise Refusal("Expected a device with a place in this round, got another.", status=403)
        if self._stage == FAILED:
            raise Refusal("Expected a round under way, got one that has failed.", status=410)
        return self._numbers[device]

    def _tick(self) -> None:
        """End the stage if everybody has spoken or its time is up."""
        if self._stage not in STAGES:
            return
        spoken, expected = self._count()
        late = self._clock() >= self._until
        if self._stage == "mask":
            if spoken >= self._terms.goal:
                self._stage = WAITING
            elif late:
                self._fail(f"{spoken} vectors came in time, and {self._terms.goal} were wanted")
        elif spoken >= expected or late:
            if self._stage == "reveal":
                self._stage = DONE
            else:
                self._close(self._stage)

    def _count(self) -> tuple[int, int]:
        """How many have spoken in this stage, and how many may."""
        state = self._state
        match self._stage:
            case "advertise":
                return len(state.advertisements), self.session.devices
            case "share":
                return len(state.sealed), len(state.advertisements)
            case "mask":
                return len(state.witnesses), len(state.commitments)
            case "agree":
                return len(state.agreements), len(state.survivors)
            case _:
                return len(state.heard), len(state.asked)

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

    def _session_terms(self, index: int) -> SessionTerms:
        session = self.session
        return SessionTerms(
            session_id=session.session_id.hex(),
            graph_seed=session.graph_seed.hex(),
            devices=session.devices,
            neighbours=session.neighbours,
            threshold=session.threshold,
            minimum=session.minimum,
            dimension=session.dimension,
            bits=session.bits,
            index=index,
        )
