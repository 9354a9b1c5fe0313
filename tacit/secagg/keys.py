"""Cryptographic primitives, all from the `cryptography` library, each with one use and one label.

    identity    Ed25519     signs a device's messages; vouched for by a party other than the server
    mask key    X25519      agrees on the seed of the mask of two neighbours; its private half is split into shares
    cipher key  X25519      agrees on the keys that encrypt shares between neighbours; never leaves its device

A seed or key is derived by HKDF-SHA256 with the session's context as salt and (use, sender, receiver) as info. Every derived
AES-GCM key encrypts exactly one message, so its nonce may be constant.
"""

from __future__ import annotations

import struct

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit.errors import ProtocolError

KEY_BYTES = 32
SIGNATURE_BYTES = 64
TAG_BYTES = 16
_NONCE = bytes(12)
# X25519 works modulo this prime and ignores the bit above it, so without a check a key would have several encodings.
_FIELD = 2**255 - 19
# The points of order 1, 2, 4 and 8, with which every private key agrees on zero.
_SMALL_ORDER = frozenset(
    (
        0,
        1,
        _FIELD - 1,
        0x00B8495F16056286FDB1329CEB8D09DA6AC49FF1FAE35616AEB8413B7C7AEBE0,
        0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F,
    )
)


def clamped(private: bytes) -> bytes:
    """The X25519 private key of these 32 random bytes, in the canonical form that recovery returns."""
    return bytes([private[0] & 248]) + private[1:31] + bytes([private[31] & 127 | 64])


def agreement_public(private: bytes) -> bytes:
    """The public half of an X25519 key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def is_agreement_public(public: bytes) -> bool:
    """Whether these 32 bytes are the canonical encoding of an X25519 public key of large order."""
    value = int.from_bytes(public, "little")
    return value < _FIELD and value not in _SMALL_ORDER


def agree(private: bytes, public: bytes) -> bytes:
    """The shared secret of two X25519 keys, 32 bytes."""
    try:
        return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise ProtocolError("The X25519 public key has a small order: the shared secret would be zero.") from None


def derive(secret: bytes, context: bytes, use: bytes, first: int, second: int) -> bytes:
    """32 bytes derived for this use between these two devices in this session."""
    info = use + struct.pack("<II", first, second)
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=context, info=info).derive(secret)


def encrypt(key: bytes, plaintext: bytes, bound_to: bytes) -> bytes:
    """AES-256-GCM with a key that is used once. Decryption fails if a bit of the result or of `bound_to` was changed."""
    return AESGCM(key).encrypt(_NONCE, plaintext, bound_to)


def decrypt(key: bytes, ciphertext: bytes, bound_to: bytes) -> bytes | None:
    """The plaintext; None if the ciphertext or `bound_to` was changed."""
    try:
        return AESGCM(key).decrypt(_NONCE, ciphertext, bound_to)
    except InvalidTag:
        return None


def identity_public(private: bytes) -> bytes:
    """The public half of an Ed25519 key."""
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def sign(private: bytes, message: bytes) -> bytes:
    """An Ed25519 signature, 64 bytes."""
    return Ed25519PrivateKey.from_private_bytes(private).sign(message)


def signed_by(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the holder of this identity signed exactly this message."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
