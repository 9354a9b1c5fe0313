"""What the checker proves: discoveries, extensions and lost rounds, as the statement charges them. And what it cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tacit.privacy.record.facts import DiscoveryRecord, VocabularyRecord, WitnessRecord
from tacit.privacy.record.reasons import Reason, Why
from tacit.secagg import keys
from tacit.transparency.checkpoint import Checkpoint, PublicKey
from tests.support.certificate_attacks import head_of
from tests.support.checker import answer
from tests.support.first_record import secure_sum
from tests.support.made_certificates import KEY, Made, certified, made_certificate, rechained, signed_again

WORDS = VocabularyRecord("found", "ab" * 32, 20.0, 2, 1e-6)
WITNESS_KEY = bytes(range(5, 37))
WITNESS = PublicKey("example.com/w", keys.identity_public(WITNESS_KEY), witness=True)


def _said(path: Path, made: Made, *options: str) -> tuple[int, str, float]:
    path.mkdir(parents=True, exist_ok=True)
    (path / "certificate.json").write_bytes(made.data)
    code, said = answer(path / "certificate.json", "--key", made.key, *options)
    shown = float(said.partition("ε ≤ ")[2].partition(" ")[0]) if code == 0 else 0.0
    return code, said, shown


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("gaussian", {"vocabulary": WORDS}),
        ("fixed", {"vocabulary": WORDS}),
        ("blt", {"vocabulary": WORDS}),
        ("cyclic", {"vocabulary": VocabularyRecord("found", "ab" * 32, 9.0, 1, 0.0)}),
        ("gaussian", {"extended": 14}),
        ("fixed", {"extended": 14, "vocabulary": WORDS}),
        ("cyclic", {"planned": 17}),
        ("tree", {"planned": 21}),
        ("fixed", {"planned": 31}),
        ("fixed", {"settings": {"secagg": {"bits": 20}}, "secure_sum": secure_sum()}),
        ("gaussian", {"settings": {"cohort": 1000}}),
        ("gaussian", {"settings": {"noise_multiplier": 0.4}, "planned": 40}),
    ],
)
def test_what_is_charged_is_what_the_statement_charges(kind: str, more: dict[str, Any], tmp_path: Path):
    for seed in (1, 2):
        made = made_certificate(tmp_path / str(seed), kind, seed=seed, **more)
        stated = made.content["statement"]["epsilon"]
        code, said, shown = _said(tmp_path / str(seed), made)
        assert code == 0, said
        assert shown <= stated * (1 + 1e-3) + 2e-3
        if made.content["statement"]["accountant"] != "rdp":
            assert shown >= stated * (1 - 1e-2) - 1e-3


def test_a_discovery_of_words_is_proved(tmp_path: Path):
    everybody = {"mechanism": "words", "cohort": 1000, "noise_multiplier": 6.0}
    found = DiscoveryRecord(4, 1.0, 2e-6, 0, "ab" * 32)
    made = made_certificate(tmp_path, rounds=1, settings=everybody, discovery=found)
    code, said, shown = _said(tmp_path, made)
    assert code == 0, said
    assert shown == pytest.approx(made.content["statement"]["epsilon"], abs=2e-3)
    some = made_certificate(tmp_path / "some", rounds=1, settings={**everybody, "cohort": 900}, discovery=found)
    assert _said(tmp_path / "some", some)[0] == 1


def _claims(made: Made, epsilon: float = 1.0) -> Made:
    """The operator states an epsilon where the statement has none."""
    stated = {**made.content["statement"], "epsilon": epsilon, "rho": 0.1}
    return Made(signed_again(made.content | {"statement": stated}, made.content["ledger"]), made.ledger, made.key)


@pytest.mark.parametrize(
    ("kind", "more", "why"),
    [
        ("gaussian", {"seeded": True}, "made from a seed"),
        ("gaussian", {"reasons_not_private": (Reason(Why.NO_NOISE),)}, "gives reasons why no privacy may be claimed"),
        ("gaussian", {"outside": {"mechanism": {"version": "1"}}}, "outside author's claim"),
        ("blt", {"extended": 12}, "it was extended"),
        ("cyclic", {"extended": 12}, "it was extended"),
    ],
)
def test_what_cannot_be_proved_is_said_to_be_so(kind: str, more: dict[str, Any], why: str, tmp_path: Path):
    made = made_certificate(tmp_path, kind, **more)
    for each in (made, _claims(made)):
        code, said, _ = _said(tmp_path, each)
        assert code == 1
        assert why in said or "claims no finite epsilon" in said
    assert why in _said(tmp_path, _claims(made))[1]


@pytest.mark.parametrize("mechanism", ["my_own:Mechanism", "discrete", "none", "laplace"])
def test_mechanisms_that_are_not_proven_here_are_named(mechanism: str, tmp_path: Path):
    made = made_certificate(tmp_path)
    records = [json.loads(line) for line in made.content["ledger"]]
    opened = records[0] | {"mechanism": mechanism, "plan": {**records[0]["plan"], "mechanism": mechanism}}
    stated = {**made.content["statement"], "mechanism": mechanism, "epsilon": 1.0}
    forged = signed_again(made.content | {"statement": stated}, rechained([opened, *records[1:]]))
    _, said, _ = _said(tmp_path, Made(forged, made.ledger, made.key))
    assert "outside author's claim" in said or "nothing is proven here" in said


def test_a_certificate_that_claims_nothing_is_not_proved(tmp_path: Path):
    made = made_certificate(tmp_path)
    stated = {**made.content["statement"], "epsilon": None}
    signed = signed_again(made.content | {"statement": stated}, made.content["ledger"])
    _, said, _ = _said(tmp_path, Made(signed, made.ledger, made.key))
    assert "claims no finite epsilon" in said


def _witnessed(folder: Path, signed: int, *, required: bool = True, private: bytes = WITNESS_KEY) -> Made:
    made = made_certificate(folder, seed=3, witness=WitnessRecord("example.com/w", WITNESS.text(), required))
    lines = made.content["ledger"]

    head = Checkpoint.parse(head_of(lines[: signed or len(lines)], "ab12cd34"))
    text = head.countersigned("example.com/w", private, time=1_700_000_000).text()
    return Made(certified(made.ledger, witnesses=[text] if signed >= 0 else []), made.ledger, made.key)


def test_the_witnesses_signatures_are_checked(tmp_path: Path):
    code, said, _ = _said(tmp_path / "a", _witnessed(tmp_path / "a", 0), "--witness", WITNESS.text())
    assert code == 0, said
    assert "A witness (example.com/w) has signed" in said
    for number, (made, why) in enumerate(
        (
            (_witnessed(tmp_path / "b", -1), "has not signed all rounds"),
            (_witnessed(tmp_path / "c", 2), "has not signed all rounds"),
            (_witnessed(tmp_path / "d", 0, private=KEY), "is not signed with a key of this run"),
        )
    ):
        assert why in _said(tmp_path / str(number), made)[1]
    relaxed = _witnessed(tmp_path / "e", -1, required=False)
    assert _said(tmp_path / "e", relaxed)[0] == 0
    assert "the given witness did not sign" in _said(tmp_path / "e", relaxed, "--witness", WITNESS.text())[1]
    other = PublicKey("example.com/w", keys.identity_public(KEY), witness=True).text()
    assert (
        "the given witness did not sign" in _said(tmp_path / "a", _witnessed(tmp_path / "f", 0), "--witness", other)[1]
    )


def test_the_key_that_is_given_counts(tmp_path: Path):
    made, other = made_certificate(tmp_path / "a"), PublicKey("tacit/run/ab12cd34", keys.identity_public(WITNESS_KEY))
    _, said, _ = _said(tmp_path, Made(made.data, made.ledger, other.text()))
    assert "signed with another key than the one that was given" in said
    (tmp_path / "certificate.json").write_bytes(made.data)
    code, said = answer(tmp_path / "certificate.json")
    assert code == 0
    assert "Whose key signed it you have to know" in said
