"""Files that a device trusts because of a key: FILE, and beside it FILE.signature with an Ed25519 signature in hexadecimal."""

from __future__ import annotations

import os
from pathlib import Path

from tacit.errors import FleetError
from tacit.files import write_atomic
from tacit.secagg import keys

SUFFIX = ".signature"
_MOST_BYTES = 1 << 22


def signature_path(path: Path) -> Path:
    """Where the signature of this file lies."""
    return path.with_name(path.name + SUFFIX)


def read_signed(path: Path, public: str, label: bytes) -> bytes:
    """The bytes of this file; FleetError unless this key signed them for this use."""
    try:
        content = path.read_bytes()
        signature = bytes.fromhex(signature_path(path).read_text(encoding="ascii").strip())
    except FileNotFoundError as error:
        raise FleetError(f"The file {error.filename} is missing.") from None
    except (OSError, ValueError):
        raise FleetError(f"The file {path} or its signature cannot be read.") from None
    if len(content) > _MOST_BYTES or not keys.signed_by(bytes.fromhex(public), signature, label + content):
        raise FleetError(f"The file {path} is not signed with the key {public[:16]}….")
    return content


def sign_file(path: Path, private: bytes, label: bytes) -> None:
    """Write the file's signature beside it."""
    write_atomic(signature_path(path), keys.sign(private, label + path.read_bytes()).hex() + "\n")


def signing_key(path: Path) -> bytes:
    """The private key in this file, 64 hexadecimal digits; a random one is written (mode 0600) if there is no such file."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read_key(path)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(os.urandom(keys.KEY_BYTES).hex() + "\n")
    return _read_key(path)


def _read_key(path: Path) -> bytes:
    try:
        found = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        found = b""
    if len(found) != keys.KEY_BYTES:
        raise FleetError(f"The file {path} does not hold {2 * keys.KEY_BYTES} hexadecimal digits.")
    return found
