"""The key with which a server signs its log, receipts and confirmations, and the pseudonyms of devices that have left.

Both are derived from the secret that the server's processes share (`sealing.py`), so every process has the same, none is in the
database, and nothing has to be handed out. Whoever replaces the secret begins another log, which devices refuse that have
seen this one.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from functools import cached_property

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit.secagg import keys
from tacit.transparency.checkpoint import Checkpoint, PublicKey

_SALT_BYTES = 16


@dataclass(frozen=True)
class ServerKey:
    """What a process of the server signs with."""

    secret: bytes = field(repr=False)

    @cached_property
    def private(self) -> bytes:
        """The Ed25519 private key."""
        return self._derived("log")

    @cached_property
    def public(self) -> PublicKey:
        """Its public half. The key's name is the log's origin."""
        public = keys.identity_public(self.private)
        return PublicKey(f"tacit/fleet/{hashlib.sha256(public).hexdigest()[:16]}", public)

    def head(self, size: int, root: bytes) -> Checkpoint:
        """A signed head of the log."""
        return Checkpoint(self.public.name, size, root).signed(self.public.name, self.private)

    def sign(self, label: bytes, text: str) -> str:
        """A signature under a label, in hexadecimal."""
        return keys.sign(self.private, label + text.encode()).hex()

    def salt(self, *parts: str) -> str:
        """Random bytes to whoever has no secret; the same bytes for the same parts."""
        return self._keyed("salts", "\0".join(parts).encode())[: 2 * _SALT_BYTES]

    def pseudonym(self, identity: bytes) -> bytes:
        """What stands for a device's public key when the device has left. Without the secret nobody can tell whose it is."""
        return bytes.fromhex(self._keyed("pseudonyms", identity))

    def _keyed(self, purpose: str, content: bytes) -> str:
        return hmac.new(self._derived(purpose), content, hashlib.sha256).hexdigest()

    def _derived(self, purpose: str) -> bytes:
        info = b"tacit fleet server key v1\0" + purpose.encode()
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(self.secret)
