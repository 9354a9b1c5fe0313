"""Attestation: a device proves to a voucher that it is a device, and each device gets one certificate.

An identity key costs nothing, so enrolment alone cannot tell one person's phone from a thousand made-up ones. A phone can prove
more: its hardware, or its maker, signs a statement about a challenge. Whoever vouches for devices checks the statement, and
signs one identity key for each device (`vouching.py`). The voucher is not the server, or its word would be the server's.

    voucher ── challenge ──► device ── statement about challenge and identity ──► voucher ── certificate ──► device

Here is the interface, the voucher, and `SoftwareMaker`, which stands in for hardware in tests. A real voucher implements
`Verifier` for what its devices have. What binds the statement to the challenge and the identity is `bound_to`:

| system | where `bound_to` goes | what the verifier checks | what names the device |
|---|---|---|---|
| Play Integrity | `nonce` of the request | its signature, the verdicts on app and device | device recall |
| App Attest | `clientDataHash` | the certificate chain, the app, the counter | the attested key |
| TPM 2.0 quote | `qualifyingData` | the endorsement certificate, the registers | the endorsement key |
"""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass
from typing import Protocol

from tacit.errors import FleetError
from tacit.fleet.device.vouching import certificate_of
from tacit.secagg import keys

CHALLENGE_BYTES = 32
_LABEL = b"tacit fleet attestation v1\0"


class Attestor(Protocol):
    """What a device has that can prove what it is."""

    def statement(self, bound: bytes) -> bytes:
        """A statement about these 32 bytes (`bound_to`)."""
        ...


class Verifier(Protocol):
    """What a voucher believes."""

    def device_named_by(self, bound: bytes, statement: bytes) -> str:
        """A lasting name of the device that made the statement about these bytes; FleetError if none did."""
        ...


def bound_to(challenge: bytes, identity: bytes) -> bytes:
    """What a statement is about: this challenge and this identity's public key."""
    return hashlib.sha256(_LABEL + challenge + identity).digest()


class Voucher:
    """Signs one identity key for each device, for good: another key of the same device is refused.

    `known` maps devices' names to identity keys. Whoever runs a voucher keeps it: a voucher that forgets vouches twice.
    """

    def __init__(self, private: bytes, verifier: Verifier, known: dict[str, bytes] | None = None) -> None:
        self._private, self._verifier = private, verifier
        self.known = {} if known is None else known
        self._challenges: set[bytes] = set()
        self._lock = threading.Lock()

    @property
    def public(self) -> str:
        """The key that a policy names (`SecAggAssumptions.vouchers`)."""
        return keys.identity_public(self._private).hex()

    def challenge(self) -> bytes:
        """A fresh challenge, which serves once."""
        fresh = os.urandom(CHALLENGE_BYTES)
        with self._lock:
            self._challenges.add(fresh)
        return fresh

    def certify(self, identity: bytes, challenge: bytes, statement: bytes) -> bytes:
        """A certificate for this identity's public key; FleetError if the statement does not prove that it is a device's."""
        with self._lock:
            if challenge not in self._challenges:
                raise FleetError("The challenge is not one of this voucher, or has served already.")
            self._challenges.remove(challenge)
            name = self._verifier.device_named_by(bound_to(challenge, identity), statement)
            if self.known.setdefault(name, identity) != identity:
                raise FleetError("The voucher has certified another identity of this device.")
        return certificate_of(self._private, identity)


@dataclass(frozen=True)
class SoftwareMaker:
    """Stands in for a maker of hardware, in tests: whoever has its key can make any number of devices."""

    private: bytes

    def device(self, name: str) -> SoftwareDevice:
        """A device of this maker."""
        return SoftwareDevice(name, self.private)

    def device_named_by(self, bound: bytes, statement: bytes) -> str:
        """The device's name, if one of this maker's made the statement."""
        signature, name = statement[: keys.SIGNATURE_BYTES], statement[keys.SIGNATURE_BYTES :]
        if not keys.signed_by(keys.identity_public(self.private), signature, _LABEL + bound + name):
            raise FleetError("The statement was not made by a known device about this challenge and identity.")
        return name.decode(errors="replace")


@dataclass(frozen=True)
class SoftwareDevice:
    """A device of a `SoftwareMaker`."""

    name: str
    private: bytes

    def statement(self, bound: bytes) -> bytes:
        """The maker's signature, and the device's name."""
        name = self.name.encode()
        return keys.sign(self.private, _LABEL + bound + name) + name
