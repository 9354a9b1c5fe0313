"""Encryption between the server's own processes, with a secret that they share.

The secret is 32 bytes in a file of its own, never in the database. Each message is encrypted and authenticated with a key
derived for one purpose, one round and one process, so that it cannot be read in transit, nor be presented as a message of
another purpose, round or process. Anybody who has the secret can act as the server.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit.errors import FleetError
from tacit.files import append_synced, refuse_if_others_can_read

SECRET_BYTES = 32
_NONCE_BYTES = 12


def seal(secret: bytes, plaintext: bytes, *, purpose: str, round_id: str, process: str) -> bytes:
    """Encrypt for this purpose, round and process; only a holder of the secret can read or make the result."""
    key, bound_to = _key(secret, purpose, round_id, process)
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plaintext, bound_to)


def unseal(secret: bytes, sealed: bytes, *, purpose: str, round_id: str, process: str) -> bytes:
    """Decrypt; FleetError unless it was sealed with this secret for exactly this purpose, round and process."""
    key, bound_to = _key(secret, purpose, round_id, process)
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound_to)
    except (InvalidTag, ValueError):
        raise FleetError(
            "The message was not sealed with this server's secret for this purpose, round and process."
        ) from None


def open_secret(path: Path) -> bytes:
    """The secret in this file, 64 hexadecimal digits; FleetError if there is none, or if other users can read it."""
    try:
        text = path.read_text(encoding="ascii")
        refuse_if_others_can_read(path)
        found = bytes.fromhex(text.strip())
    except FileNotFoundError:
        raise FleetError(f"Expected the server's secret in {path}, which does not exist.") from None
    except (OSError, ValueError):
        found = b""
    if len(found) != SECRET_BYTES:
        raise FleetError(f"The file {path} does not hold {2 * SECRET_BYTES} hexadecimal digits.")
    return found


def make_secret(path: Path) -> bytes:
    """The secret in this file; a random one is written (mode 0600) if there is no such file."""
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
