"""A signature fits one request of one device and nothing else."""

import os

import pytest

from tacit.errors import FleetError
from tacit.fleet.wire.signing import credentials_of, enrolment_proof, is_body, is_enrolment, is_signed, signed_headers
from tacit.secagg import keys

PRIVATE = os.urandom(32)
PUBLIC = keys.identity_public(PRIVATE)


def test_it_fits_exactly_what_was_signed():
    headers = signed_headers(PRIVATE, 5, 9, "put", "/v1/x?y=1", b"body")
    found = credentials_of(headers)
    assert (found.device, found.counter) == (5, 9)
    assert is_signed(PUBLIC, found, "PUT", "/v1/x?y=1")
    assert is_body(found, b"body")
    assert not is_body(found, b"Body")
    for method, path in (("POST", "/v1/x?y=1"), ("PUT", "/v1/x?y=2")):
        assert not is_signed(PUBLIC, found, method, path)
    for name, value in (("tacit-device", "6"), ("tacit-counter", "10"), ("tacit-digest", "00" * 32)):
        assert not is_signed(PUBLIC, credentials_of({**headers, name: value}), "PUT", "/v1/x?y=1")
    assert not is_signed(keys.identity_public(os.urandom(32)), found, "PUT", "/v1/x?y=1")


@pytest.mark.parametrize(
    "change",
    [{"tacit-device": "-1"}, {"tacit-counter": str(2**63)}, {"tacit-digest": "00"}, {"tacit-signature": "00"}],
)
def test_malformed_headers_are_refused(change):
    headers = signed_headers(PRIVATE, 5, 9, "GET", "/", b"") | change
    with pytest.raises(FleetError):
        credentials_of(headers)


def test_a_missing_header_is_refused():
    with pytest.raises(FleetError):
        credentials_of({})


def test_an_enrolment_is_bound_to_its_token():
    proof = enrolment_proof(PRIVATE, "a token of some length")
    assert is_enrolment(PUBLIC, "a token of some length", proof)
    assert not is_enrolment(PUBLIC, "another token of length", proof)
