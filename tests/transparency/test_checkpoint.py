"""Signed heads: they read back, and a changed byte, name, kind or time is not signed by anybody."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import LedgerError
from tacit.secagg import keys
from tacit.transparency.checkpoint import Checkpoint, PublicKey
from tacit.transparency.merkle import leaf_hash

PRIVATE, OTHER = bytes(range(32)), bytes(range(1, 33))
LOG = PublicKey("tacit.example/log", keys.identity_public(PRIVATE))
WITNESS = PublicKey("tacit.example/witness", keys.identity_public(OTHER), witness=True)
HEAD = Checkpoint("tacit.example/run/1", 17, leaf_hash(b"root"))
SIGNED = HEAD.signed(LOG.name, PRIVATE).countersigned(WITNESS.name, OTHER, time=1_790_000_000)


def test_a_head_reads_back_with_both_signatures() -> None:
    found = Checkpoint.parse(SIGNED.text())
    assert found == SIGNED
    assert found.is_signed_by(LOG)
    assert found.is_signed_by(WITNESS)


def test_nobody_else_has_signed_it() -> None:
    assert not SIGNED.is_signed_by(PublicKey(LOG.name, keys.identity_public(OTHER)))
    assert not SIGNED.is_signed_by(replace(LOG, name="tacit.example/another"))
    assert not SIGNED.is_signed_by(replace(LOG, witness=True))
    assert not SIGNED.is_signed_by(replace(WITNESS, witness=False))


@pytest.mark.parametrize("change", [{"size": 18}, {"root": leaf_hash(b"other")}, {"origin": "tacit.example/run/2"}])
def test_another_head_with_the_same_signatures_is_not_signed(change: dict[str, object]) -> None:
    changed = replace(SIGNED, **change)  # type: ignore[arg-type]
    assert not changed.is_signed_by(LOG)
    assert not changed.is_signed_by(WITNESS)


def test_a_witness_signed_at_one_time_and_at_no_other() -> None:
    later = tuple(each if each.time is None else replace(each, time=each.time + 1) for each in SIGNED.signatures)
    changed = replace(SIGNED, signatures=later)
    assert changed.is_signed_by(LOG)
    assert not changed.is_signed_by(WITNESS)


def test_signing_again_replaces_the_signature() -> None:
    assert len(SIGNED.countersigned(WITNESS.name, OTHER, time=1_790_000_001).signatures) == 2


@pytest.mark.parametrize("key", [LOG, WITNESS])
def test_a_key_reads_back(key: PublicKey) -> None:
    assert PublicKey.parse(key.text()) == key


def test_a_key_with_another_name_or_a_letter_changed_is_refused() -> None:
    text = LOG.text()
    for wrong in ("", "a+b", text.replace("log", "lag"), text[:-6] + "AAAAA=", text.replace("+AQ", "+BA")):
        with pytest.raises(LedgerError, match=r"name\+id\+key"):
            PublicKey.parse(wrong)


@given(st.integers(0, len(SIGNED.text()) - 1), st.characters())
def test_a_changed_character_is_refused_or_leaves_the_head_unsigned(place: int, character: str) -> None:
    text = SIGNED.text()
    changed = text[:place] + character + text[place + 1 :]
    if changed != text:
        try:
            found = Checkpoint.parse(changed)
        except LedgerError:
            return
        assert not (found.is_signed_by(LOG) and found.is_signed_by(WITNESS))


@given(st.text(max_size=300))
def test_other_text_is_refused_with_a_clear_sentence(text: str) -> None:
    with pytest.raises(LedgerError, match="signed head"):
        Checkpoint.parse(text)
