"""A round taken apart: every state and message of a round without losses, to be bent by tests. States are pure, so each
can be used as often as a test likes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.secagg import device, keys, server
from tacit.secagg.messages import Kind
from tacit.secagg.session import Session


def replayable(seed: int) -> Callable[[int], bytes]:
    """A stream of bytes that is the same in each run of a test."""
    count = 0

    def draw(size: int) -> bytes:
        nonlocal count
        count += 1
        return hashlib.shake_256(f"{seed}/{count}".encode()).digest(size)

    return draw


def session(**changes: Any) -> Session:
    """A small round; every constant can be changed."""
    constants = {
        "session_id": bytes(range(32)),
        "graph_seed": bytes(32),
        "devices": 6,
        "neighbours": 4,
        "threshold": 3,
        "minimum": 4,
        "dimension": 5,
        "bits": 13,
    }
    return Session(**{**constants, **changes})


@dataclass
class Round:
    """`device_states[kind][i]` and `server_states[kind]` are what a message of that kind is received with."""

    session: Session
    values: dict[int, np.ndarray]
    identities: dict[int, bytes]
    sent: dict[Kind, dict[int, bytes]] = field(default_factory=dict)
    device_states: dict[Kind, dict[int, Any]] = field(default_factory=dict)
    server_states: dict[Kind, Any] = field(default_factory=dict)

    def vouched(self, index: int, identity: bytes, certificate: bytes) -> bool:
        return keys.identity_public(self.identities[index]) == identity

    def speak(self, kind: Kind, index: int, message: bytes, state: Any = None) -> tuple[bytes, Any]:
        """What device `index` answers to a message of the server."""
        state = self.device_states[kind][index] if state is None else state
        if kind == Kind.ROSTER:
            return device.share(state, message, vouched=self.vouched, entropy=replayable(1000 + index))
        if kind == Kind.DELIVERY:
            return device.mask(state, message, self.values[index])
        return (device.agree if kind == Kind.SURVIVORS else device.reveal)(state, message)

    def receive(self, kind: Kind, index: int, message: bytes) -> Any:
        """What the server's state becomes, before others have spoken."""
        return RECEIVE[kind](self.server_states[kind], index, message)


RECEIVE = {
    Kind.ADVERTISE: server.receive_advertisement,
    Kind.SHARES: server.receive_shares,
    Kind.MASKED: server.receive_masked,
    Kind.AGREE: server.receive_agreement,
    Kind.REVEAL: server.receive_reveal,
}
CLOSE = {
    Kind.ADVERTISE: server.close_advertising,
    Kind.SHARES: server.close_sharing,
    Kind.MASKED: server.close_masking,
    Kind.AGREE: server.close_agreeing,
}
TO_DEVICES = (Kind.ROSTER, Kind.DELIVERY, Kind.SURVIVORS, Kind.AGREEMENTS)
TO_SERVER = tuple(RECEIVE)


def whole_round(constants: Session, seed: int = 0) -> Round:
    """Everything that is said in a round in which nobody is lost."""
    entropy, rng = replayable(seed), np.random.default_rng(seed)
    members = range(constants.devices)
    values = {i: rng.integers(0, 1 << constants.bits, constants.dimension).astype(np.uint32) for i in members}
    done = Round(constants, values, {i: entropy(32) for i in members})
    state: Any = server.opened(constants)
    said = {
        i: device.advertise(constants, i, identity=done.identities[i], entropy=replayable(seed * 99 + i))
        for i in members
    }
    for kind, answer in zip(TO_SERVER, (*TO_DEVICES, None), strict=True):
        done.server_states[kind], done.sent[kind] = state, {i: message for i, (message, _) in said.items()}
        for i, (message, _) in said.items():
            state = RECEIVE[kind](state, i, message)
        if answer is None:
            done.server_states[Kind.AGREEMENTS] = state
            return done
        outgoing, state = CLOSE[kind](state)
        done.sent[answer], done.device_states[answer] = outgoing, {i: after for i, (_, after) in said.items()}
        said = {i: done.speak(answer, i, outgoing[i]) for i in outgoing}
    raise AssertionError
