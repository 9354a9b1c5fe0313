"""The server's stages of a round, as pure functions: it forwards encrypted shares, adds masked vectors, and learns one sum.

    state = opened(session)
    state = receive_…(state, sender, message)      for each message of the stage, as it arrives
    outgoing, state = close_…(state)               when enough messages have arrived or time is up; missing devices are lost
    recovered(state)                               after the last stage: what removes the masks, from the revealed shares
    masks.with_masks(total, …)                     the sum; the masks may be divided among workers

`sender` is the device that the transport has authenticated. `receive_…` raises `ProtocolError` for a message that an honest
device would not send; the state that was passed in stays valid, and the device counts as lost. `close_…` raises if too few
devices are left: the round has then failed, and no mask has been removed.

Masked vectors are added as they arrive, so memory does not grow with the number of devices.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from tacit.errors import ProtocolError
from tacit.secagg import decoding, device, keys, masks, messages, shamir
from tacit.secagg.messages import Kind, SecretKind
from tacit.secagg.session import Session, require_at_least

Outgoing = dict[int, bytes]


@dataclass(frozen=True)
class Advertising:
    """Collecting keys (`advertise`)."""

    session: Session
    advertisements: Mapping[int, messages.Advertisement] = field(repr=False)


@dataclass(frozen=True)
class _Committed(Advertising):
    """With each sender's commitment to its seed."""

    commitments: Mapping[int, bytes] = field(repr=False)


@dataclass(frozen=True)
class _Summed(_Committed):
    """With the sum of the masked vectors."""

    total: masks.Words = field(repr=False)


@dataclass(frozen=True)
class _Settled(_Summed):
    """With the set of included devices."""

    survivors: frozenset[int]


@dataclass(frozen=True)
class Sharing(_Committed):
    """Collecting encrypted shares: sender → receiver → ciphertext, and each sender's commitment."""

    sealed: Mapping[int, Mapping[int, bytes]] = field(repr=False)


@dataclass(frozen=True)
class Masking(_Summed):
    """Adding up masked vectors."""

    witnesses: Mapping[int, bytes] = field(repr=False)


@dataclass(frozen=True)
class Agreeing(_Settled):
    """Collecting signatures on the set of included devices. The set and the masked total do not change any more."""

    digest: bytes
    agreements: Mapping[int, bytes] = field(repr=False)


@dataclass(frozen=True)
class Revealing(_Settled):
    """Collecting shares: owner → holder → share, of the one secret of each owner that the round needs."""

    asked: frozenset[int]
    heard: frozenset[int]
    shares: Mapping[int, Mapping[int, bytes]] = field(repr=False)


def opened(session: Session) -> Advertising:
    """A round that has received no message yet."""
    return Advertising(session, {})


def receive_advertisement(state: Advertising, sender: int, message: bytes) -> Advertising:
    """Accept a device's keys."""
    if not 0 <= sender < state.session.devices:
        raise ProtocolError(f"Expected a device from 0 to {state.session.devices - 1}, got {sender}.")
    _first(sender, state.advertisements, Kind.ADVERTISE)
    advertisement = messages.advertisement(state.session, sender, message)
    return replace(state, advertisements={**state.advertisements, sender: advertisement})


def close_advertising(state: Advertising) -> tuple[Outgoing, Sharing]:
    """Send each device its neighbours' keys."""
    session = state.session
    require_at_least(len(state.advertisements), session.minimum, "devices with keys")
    outgoing = {}
    for index in sorted(state.advertisements):
        around = [other for other in session.neighbours_of(index) if other in state.advertisements]
        body = b"".join(state.advertisements[other].message for other in around)
        outgoing[index] = messages.from_server(session, Kind.ROSTER, index, body)
    return outgoing, Sharing(session, state.advertisements, {}, {})


def receive_shares(state: Sharing, sender: int, message: bytes) -> Sharing:
    """Accept a device's shares, one pair for each neighbour with keys. They are encrypted, so only their number is checked."""
    _first(sender, state.sealed, Kind.SHARES)
    body = _from(state.session, state.advertisements, Kind.SHARES, sender, message)
    if len(body) < 32:
        raise ProtocolError(f"Expected device {sender}'s SHARES message to hold a commitment, got a shorter one.")
    sealed = messages.records(body[32:], messages.CIPHERTEXT_BYTES, Kind.SHARES)
    expected = {other for other in state.session.neighbours_of(sender) if other in state.advertisements}
    if set(sealed) != expected:
        raise ProtocolError(f"Device {sender} did not send shares for exactly its neighbours with keys.")
    return replace(
        state,
        commitments={**state.commitments, sender: body[:32]},
        sealed={**state.sealed, sender: sealed},
    )


def close_sharing(state: Sharing) -> tuple[Outgoing, Masking]:
    """Send each device the shares that it keeps for its neighbours."""
    session = state.session
    require_at_least(len(state.sealed), session.minimum, "devices with shares")
    outgoing = {}
    for index in sorted(state.sealed):
        kept = {other: state.sealed[other][index] for other in session.neighbours_of(index) if other in state.sealed}
        outgoing[index] = messages.from_server(session, Kind.DELIVERY, index, messages.as_records(kept))
    total = np.zeros(session.dimension, np.uint32)
    return outgoing, Masking(session, state.advertisements, state.commitments, total, {})


def receive_masked(state: Masking, sender: int, message: bytes) -> Masking:
    """Accept a masked vector and add it to the total."""
    session = state.session
    _first(sender, state.witnesses, Kind.MASKED)
    if sender not in state.commitments:
        raise ProtocolError(f"Device {sender} sent a MASKED message without having sent shares.")
    size = messages.witness_size(session)
    witness, vector = message[:size], message[size:]
    identity = state.advertisements[sender].identity
    partners, expected_digest = messages.witness_partners(session, sender, identity, witness)
    if partners != {other for other in session.neighbours_of(sender) if other in state.commitments}:
        raise ProtocolError(f"Device {sender} does not share masks with exactly its neighbours with shares.")
    if messages.digest(vector) != expected_digest:
        raise ProtocolError(f"The vector of device {sender} is not the one that it signed.")
    total = state.total + masks.unpack(vector, session.dimension, session.bits)
    return replace(state, total=total, witnesses={**state.witnesses, sender: witness})


def close_masking(state: Masking) -> tuple[Outgoing, Agreeing]:
    """Send each device the set of included devices and its neighbours' witnesses. A vector that arrives later is not added."""
    session, survivors = state.session, frozenset(state.witnesses)
    require_at_least(len(survivors), session.minimum, "devices with vectors")
    bits = messages.as_bits(survivors, range(session.devices))
    outgoing = {}
    for index in sorted(survivors):
        around = [state.witnesses[other] for other in session.neighbours_of(index) if other in survivors]
        outgoing[index] = messages.from_server(session, Kind.SURVIVORS, index, bits + b"".join(around))
    total = masks.reduced(state.total, session.bits)
    digest = messages.survivors_digest(session, survivors)
    return outgoing, Agreeing(session, state.advertisements, state.commitments, total, survivors, digest, {})


def receive_agreement(state: Agreeing, sender: int, message: bytes) -> Agreeing:
    """Accept a device's signature on the set of included devices."""
    _first(sender, state.agreements, Kind.AGREE)
    if sender not in state.survivors:
        raise ProtocolError(f"Device {sender} sent an AGREE message and is not included.")
    body = _from(state.session, state.advertisements, Kind.AGREE, sender, message)
    if body != state.digest:
        raise ProtocolError(f"Device {sender} signed another set of included devices.")
    return replace(state, agreements={**state.agreements, sender: message})


def close_agreeing(state: Agreeing) -> tuple[Outgoing, Revealing]:
    """Send each device its neighbours' signatures."""
    session = state.session
    outgoing = {}
    for index in sorted(state.agreements):
        around = [state.agreements[other] for other in session.neighbours_of(index) if other in state.agreements]
        outgoing[index] = messages.from_server(session, Kind.AGREEMENTS, index, b"".join(around))
    revealing = Revealing(
        session,
        state.advertisements,
        state.commitments,
        state.total,
        state.survivors,
        frozenset(state.agreements),
        frozenset(),
        {},
    )
    return outgoing, revealing


def receive_reveal(state: Revealing, sender: int, message: bytes) -> Revealing:
    """Accept a device's shares of its neighbours' secrets."""
    _first(sender, state.heard, Kind.REVEAL)
    if sender not in state.asked:
        raise ProtocolError(f"Device {sender} sent a REVEAL message without having agreed.")
    body = _from(state.session, state.advertisements, Kind.REVEAL, sender, message)
    revealed = messages.records(body, 1 + shamir.SECRET_BYTES, Kind.REVEAL)
    if set(revealed) != {other for other in state.session.neighbours_of(sender) if other in state.commitments}:
        raise ProtocolError(f"Device {sender} did not reveal shares of exactly its neighbours with shares.")
    shares = dict(state.shares)
    for owner, record in revealed.items():
        if record[0] != (SecretKind.SEED if owner in state.survivors else SecretKind.MASK_KEY):
            raise ProtocolError(f"Device {sender} revealed a share of the wrong secret of device {owner}.")
        shares[owner] = {**shares.get(owner, {}), sender: record[1:]}
    return replace(state, heard=state.heard | {sender}, shares=shares)


@dataclass(frozen=True)
class Recovered:
    """The masks that remove all masks from a total, and which shares were false, as (owner, holder)."""

    masks: tuple[masks.Mask, ...] = field(repr=False)
    false_shares: frozenset[tuple[int, int]]


class FalseShares(ProtocolError):
    """Too many shares are false. `owners` are the devices whose secrets could not be rebuilt; no mask was removed."""

    def __init__(self, owners: Sequence[int], false_shares: frozenset[tuple[int, int]]) -> None:
        super().__init__(
            f"So many shares are wrong that the secrets of {len(owners)} devices cannot be rebuilt, the first of them device "
            f"{owners[0]}'s: what they give is not what their owners committed to."
        )
        self.owners, self.false_shares = tuple(owners), false_shares


def recovered(state: Revealing) -> Recovered:
    """What removes all masks from `state.total`.

    The sum of the included vectors is ``masks.with_masks(state.total, recovered(state).masks, session.bits)``. Raises before
    any secret is rebuilt if one of them lacks shares. False shares are corrected (`decoding`); raises FalseShares if there are
    too many for that. Secrets are decoded again once holders of false shares are known from other secrets.
    """
    session, threshold = state.session, state.session.threshold
    # A lost device that shares no mask with an included one has left nothing to remove.
    lost = {
        owner: [other for other in session.neighbours_of(owner) if other in state.survivors]
        for owner in state.commitments
        if owner not in state.survivors
    }
    wanted = [*sorted(state.survivors), *(owner for owner in sorted(lost) if lost[owner])]
    for owner in wanted:
        require_at_least(len(state.shares.get(owner, {})), threshold, f"shares of a secret of device {owner}")
    secrets, false_shares = _decoded(state, wanted)
    found = []
    for owner in wanted:
        if owner in state.survivors:
            found.append(replace(device.self_mask(session, owner, secrets[owner]), negative=True))
            continue
        # The masks that `owner` would have added cancel those that its neighbours added.
        for other in lost[owner]:
            public = state.advertisements[other].mask_key
            found.append(device.pair_mask(session, secrets[owner], public, owner=owner, other=other))
    return Recovered(tuple(found), false_shares)


def _decoded(state: Revealing, wanted: Sequence[int]) -> tuple[dict[int, bytes], frozenset[tuple[int, int]]]:
    secrets, false_shares, left = dict[int, bytes](), set[tuple[int, int]](), list(wanted)
    while left:
        still = []
        for owner in left:
            suspects = {holder for _, holder in false_shares}
            found = decoding.decoded(
                state.shares[owner], state.session.threshold, partial(_is_secret_of, state, owner), suspects=suspects
            )
            if found is None:
                still.append(owner)
                continue
            secrets[owner] = found[0]
            false_shares |= {(owner, holder) for holder in found[1]}
        if len(still) == len(left):
            raise FalseShares(still, frozenset(false_shares))
        left = still
    return secrets, frozenset(false_shares)


def _is_secret_of(state: Revealing, owner: int, secret: bytes) -> bool:
    """Whether this is what the round needs of the device: the seed that it committed to, or the mask key that it advertised."""
    if owner in state.survivors:
        return messages.seed_commitment(state.session, owner, secret) == state.commitments[owner]
    return secret == keys.clamped(secret) and keys.agreement_public(secret) == state.advertisements[owner].mask_key


def _from(
    session: Session, advertisements: Mapping[int, messages.Advertisement], kind: Kind, sender: int, message: bytes
) -> bytes:
    if sender not in advertisements:
        raise ProtocolError(f"Device {sender} sent a {kind.name} message without having sent its keys.")
    return messages.opened_signed(session, kind, sender, advertisements[sender].identity, message)


def _first(sender: int, seen: Container[int], kind: Kind) -> None:
    if sender in seen:
        raise ProtocolError(f"Device {sender} has already sent a {kind.name} message.")
