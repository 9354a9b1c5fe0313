"""A server of secure aggregation that lies: its announcements, and what it rebuilds from the shares that devices reveal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tacit.secagg import device, keys, masks, messages, shamir
from tacit.secagg.messages import Kind
from tests.support.secagg_round import Round


def forged(done: Round, index: int, survivors: set[int]) -> bytes:
    """An announcement that an honest server's own checks would not let out."""
    size = messages.witness_size(done.session)
    around = [done.sent[Kind.MASKED][i][:size] for i in done.session.neighbours_of(index) if i in survivors]
    bits = messages.as_bits(survivors, range(done.session.devices))
    return messages.from_server(done.session, Kind.SURVIVORS, index, bits + b"".join(around))


def rebuilt(done: Round, revealed: dict[int, bytes]) -> dict[tuple[int, int], bytes]:
    """Every secret, by owner and kind, that these messages have enough shares of."""
    constants, shares = done.session, {}
    for sender, message in revealed.items():
        body = messages.opened_signed(
            constants, Kind.REVEAL, sender, keys.identity_public(done.identities[sender]), message
        )
        for owner, record in messages.records(body, 33, Kind.REVEAL).items():
            shares.setdefault((owner, record[0]), {})[sender] = record[1:]
    return {
        name: shamir.combine(held, constants.threshold)
        for name, held in shares.items()
        if len(held) >= constants.threshold
    }


def victim_seen(done: Round, victim: int, revealed: dict[int, bytes]) -> np.ndarray | None:
    """Take every mask off the victim's vector that the revealed messages give away; None if one stays."""
    constants, secrets = done.session, rebuilt(done, revealed)
    adverts = done.server_states[Kind.SHARES].advertisements
    if (victim, 0) not in secrets:
        return None
    layers = [replace(device.self_mask(constants, victim, secrets[victim, 0]), negative=True)]
    for other in constants.neighbours_of(victim):
        if (other, 1) not in secrets:
            return None
        public = adverts[victim].mask_key
        layers.append(device.pair_mask(constants, secrets[other, 1], public, owner=other, other=victim))
    vector = done.sent[Kind.MASKED][victim][messages.witness_size(constants) :]
    return masks.with_masks(masks.unpack(vector, constants.dimension, constants.bits), layers, constants.bits)
