"""The messages as canonical bytes: each message has exactly one encoding, and parsers refuse everything else.

    message   = header body [signature]
    header    = "TSAG" version kind context(32) sender(4) receiver(4)          46 bytes, little-endian

    kind        from      body
    ADVERTISE   device    identity(32) mask key(32) cipher key(32) certificate(64)     signed
    ROSTER      server    the neighbours' ADVERTISE messages
    SHARES      device    commitment to the self-mask's seed(32), then (receiver(4) ciphertext(80))…    signed
    DELIVERY    server    (sender(4) ciphertext(80))…
    MASKED      device    the neighbours that share a mask with it, as bits; hash of the vector(32)     signed;
                          then the packed vector. Without its vector, the message is the device's witness.
    SURVIVORS   server    the included devices, as bits over all; then the witnesses of the included neighbours
    AGREE       device    hash of the included devices(32)                     signed
    AGREEMENTS  server    the neighbours' AGREE messages
    REVEAL      device    (owner(4) which(1) share(32))…                       signed

A certificate is 64 bytes with which somebody vouches for the identity, or zeros; the protocol passes it on to `vouched`.
A device's messages are addressed to the server and signed with its identity key over header and body; the server forwards
messages between devices unchanged. Records are in strictly ascending order of their device. Bits run from the lowest bit of the
first byte, unused bits are zero. A parser accepts only messages of its session, kind, sender and receiver.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise

from tacit.errors import ProtocolError
from tacit.secagg import keys
from tacit.secagg.session import Session

VERSION = 1
SERVER = 0xFFFFFFFF
_MAGIC = b"TSAG"
_HEADER = struct.Struct("<4sBB32sII")
_HASH_BYTES = 32
CERTIFICATE_BYTES = 64
NO_CERTIFICATE = bytes(CERTIFICATE_BYTES)
ADVERTISED_BYTES = 96 + CERTIFICATE_BYTES
SHARE_PAIR_BYTES = 64
CIPHERTEXT_BYTES = SHARE_PAIR_BYTES + keys.TAG_BYTES


class Kind(IntEnum):
    """The messages, in the order of the protocol."""

    ADVERTISE = 1
    ROSTER = 2
    SHARES = 3
    DELIVERY = 4
    MASKED = 5
    SURVIVORS = 6
    AGREE = 7
    AGREEMENTS = 8
    REVEAL = 9


class SecretKind(IntEnum):
    """Which of a device's two secrets a share belongs to. No device ever reveals both of another."""

    SEED = 0
    MASK_KEY = 1


@dataclass(frozen=True)
class Advertisement:
    """A device's public keys, what vouches for the first, and the signed message that contains them."""

    identity: bytes
    mask_key: bytes
    cipher_key: bytes
    certificate: bytes
    message: bytes = field(repr=False)


def header(session: Session, kind: Kind, sender: int, receiver: int) -> bytes:
    """The first 46 bytes of a message. Ciphertexts are bound to them as well."""
    return _HEADER.pack(_MAGIC, VERSION, kind, session.context, sender, receiver)


def from_server(session: Session, kind: Kind, receiver: int, body: bytes) -> bytes:
    """A message of the server."""
    return header(session, kind, SERVER, receiver) + body


def signed(session: Session, kind: Kind, sender: int, identity: bytes, body: bytes) -> bytes:
    """A message of a device, signed with its identity's private key."""
    content = header(session, kind, sender, SERVER) + body
    return content + keys.sign(identity, content)


def opened(session: Session, kind: Kind, sender: int, receiver: int, message: bytes) -> bytes:
    """The body of a message; ProtocolError unless it has this session, kind, sender and receiver."""
    if len(message) < _HEADER.size:
        raise ProtocolError(f"Expected a {kind.name} message of at least {_HEADER.size} bytes, got {len(message)}.")
    magic, version, got_kind, context, got_sender, got_receiver = _HEADER.unpack_from(message)
    if magic != _MAGIC or version != VERSION:
        raise ProtocolError(f"Not a secure aggregation message of version {VERSION}.")
    if context != session.context:
        raise ProtocolError(f"The {kind.name} message belongs to another session.")
    if got_kind != kind:
        raise ProtocolError(f"Expected a {kind.name} message, got kind {got_kind}.")
    if (got_sender, got_receiver) != (sender, receiver):
        raise ProtocolError(
            f"Expected a {kind.name} message from {sender} to {receiver}, got one from {got_sender} to {got_receiver}."
        )
    return message[_HEADER.size :]


def opened_signed(session: Session, kind: Kind, sender: int, identity: bytes, message: bytes) -> bytes:
    """The body of a device's message, its signature verified."""
    rest = opened(session, kind, sender, SERVER, message)
    if len(rest) < keys.SIGNATURE_BYTES:
        raise ProtocolError(f"The {kind.name} message of device {sender} is too short to have a signature.")
    content, signature = message[: -keys.SIGNATURE_BYTES], message[-keys.SIGNATURE_BYTES :]
    if not keys.signed_by(identity, signature, content):
        raise ProtocolError(f"The signature on the {kind.name} message of device {sender} is wrong.")
    return rest[: -keys.SIGNATURE_BYTES]


def advertisement(session: Session, sender: int, message: bytes) -> Advertisement:
    """A device's keys.

    The signature proves that the identity made them; that the identity is the device's, others vouch for.
    """
    size = ADVERTISED_BYTES + keys.SIGNATURE_BYTES
    body = _sized(opened(session, Kind.ADVERTISE, sender, SERVER, message), size, Kind.ADVERTISE)
    identity = body[:32]
    opened_signed(session, Kind.ADVERTISE, sender, identity, message)
    mask_key, cipher_key = body[32:64], body[64:96]
    if not (keys.is_agreement_public(mask_key) and keys.is_agreement_public(cipher_key)):
        raise ProtocolError(f"The X25519 keys of device {sender} are not canonical or have a small order.")
    return Advertisement(identity, mask_key, cipher_key, body[96:ADVERTISED_BYTES], message)


def sender_of(message: bytes) -> int:
    """The sender that a message in a bundle claims."""
    if len(message) < _HEADER.size:
        raise ProtocolError(f"Expected a message of at least {_HEADER.size} bytes, got {len(message)}.")
    return int(_HEADER.unpack_from(message)[4])


def bundle(body: bytes, size: int, kind: Kind) -> dict[int, bytes]:
    """The messages of `size` bytes each in a server's message, by sender, in ascending order."""
    if len(body) % size:
        raise ProtocolError(f"Expected a {kind.name} message of whole messages of {size} bytes, got {len(body)} bytes.")
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return _ascending([(sender_of(part), part) for part in parts], kind)


def bundled_size(body_bytes: int) -> int:
    """The length of a signed message whose body has this many bytes."""
    return _HEADER.size + body_bytes + keys.SIGNATURE_BYTES


def records(body: bytes, size: int, kind: Kind) -> dict[int, bytes]:
    """Records of a device's number and `size` bytes, by device, in ascending order."""
    whole = 4 + size
    if len(body) % whole:
        raise ProtocolError(f"Expected a {kind.name} message of whole records of {whole} bytes, got {len(body)} bytes.")
    parts = [body[start : start + whole] for start in range(0, len(body), whole)]
    return _ascending([(int.from_bytes(part[:4], "little"), part[4:]) for part in parts], kind)


def as_records(items: Mapping[int, bytes]) -> bytes:
    """The inverse of `records`."""
    return b"".join(device.to_bytes(4, "little") + items[device] for device in sorted(items))


def as_bits(chosen: Iterable[int], universe: Sequence[int]) -> bytes:
    """A set as bits over an ordered universe."""
    members, bits = set(chosen), bytearray(bits_bytes(len(universe)))
    for place, item in enumerate(universe):
        if item in members:
            bits[place >> 3] |= 1 << (place & 7)
    return bytes(bits)


def from_bits(bits: bytes, universe: Sequence[int], kind: Kind) -> frozenset[int]:
    """The inverse of `as_bits`; a bit beyond the universe is refused."""
    if len(bits) != bits_bytes(len(universe)) or int.from_bytes(bits, "little") >> len(universe):
        raise ProtocolError(f"Expected a {kind.name} message with one bit for each of {len(universe)} devices.")
    return frozenset(item for place, item in enumerate(universe) if bits[place >> 3] >> (place & 7) & 1)


def bits_bytes(universe: int) -> int:
    """How many bytes `as_bits` makes."""
    return -(-universe // 8)


def witness_size(session: Session) -> int:
    """The length of a MASKED message without its vector."""
    return bundled_size(bits_bytes(session.neighbours) + _HASH_BYTES)


def witness_partners(session: Session, sender: int, identity: bytes, witness: bytes) -> tuple[frozenset[int], bytes]:
    """The neighbours that share a mask with the sender, and its vector's hash, as it signed them."""
    body = opened_signed(session, Kind.MASKED, sender, identity, witness)
    bits = bits_bytes(session.neighbours)
    _sized(body, bits + _HASH_BYTES, Kind.MASKED)
    return from_bits(body[:bits], session.neighbours_of(sender), Kind.MASKED), body[bits:]


def masked(session: Session, sender: int, identity: bytes, partners: Iterable[int], vector: bytes) -> bytes:
    """A MASKED message: the witness, then the packed vector it names by its hash."""
    body = as_bits(partners, session.neighbours_of(sender)) + digest(vector)
    return signed(session, Kind.MASKED, sender, identity, body) + vector


def digest(content: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(content).digest()


def survivors_digest(session: Session, survivors: Iterable[int]) -> bytes:
    """The hash that a device signs when it agrees on the set of included devices."""
    return digest(b"survivors" + session.context + as_bits(survivors, range(session.devices)))


def seed_commitment(session: Session, owner: int, seed: bytes) -> bytes:
    """A commitment to the seed of a device's self-mask. It hides the seed, because the seed has 256 random bits."""
    return digest(b"seed" + session.context + owner.to_bytes(4, "little") + seed)


def _sized(body: bytes, size: int, kind: Kind) -> bytes:
    if len(body) != size:
        raise ProtocolError(f"Expected a {kind.name} message with {size} bytes after its header, got {len(body)}.")
    return body


def _ascending(items: list[tuple[int, bytes]], kind: Kind) -> dict[int, bytes]:
    if any(first >= second for (first, _), (second, _) in pairwise(items)):
        raise ProtocolError(f"Expected a {kind.name} message with devices in ascending order, each once.")
    return dict(items)
