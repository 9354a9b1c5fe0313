"""A voucher certifies one identity for each device that proves to be one, and nothing else."""

from __future__ import annotations

import pytest

from tacit.errors import FleetError
from tacit.fleet.device.attestation import SoftwareMaker, Voucher, bound_to
from tacit.fleet.device.home import Home
from tacit.fleet.device.vouching import vouched_once
from tacit.secagg import keys

ONE, TWO = keys.identity_public(b"\1" * 32), keys.identity_public(b"\2" * 32)
MAKER = SoftwareMaker(b"\3" * 32)


def certified(voucher, device, identity):
    challenge = voucher.challenge()
    return voucher.certify(identity, challenge, device.statement(bound_to(challenge, identity)))


def test_a_device_that_proves_to_be_one_is_vouched_for_among_devices():
    voucher = Voucher(b"\4" * 32, MAKER)
    certificate = certified(voucher, MAKER.device("phone 1"), ONE)
    vouched = vouched_once(b"\7" * 32, (voucher.public,))
    assert vouched(0, ONE, certificate)
    assert not vouched(1, TWO, certificate)


def test_one_device_gets_one_identity_and_may_ask_again_for_it():
    known = {}
    voucher, phone = Voucher(b"\4" * 32, MAKER, known), MAKER.device("phone 1")
    assert certified(voucher, phone, ONE) == certified(voucher, phone, ONE)
    again = Voucher(b"\4" * 32, MAKER, known)  # after a restart
    with pytest.raises(FleetError, match="another identity of this device"):
        certified(again, phone, TWO)
    certified(again, MAKER.device("phone 2"), TWO)


def test_statements_that_are_made_up_replayed_or_of_another_identity_prove_nothing():
    voucher, phone = Voucher(b"\4" * 32, MAKER), MAKER.device("phone 1")
    challenge = voucher.challenge()
    statement = phone.statement(bound_to(challenge, ONE))
    for identity, made_up in (
        (TWO, statement),
        (ONE, SoftwareMaker(b"\5" * 32).device("phone 1").statement(bound_to(challenge, ONE))),
        (ONE, statement[:-1] + b"2"),
        (ONE, b""),
    ):
        fresh = voucher.challenge()
        with pytest.raises(FleetError, match="not made by a known device"):
            voucher.certify(identity, fresh, made_up)
    assert voucher.certify(ONE, challenge, statement)
    with pytest.raises(FleetError, match="has served already"):
        voucher.certify(ONE, challenge, statement)
    with pytest.raises(FleetError, match="not one of this voucher"):
        voucher.certify(ONE, bytes(32), phone.statement(bound_to(bytes(32), ONE)))
    assert voucher.known == {"phone 1": ONE}


def test_a_home_shows_the_certificate_it_was_given(tmp_path):
    with Home.create(tmp_path / "home") as home:
        assert home.certificate == bytes(64)
        given = certified(Voucher(b"\4" * 32, MAKER), MAKER.device("phone"), keys.identity_public(home.identity))
        (tmp_path / "home" / "identity.certificate").write_text(given.hex())
        assert home.certificate == given
        (tmp_path / "home" / "identity.certificate").write_text("none")
        with pytest.raises(FleetError, match="does not hold a certificate"):
            _ = home.certificate
