"""Somebody other than the server vouches for identities, or the device at least accepts each only once."""

from __future__ import annotations

from tacit.fleet.device.vouching import certificate_of, vouched_once
from tacit.secagg import keys
from tacit.secagg.messages import NO_CERTIFICATE

VOUCHER, OTHER = b"\3" * 32, b"\4" * 32
ONE, TWO = keys.identity_public(b"\1" * 32), keys.identity_public(b"\2" * 32)


def public(key):
    return keys.identity_public(key).hex()


def test_an_identity_in_two_places_is_not_vouched_for():
    vouched = vouched_once(bytes(32), ())
    assert vouched(1, ONE, NO_CERTIFICATE)
    assert vouched(2, TWO, NO_CERTIFICATE)
    assert not vouched(3, ONE, NO_CERTIFICATE)
    assert not vouched(4, keys.identity_public(bytes(32)), NO_CERTIFICATE)  # nor for this very device


def test_with_vouchers_only_what_one_of_them_signed_is_accepted():
    vouched = vouched_once(bytes(32), (public(OTHER), public(VOUCHER)))
    assert vouched(1, ONE, certificate_of(VOUCHER, ONE))
    assert not vouched(1, ONE, certificate_of(VOUCHER, ONE))  # not in two places either
    for forged in (NO_CERTIFICATE, certificate_of(VOUCHER, ONE), certificate_of(b"\6" * 32, TWO)):
        assert not vouched_once(bytes(32), (public(VOUCHER),))(2, TWO, forged)


def test_zeros_are_no_certificate_whatever_the_voucher_is():
    """Of a key of small order, some verifiers take anything for a signature."""
    for voucher in ("00" * 32, "01" + "00" * 31):
        assert not vouched_once(bytes(32), (voucher,))(1, ONE, NO_CERTIFICATE)
