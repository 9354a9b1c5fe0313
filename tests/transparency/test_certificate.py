"""A certificate is one signed file: what it holds comes out again, and nothing in it can be changed unseen."""

from __future__ import annotations

import json
import secrets

import numpy as np
import pytest

from tacit.errors import LedgerError
from tacit.privacy.record.records import canonical
from tacit.transparency.certificate import arrays_digest, read_certificate, signed_certificate
from tacit.transparency.checkpoint import Checkpoint, PublicKey
from tacit.transparency.merkle import leaf_hash, root

NAME = "tacit/run/ab12"
LINES = [b'{"kind":"opened"}', b'{"kind":"intent"}', b'{"kind":"closed"}']


def made() -> bytes:
    return signed_certificate({"run": "ab12", "files": {"a": "b"}}, LINES, NAME, secrets.token_bytes(32))


def test_what_was_put_in_comes_out_and_the_head_is_that_of_the_lines():
    found = read_certificate(made())
    assert found["ledger"] == [line.decode() for line in LINES]
    head = Checkpoint.parse(found["head"])
    assert (head.origin, head.size, head.root) == (NAME, 3, root([leaf_hash(line) for line in LINES]))
    assert head.is_signed_by(PublicKey.parse(found["key"]))


@pytest.mark.parametrize("change", [{"run": "cd34"}, {"ledger": ["{}"]}, {"files": {}}, {"head": "x"}, {"more": 1}])
def test_a_change_after_it_was_signed_is_found(change):
    content = json.loads(made())
    with pytest.raises(LedgerError, match="was changed after it had been signed"):
        read_certificate(canonical(content | change))


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{}", b'{"signature":"!"}', b"[" * 100_000, b"\xff"])
def test_what_is_no_certificate_is_one_sentence(data):
    with pytest.raises(LedgerError, match="Expected a certificate of format 1"):
        read_certificate(data)


def test_another_key_in_it_does_not_fit_its_signature():
    content = json.loads(made())
    other = json.loads(made())
    with pytest.raises(LedgerError, match="was changed"):
        read_certificate(canonical(content | {"key": other["key"]}))


def test_the_digest_of_arrays_depends_on_names_types_shapes_and_numbers_and_not_on_their_layout():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    base = arrays_digest({"a": a, "b": np.zeros(2)})
    assert base == arrays_digest({"b": np.zeros(2), "a": np.asfortranarray(a)})
    assert base == arrays_digest({"b": np.zeros(2, ">f8"), "a": a.astype(">f4")})
    others = [
        {"a": a, "c": np.zeros(2)},
        {"a": a.reshape(3, 2), "b": np.zeros(2)},
        {"a": a.astype(np.float64), "b": np.zeros(2)},
        {"a": a + 1, "b": np.zeros(2)},
        {"a": a},
    ]
    digests = {arrays_digest(each) for each in others}
    assert len(digests) == len(others)
    assert base not in digests
