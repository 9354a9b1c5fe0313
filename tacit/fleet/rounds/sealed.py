"""Partial sums on their way from one process to another: encrypted and authenticated, or not taken.

Processes of one server share a secret of 32 bytes that is in a file of its own and never in the database. What travels is
encrypted under a key derived for one purpose, one round and one process, so that nothing can be read on the way, nor be passed
off as something else, as another round's or as another process's. Whoever has the secret is the server.
"""

from __future__ import annotations

import os
import secrets
import struct
from pathlib import Path

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit.errors import FleetError
from tacit.files import append_synced, refuse_if_others_can_read
from tacit.fleet.rounds.sums import PartialSum

SECRET_BYTES = 32
_NONCE_BYTES = 12
_SUM = struct.Struct("<ddQQ")  # weight, bits, devices, numbers


def seal(secret: bytes, plaintext: bytes, *, purpose: str, round_id: str, process: str) -> bytes:
    """Bytes that only a holder of the secret can read or make, for this purpose, round and process."""
    key, bound_to = _key(secret, purpose, round_id, process)
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plaintext, bound_to)


def unseal(secret: bytes, sealed: bytes, *, purpose: str, round_id: str, process: str) -> bytes:
    """What was sealed; FleetError unless it was sealed with this secret for exactly this."""
    key, bound_to = _key(secret, purpose, round_id, process)
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound_to)
    except (InvalidTag, ValueError):
        raise FleetError("Expected a message that a process of this server has sealed, got another.") from None


def pack_sum(found: PartialSum) -> bytes:
    """A partial sum as bytes. They are not protected: seal them."""
    head = _SUM.pack(found.weight, found.bits, len(found.devices), len(found.update))
    return head + np.asarray(found.devices, "<i8").tobytes() + found.update.astype("<f8", copy=False).tobytes()


def unpack_sum(content: bytes, like: PartialSum) -> PartialSum:
    """The inverse, for the round of `like`; FleetError if it has other numbers than that."""
    weight, bits, devices, numbers = _SUM.unpack_from(content)
    if numbers != len(like.update) or len(content) != _SUM.size + 8 * (devices + numbers):
        raise FleetError(f"Expected a partial sum of {len(like.update)} numbers, got {numbers}.")
    named = np.frombuffer(content, "<i8", devices, _SUM.size)
    update = np.frombuffer(content, "<f8", numbers, _SUM.size + 8 * devices)
    return PartialSum(like.clip_norm, like.shapes, like.per_layer, update.copy(), weight, bits, named.tolist())


def open_secret(path: Path) -> bytes:
    """The secret in this file, 64 hexadecimal digits; FleetError if there is none, or if others may read it."""
    try:
        text = path.read_text(encoding="ascii")
        refuse_if_others_can_read(path)
        found = bytes.fromhex(text.strip())
    except FileNotFoundError:
        raise FleetError(f"Expected the server's secret in {path}, which does not exist.") from None
    except (OSError, ValueError):
        found = b""
    if len(found) != SECRET_BYTES:
        raise FleetError(f"Expected {2 * SECRET_BYTES} hexadecimal digits in {path}, got something else.")
    return found


def make_secret(path: Path) -> bytes:
    """The secret in this file, drawn and written (mode 0600) if there is no such file."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return open_secret(path)
    try:
        append_synced(descriptor, secrets.token_hex(SECRET_BYTES).encode())
    finally:
        os.close(descriptor)
    return open_secret(path)


def _key(secret: bytes, purpose: str, round_id: str, process: str) -> tuple[bytes, bytes]:
    label = b"\0".join(part.encode() for part in ("tacit fleet sealed v1", purpose, round_id, process))
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=label).derive(secret), label
