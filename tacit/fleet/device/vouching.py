"""Who vouches that an identity key belongs to a device: certificates by a party other than the server.

The server passes keys from device to device, so it could put its own in their place, and play all of a device's neighbours in
secure aggregation. A certificate is a voucher's Ed25519 signature on a device's identity key; the owner's policy names the
vouchers (`SecAggAssumptions.vouchers`). What a voucher asks of a device before it signs is its own affair: `attestation.py`
has the interface.
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit.secagg import device, keys, messages

_LABEL = b"tacit fleet identity v1\0"


def certificate_of(voucher: bytes, identity: bytes) -> bytes:
    """The certificate with which the holder of this private key vouches for an identity's public key."""
    return keys.sign(voucher, _LABEL + identity)


def is_vouched_for(identity: bytes, certificate: bytes, vouchers: Sequence[str]) -> bool:
    """Whether one of these vouchers signed the identity's public key."""
    if certificate == messages.NO_CERTIFICATE:
        return False
    return any(keys.signed_by(bytes.fromhex(voucher), certificate, _LABEL + identity) for voucher in vouchers)


def vouched_once(own: bytes, vouchers: Sequence[str]) -> device.Vouched:
    """Accept each identity once, and only if one of the vouchers signed it.

    Without vouchers the server's enrolment vouches for identities, and the device itself checks that none is used twice.
    """
    seen = {keys.identity_public(own)}

    def vouched(index: int, identity: bytes, certificate: bytes) -> bool:
        first = identity not in seen
        seen.add(identity)
        return first and (not vouchers or is_vouched_for(identity, certificate, vouchers))

    return vouched
