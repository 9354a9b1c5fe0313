"""The device's stages of a round. Each is a pure function: (state, message) → (message, next state).

    advertise ─► share ─► mask ─► agree ─► reveal
    keys         shares   vector  signed   shares of the lost devices' mask keys
                                  set      and of the included devices' seeds

A stage raises `ProtocolError` if an honest server would not send this message to this device now; the device then leaves the
round. **A state must be used only once.** `share` twice encrypts twice under one key and nonce; `mask` twice shows the
difference of two vectors; `agree` or `reveal` twice, with two different messages, reveals both secrets of a neighbour. So the
caller replaces the state with the returned one and deletes the old one, even if the stage raises. A message that was lost is
repeated by sending the same bytes again. States hold secrets: a repr does not show them, and they must not be logged.

The session's constants come through the server. A device that does not trust the server checks them with `parameters.check`.

Before it reveals anything, a device checks that

- all its neighbours are vouched for, and signed their messages for this session;
- it is itself among the included devices, there are at least `minimum` of them, and at least `threshold` are its neighbours;
- it shares a mask with exactly those included neighbours that share one with it, as their signed witnesses say;
- at least `threshold` of its neighbours signed the same set of included devices. An honest device signs one set a round.

docs/secagg.md proves that these four checks suffice against a malicious server with the parameters of `parameters.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tacit.errors import ProtocolError
from tacit.secagg import keys, masks, messages, shamir
from tacit.secagg.messages import Kind, SecretKind
from tacit.secagg.session import Session, require_at_least
from tacit.secagg.shamir import Entropy

# Whether a party other than the server vouches that the device with this number has this identity key, given the number, the
# key and the device's certificate.
Vouched = Callable[[int, bytes, bytes], bool]


@dataclass(frozen=True)
class Secrets:
    """The secrets of a device for one round."""

    identity: bytes = field(repr=False)
    mask_key: bytes = field(repr=False)
    cipher_key: bytes = field(repr=False)
    seed: bytes = field(repr=False)


@dataclass(frozen=True)
class Advertised:
    """After `advertise`."""

    session: Session
    index: int
    secrets: Secrets


@dataclass(frozen=True)
class Shared:
    """After `share`: the neighbours whose keys arrived."""

    session: Session
    index: int
    secrets: Secrets
    neighbours: Mapping[int, messages.Advertisement] = field(repr=False)


@dataclass(frozen=True)
class _KeepsShares:
    """The neighbours that the device shares a mask with, and the pair of shares that it keeps for each."""

    session: Session
    index: int
    identity: bytes = field(repr=False)
    identities: Mapping[int, bytes] = field(repr=False)
    shares: Mapping[int, bytes] = field(repr=False)


@dataclass(frozen=True)
class Masked(_KeepsShares):
    """After `mask`."""


@dataclass(frozen=True)
class Agreed(_KeepsShares):
    """After `agree`: also the set of included devices that it signed."""

    survivors: frozenset[int]


@dataclass(frozen=True)
class Revealed:
    """After `reveal`: the device is done."""

    session: Session
    index: int


def advertise(
    session: Session,
    index: int,
    *,
    identity: bytes,
    entropy: Entropy,
    certificate: bytes = messages.NO_CERTIFICATE,
) -> tuple[bytes, Advertised]:
    """Fresh keys for this round, signed with the device's identity (an Ed25519 private key, 32 bytes)."""
    if not 0 <= index < session.devices:
        raise ProtocolError(f"Expected index to be 0 to {session.devices - 1}, got {index}.")
    secrets = Secrets(
        identity,
        mask_key=keys.clamped(entropy(keys.KEY_BYTES)),
        cipher_key=keys.clamped(entropy(keys.KEY_BYTES)),
        seed=shamir.random_secret(entropy),
    )
    body = (
        keys.identity_public(identity)
        + keys.agreement_public(secrets.mask_key)
        + keys.agreement_public(secrets.cipher_key)
        + certificate
    )
    message = messages.signed(session, Kind.ADVERTISE, index, identity, body)
    return message, Advertised(session, index, secrets)


def share(state: Advertised, roster: bytes, *, vouched: Vouched, entropy: Entropy) -> tuple[bytes, Shared]:
    """Split both secrets into shares, and encrypt one pair of shares for each neighbour."""
    session, index, secrets = state.session, state.index, state.secrets
    body = messages.opened(session, Kind.ROSTER, messages.SERVER, index, roster)
    around = set(session.neighbours_of(index))
    neighbours = {}
    for other, message in messages.bundle(body, messages.bundled_size(messages.ADVERTISED_BYTES), Kind.ROSTER).items():
        if other not in around:
            raise ProtocolError(f"Expected keys of neighbours of device {index}, got device {other}'s.")
        neighbours[other] = messages.advertisement(session, other, message)
        if not vouched(other, neighbours[other].identity, neighbours[other].certificate):
            raise ProtocolError(f"Nobody vouches for the identity of device {other}.")
    require_at_least(len(neighbours), session.threshold, "neighbours with keys")
    seeds = shamir.split(secrets.seed, list(neighbours), session.threshold, entropy=entropy)
    mask_keys = shamir.split(secrets.mask_key, list(neighbours), session.threshold, entropy=entropy)
    sealed = {}
    for other, public in neighbours.items():
        key = _share_key(session, secrets.cipher_key, public.cipher_key, sender=index, receiver=other)
        bound_to = messages.header(session, Kind.SHARES, index, other)
        sealed[other] = keys.encrypt(key, seeds[other] + mask_keys[other], bound_to)
    content = messages.seed_commitment(session, index, secrets.seed) + messages.as_records(sealed)
    message = messages.signed(session, Kind.SHARES, index, secrets.identity, content)
    return message, Shared(session, index, secrets, neighbours)


def mask(state: Shared, delivery: bytes, values: masks.Words) -> tuple[bytes, Masked]:
    """Add to the vector (entries below 2^bits) its self-mask and one mask for each neighbour whose shares arrived."""
    session, index, secrets = state.session, state.index, state.secrets
    if values.shape != (session.dimension,) or values.dtype.kind != "u" or int(values.max()) >> session.bits:
        raise ProtocolError(
            f"Expected {session.dimension} unsigned values below 2^{session.bits}, got {values.dtype} {values.shape}."
        )
    body = messages.opened(session, Kind.DELIVERY, messages.SERVER, index, delivery)
    shares, layers = {}, [self_mask(session, index, secrets.seed)]
    for other, sealed in messages.records(body, messages.CIPHERTEXT_BYTES, Kind.DELIVERY).items():
        if other not in state.neighbours:
            raise ProtocolError(f"Expected shares of neighbours with keys, got device {other}'s.")
        public = state.neighbours[other]
        key = _share_key(session, secrets.cipher_key, public.cipher_key, sender=other, receiver=index)
        pair = keys.decrypt(key, sealed, messages.header(session, Kind.SHARES, other, index))
        if pair is None:
            raise ProtocolError(f"The shares from device {other} are not what it encrypted for device {index}.")
        shares[other] = pair
        layers.append(pair_mask(session, secrets.mask_key, public.mask_key, owner=index, other=other))
    require_at_least(len(shares), session.threshold, "neighbours with shares")
    vector = masks.pack(masks.with_masks(values.astype("u4", copy=False), layers, session.bits), session.bits)
    message = messages.masked(session, index, secrets.identity, shares, vector)
    identities = {other: state.neighbours[other].identity for other in shares}
    return message, Masked(session, index, secrets.identity, identities, shares)


def agree(state: Masked, announcement: bytes) -> tuple[bytes, Agreed]:
    """Check the set of included devices and sign it."""
    session, index = state.session, state.index
    body = messages.opened(session, Kind.SURVIVORS, messages.SERVER, index, announcement)
    size = messages.bits_bytes(session.devices)
    survivors = messages.from_bits(body[:size], range(session.devices), Kind.SURVIVORS)
    witnesses = messages.bundle(body[size:], messages.witness_size(session), Kind.SURVIVORS)
    if index not in survivors:
        raise ProtocolError(f"Device {index} sent its vector and is not among the included devices.")
    require_at_least(len(survivors), session.minimum, "included devices")
    included = survivors.intersection(session.neighbours_of(index))
    if set(witnesses) != included:
        raise ProtocolError("The witnesses are not those of exactly the included neighbours.")
    if not included <= set(state.shares):
        raise ProtocolError("An included neighbour shares no mask with this device.")
    for other, witness in witnesses.items():
        partners, _ = messages.witness_partners(session, other, state.identities[other], witness)
        if index not in partners:
            raise ProtocolError(f"By its witness, device {other} shares no mask with device {index}.")
    require_at_least(len(included), session.threshold, "included neighbours")
    content = messages.survivors_digest(session, survivors)
    message = messages.signed(session, Kind.AGREE, index, state.identity, content)
    return message, Agreed(session, index, state.identity, state.identities, state.shares, survivors)


def reveal(state: Agreed, agreements: bytes) -> tuple[bytes, Revealed]:
    """Reveal one share for each neighbour: of its seed if it is included, of its mask key if it was lost; never both."""
    session, index = state.session, state.index
    body = messages.opened(session, Kind.AGREEMENTS, messages.SERVER, index, agreements)
    agreed = messages.bundle(body, messages.bundled_size(32), Kind.AGREEMENTS)
    expected = messages.survivors_digest(session, state.survivors)
    for other, message in agreed.items():
        if other not in state.shares or other not in state.survivors:
            raise ProtocolError(f"Expected agreements of included neighbours, got device {other}'s.")
        content = messages.opened_signed(session, Kind.AGREE, other, state.identities[other], message)
        if content != expected:
            raise ProtocolError(f"Device {other} agreed on another set of included devices.")
    require_at_least(len(agreed), session.threshold, "neighbours that agree")
    revealed = {}
    for other, pair in state.shares.items():
        included = other in state.survivors
        which = SecretKind.SEED if included else SecretKind.MASK_KEY
        revealed[other] = bytes([which]) + (pair[:32] if included else pair[32:])
    message = messages.signed(session, Kind.REVEAL, index, state.identity, messages.as_records(revealed))
    return message, Revealed(session, index)


def self_mask(session: Session, owner: int, seed: bytes) -> masks.Mask:
    """The mask that only its owner knows until its neighbours reveal the seed."""
    return masks.Mask(keys.derive(seed, session.context, b"self mask", owner, owner), negative=False)


def pair_mask(session: Session, private: bytes, public: bytes, *, owner: int, other: int) -> masks.Mask:
    """The mask `owner` shares with `other`: the lower of the two adds it, the higher subtracts it."""
    low, high = min(owner, other), max(owner, other)
    seed = keys.derive(keys.agree(private, public), session.context, b"pair mask", low, high)
    return masks.Mask(seed, negative=owner == high)


def _share_key(session: Session, private: bytes, public: bytes, *, sender: int, receiver: int) -> bytes:
    return keys.derive(keys.agree(private, public), session.context, b"shares", sender, receiver)
