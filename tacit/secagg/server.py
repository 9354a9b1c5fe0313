"""The server's part of a round, as pure stages. It routes what it cannot read, adds what it cannot see through, and at the
end learns one sum.

    state = opened(session)
    state = receive_…(state, sender, message)      once for each message of the stage, as it comes
    outgoing, state = close_…(state)               when enough have come or time is up; who has not come is lost

`sender` is who the transport says is speaking. `receive_…` raises `ProtocolError` for a message that device cannot honestly
have sent; the state that was passed in is still good, and the device counts as lost. `close_…` raises when too few are left:
the round has then failed, and no mask has been removed.

    close_sharing … close_agreeing                 as above
    recovered(state)                               the masks to take off, from the revealed shares
    masks.with_masks(total, …)                     the sum; the masks may be divided among workers

Masked vectors are added as they come, so memory does not grow with the number of devices.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tacit.errors import ProtocolError
from tacit.secagg import device, keys, masks, messages, shamir
from tacit.secagg.messages import Kind, Which
from tacit.secagg.session import Session

Outgoing = dict[int, bytes]


@dataclass(frozen=True)
class Advertising:
    """Collecting keys."""

    session: Session
    advertisements: Mapping[int, messages.Advertisement] = field(repr=False)


@dataclass(frozen=True)
class Sharing:
    """Collecting encrypted shares: sender → receiver → ciphertext, and each sender's commitment."""

    session: Session
    advertisements: Mapping[int, messages.Advertisement] = field(repr=False)
    commitments: Mapping[int, bytes] = field(repr=False)
    sealed: Mapping[int, Mapping[int, bytes]] = field(repr=False)


@dataclass(frozen=True)
class Masking:
    """Adding up masked vectors."""

    session: Session
    advertisements: Mapping[int, messages.Advertisement] = field(repr=False)
    commitments: Mapping[int, bytes] = field(repr=False)
    total: masks.Words = field(repr=False)
    witnesses: Mapping[int, bytes] = field(repr=False)


@dataclass(frozen=True)
class Agreeing:
    """Collecting signatures on the set of included devices. From here on the set and the masked total are settled."""

    session: Session
    advertisements: Mapping[int, messages.Advertisement] = field(repr=False)
    commitments: Mapping[int, bytes] = field(repr=False)
    total: masks.Words = field(repr=False)
    survivors: frozenset[int]
    digest: bytes
    agreements: Mapping[int, bytes] = field(repr=False)


@dataclass(frozen=True)
class Revealing:
    """Collecting shares: owner → holder → share, of the one secret of each owner that the round needs."""

    session: Session
    advertisements: Mapping[int, messages.Advertisement] = field(repr=False)
    commitments: Mapping[int, bytes] = field(repr=False)
    total: masks.Words = field(repr=False)
    survivors: frozenset[int]
    asked: frozenset[int]
    heard: frozenset[int]
    shares: Mapping[int, Mapping[int, bytes]] = field(repr=False)


def opened(session: Session) -> Advertising:
    """A round in which nobody has spoken yet."""
    return Advertising(session, {})


def receive_advertisement(state: Advertising, sender: int, message: bytes) -> Advertising:
    """A device's keys."""
    if not 0 <= sender < state.session.devices:
        raise ProtocolError(f"Expected a device from 0 to {state.session.devices - 1}, got {sender}.")
    _first(sender, state.advertisements, Kind.ADVERTISE)
    advertisement = messages.advertisement(state.session, sender, message)
    return replace(state, advertisements={**state.advertisements, sender: advertisement})


def close_advertising(state: Advertising) -> tuple[Outgoing, Sharing]:
    """Each device's neighbours' keys."""
    session = state.session
    _enough(len(state.advertisements), session.minimum, "devices with keys")
    outgoing = {}
    for index in sorted(state.advertisements):
        around = [other for other in session.neighbours_of(index) if other in state.advertisements]
        body = b"".join(state.advertisements[other].message for other in around)
        outgoing[index] = messages.from_server(session, Kind.ROSTER, index, body)
    return outgoing, Sharing(session, state.advertisements, {}, {})


def receive_shares(state: Sharing, sender: int, message: bytes) -> Sharing:
    """A device's shares, one pair for each neighbour with keys; sealed, so that only their number can be checked."""
    _first(sender, state.sealed, Kind.SHARES)
    body = _from(state.session, state.advertisements, Kind.SHARES, sender, message)
    if len(body) < 32:
        raise ProtocolError(f"Expected device {sender}'s SHARES message to hold a commitment, got a shorter one.")
    sealed = messages.records(body[32:], messages.CIPHERTEXT_BYTES, Kind.SHARES)
    expected = {other for other in state.session.neighbours_of(sender) if other in state.advertisements}
    if set(sealed) != expected:
        raise ProtocolError(
            f"Expected device {sender} to send shares for each neighbour with keys, got other neighbours."
        )
    return replace(
        state,
        commitments={**state.commitments, sender: body[:32]},
        sealed={**state.sealed, sender: sealed},
    )


def close_sharing(state: Sharing) -> tuple[Outgoing, Masking]:
    """The shares each device keeps for its neighbours."""
    session = state.session
    _enough(len(state.sealed), session.minimum, "devices with shares")
    outgoing = {}
    for index in sorted(state.sealed):
        kept = {other: state.sealed[other][index] for other in session.neighbours_of(index) if other in state.sealed}
        outgoing[index] = messages.from_server(session, Kind.DELIVERY, index, messages.as_records(kept))
    total = np.zeros(session.dimension, np.uint32)
    return outgoing, Masking(session, state.advertisements, state.commitments, total, {})


def receive_masked(state: Masking, sender: int, message: bytes) -> Masking:
    """A masked vector, added to the total."""
    session = state.session
    _first(sender, state.witnesses, Kind.MASKED)
    if sender not in state.commitments:
        raise ProtocolError(f"Expected MASKED messages of devices that sent shares, got device {sender}'s.")
    size = messages.witness_size(session)
    witness, vector = message[:size], message[size:]
    identity = state.advertisements[sender].identity
    partners, expected_digest = messages.witness_partners(session, sender, identity, witness)
    if partners != {other for other in session.neighbours_of(sender) if other in state.commitments}:
        raise ProtocolError(f"Expected device {sender} to share masks with all neighbours with shares, got others.")
    if messages.digest(vector) != expected_digest:
        raise ProtocolError(f"Expected the vector that device {sender} signed, got another one.")
    total = state.total + masks.unpack(vector, session.dimension, session.bits)
    return replace(state, total=total, witnesses={**state.witnesses, sender: witness})


def close_masking(state: Masking) -> tuple[Outgoing, Agreeing]:
    """Who is included, and the included neighbours' witnesses. A vector that comes later is not added."""
    session, survivors = state.session, frozenset(state.witnesses)
    _enough(len(survivors), session.minimum, "devices with vectors")
    bits = messages.as_bits(survivors, range(session.devices))
    outgoing = {}
    for index in sorted(survivors):
        around = [state.witnesses[other] for other in session.neighbours_of(index) if other in survivors]
        outgoing[index] = messages.from_server(session, Kind.SURVIVORS, index, bits + b"".join(around))
    total = masks.reduced(state.total, session.bits)
    digest = messages.survivors_digest(session, survivors)
    return outgoing, Agreeing(session, state.advertisements, state.commitments, total, survivors, digest, {})


def receive_agreement(state: Agreeing, sender: int, message: bytes) -> Agreeing:
    """A device's signature on the set of included devices."""
    _first(sender, state.agreements, Kind.AGREE)
    if sender not in state.survivors:
        raise ProtocolError(f"Expected AGREE messages of included devices, got device {sender}'s.")
    body = _from(state.session, state.advertisements, Kind.AGREE, sender, message)
    if body != state.digest:
        raise ProtocolError(f"Expected device {sender} to agree on the included devices, got another set.")
    return replace(state, agreements={**state.agreements, sender: message})


def close_agreeing(state: Agreeing) -> tuple[Outgoing, Revealing]:
    """Each device's neighbours' agreements."""
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
    """A device's shares of the secrets of its neighbours."""
    _first(sender, state.heard, Kind.REVEAL)
    if sender not in state.asked:
        raise ProtocolError(f"Expected REVEAL messages of devices that agreed, got device {sender}'s.")
    body = _from(state.session, state.advertisements, Kind.REVEAL, sender, message)
    revealed = messages.records(body, 1 + shamir.SECRET_BYTES, Kind.REVEAL)
    if set(revealed) != {other for other in state.session.neighbours_of(sender) if other in state.commitments}:
        raise ProtocolError(f"Expected device {sender} to reveal a share of each neighbour with shares, got others.")
    shares = dict(state.shares)
    for owner, record in revealed.items():
        if record[0] != (Which.SEED if owner in state.survivors else Which.MASK_KEY):
            raise ProtocolError(f"Expected device {sender} to reveal the secret that was asked for, got the other one.")
        shares[owner] = {**shares.get(owner, {}), sender: record[1:]}
    return replace(state, heard=state.heard | {sender}, shares=shares)


def recovered(state: Revealing) -> tuple[masks.Mask, ...]:
    """Every mask that is still in `state.total`, to be added to it as it stands: the sum of the included vectors is
    ``masks.with_masks(state.total, recovered(state), session.bits)``.

    Raises before any secret is put together if one of them lacks shares, and if a secret is not the one its owner
    committed to, which a false share causes.
    """
    session, threshold = state.session, state.session.threshold
    # A lost device nobody included shares a mask with has left nothing to remove.
    lost = {
        owner: [other for other in session.neighbours_of(owner) if other in state.survivors]
        for owner in state.commitments
        if owner not in state.survivors
    }
    wanted = [*sorted(state.survivors), *(owner for owner in sorted(lost) if lost[owner])]
    for owner in wanted:
        _enough(len(state.shares.get(owner, {})), threshold, f"shares of a secret of device {owner}")
    found = []
    for owner in wanted:
        secret = shamir.combine(state.shares[owner], threshold)
        if owner in state.survivors:
            if messages.seed_commitment(session, owner, secret) != state.commitments[owner]:
                raise ProtocolError(f"Expected the seed device {owner} committed to, got another: a share is false.")
            mask = device.self_mask(session, owner, secret)
            found.append(replace(mask, negative=True))
            continue
        if secret != keys.clamped(secret) or keys.agreement_public(secret) != state.advertisements[owner].mask_key:
            raise ProtocolError(f"Expected the mask key device {owner} advertised, got another: a share is false.")
        # What `owner` would have added is what is missing from its neighbours' sum.
        for other in lost[owner]:
            public = state.advertisements[other].mask_key
            found.append(device.pair_mask(session, secret, public, owner=owner, other=other))
    return tuple(found)


def _from(
    session: Session, advertisements: Mapping[int, messages.Advertisement], kind: Kind, sender: int, message: bytes
) -> bytes:
    if sender not in advertisements:
        raise ProtocolError(f"Expected a {kind.name} message of a device that sent its keys, got device {sender}'s.")
    return messages.opened_signed(session, kind, sender, advertisements[sender].identity, message)


def _first(sender: int, seen: Container[int], kind: Kind) -> None:
    if sender in seen:
        raise ProtocolError(f"Expected one {kind.name} message of device {sender}, got another.")


def _enough(got: int, needed: int, what: str) -> None:
    if got < needed:
        raise ProtocolError(f"Expected at least {needed} {what}, got {got}.")
