"""A whole round in one process, without a network: for simulation and tests, and to read how the stages fit together.

All messages are encoded to bytes and parsed again, as over a network.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tacit.errors import ProtocolError
from tacit.secagg import device, keys, masks, server
from tacit.secagg.session import Session
from tacit.secagg.shamir import Entropy


class RehearsalStage(IntEnum):
    """The stages, in order. A device that is lost at a stage does not send its message of that stage."""

    ADVERTISE = 0
    SHARE = 1
    MASK = 2
    AGREE = 3
    REVEAL = 4


@dataclass(frozen=True)
class RehearsalResult:
    """The sum modulo 2^bits, and the devices whose vectors are in it."""

    total: masks.Words
    included: frozenset[int]


def rehearse(
    session: Session,
    values: Mapping[int, masks.Words],
    *,
    lost: Mapping[int, RehearsalStage] | None = None,
    entropy: Entropy = os.urandom,
) -> RehearsalResult:
    """Run the protocol with these devices' vectors; the devices in `lost` send nothing from their stage on.

    A device that refuses to go on (too few neighbours are left) is lost too. Raises `ProtocolError` if the round fails.
    """
    lost = lost or {}
    identities = {index: entropy(keys.KEY_BYTES) for index in sorted(values)}
    public = {index: keys.identity_public(private) for index, private in identities.items()}

    def vouched(index: int, identity: bytes, certificate: bytes) -> bool:
        return public.get(index) == identity

    def here(stage: RehearsalStage, devices: Mapping[int, Any]) -> list[int]:
        return [index for index in sorted(devices) if lost.get(index, len(RehearsalStage)) > stage]

    state: Any = server.opened(session)
    devices: dict[int, Any] = {}
    for index in here(RehearsalStage.ADVERTISE, values):
        message, devices[index] = device.advertise(session, index, identity=identities[index], entropy=entropy)
        state = server.receive_advertisement(state, index, message)
    outgoing, state = server.close_advertising(state)

    stages = (
        (
            RehearsalStage.SHARE,
            lambda i, was, message: device.share(was, message, vouched=vouched, entropy=entropy),
            server.receive_shares,
            server.close_sharing,
        ),
        (
            RehearsalStage.MASK,
            lambda i, was, message: device.mask(was, message, values[i]),
            server.receive_masked,
            server.close_masking,
        ),
        (
            RehearsalStage.AGREE,
            lambda i, was, message: device.agree(was, message),
            server.receive_agreement,
            server.close_agreeing,
        ),
        (RehearsalStage.REVEAL, lambda i, was, message: device.reveal(was, message), server.receive_reveal, None),
    )
    for stage, speak, receive, close in stages:
        for index in here(stage, outgoing):
            try:
                message, devices[index] = speak(index, devices[index], outgoing[index])
            except ProtocolError:
                continue  # the device leaves the round, as a real one would
            state = receive(state, index, message)
        if close is not None:
            outgoing, state = close(state)
    total = masks.with_masks(state.total, server.recovered(state).masks, session.bits)
    return RehearsalResult(total, state.survivors)
