"""A device's signature on its requests, with a counter against replays.

A device signs the method, the path, its number, a counter and the body's digest with its Ed25519 identity key. The server
accepts a counter only if it is higher than the last one from that device, so a replayed request is refused. A device that
repeats a message signs it again with a new counter; the message itself counts once (`rounds/aggregator.py`). No clock is
involved. The digest is also a header, so that the server authenticates the sender before it reads the body, and then compares
the body with the digest. Enrolment and secure aggregation sign with the same key, each under a label of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from tacit.errors import FleetError
from tacit.secagg import keys

DEVICE, COUNTER, DIGEST, SIGNATURE = "tacit-device", "tacit-counter", "tacit-digest", "tacit-signature"
_REQUEST, _ENROL = b"tacit fleet request v1\0", b"tacit fleet enrolment v1\0"
MOST_COUNTER = 2**63 - 1


@dataclass(frozen=True)
class Credentials:
    """The sender that a request claims, not yet verified."""

    device: int
    counter: int
    digest: bytes  # SHA-256 of the body
    signature: bytes


def credentials_of(headers: Mapping[str, str]) -> Credentials:
    """Read the four headers; FleetError if one is missing or malformed."""
    try:
        numbers = int(headers[DEVICE]), int(headers[COUNTER])
        found = Credentials(*numbers, bytes.fromhex(headers[DIGEST]), bytes.fromhex(headers[SIGNATURE]))
    except (KeyError, ValueError):
        raise FleetError(
            "Expected the headers Tacit-Device, Tacit-Counter, Tacit-Digest and Tacit-Signature."
        ) from None
    sized = len(found.digest) == 32 and len(found.signature) == keys.SIGNATURE_BYTES
    if not (sized and 0 <= found.device <= MOST_COUNTER and 0 <= found.counter <= MOST_COUNTER):
        raise FleetError("Expected numbers below 2⁶³, a digest of 32 bytes and a signature of 64 in the headers.")
    return found


def signed_headers(private: bytes, device: int, counter: int, method: str, path: str, body: bytes) -> dict[str, str]:
    """The headers of a request from this device; `path` is as it is sent, with the query."""
    digest = hashlib.sha256(body).digest()
    signature = keys.sign(private, _request(device, counter, method, path, digest))
    return {DEVICE: str(device), COUNTER: str(counter), DIGEST: digest.hex(), SIGNATURE: signature.hex()}


def is_signed(public: bytes, credentials: Credentials, method: str, path: str) -> bool:
    """Whether the device with this public key signed this request, for a body with the digest in its credentials."""
    content = _request(credentials.device, credentials.counter, method, path, credentials.digest)
    return keys.signed_by(public, credentials.signature, content)


def is_body(credentials: Credentials, body: bytes | bytearray) -> bool:
    """Whether the body has the digest that was signed."""
    return hashlib.sha256(body).digest() == credentials.digest


def enrolment_proof(private: bytes, token: str) -> bytes:
    """Proves that the device that enrols with this token has the private key."""
    return keys.sign(private, _ENROL + token.encode())


def is_enrolment(public: bytes, token: str, proof: bytes) -> bool:
    """Whether the proof was made with this key for this token."""
    return keys.signed_by(public, proof, _ENROL + token.encode())


def _request(device: int, counter: int, method: str, path: str, digest: bytes) -> bytes:
    lines = (method.upper(), path, str(device), str(counter), digest.hex())
    return _REQUEST + "\n".join(lines).encode()
