"""What the checker proves: discoveries, extensions and lost rounds, as the statement charges them. And what it cannot."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import DiscoveryRecord, VocabularyRecord, WitnessRecord
from tacit.privacy.record.ledger import LedgerWriter, read_ledger
from tacit.privacy.record.planned import planned_intents
from tacit.privacy.record.reasons import Reason, Why
from tacit.privacy.record.records import FRESH_NOISE, Resumed
from tacit.privacy.statement.assumptions import departures
from tacit.secagg import keys
from tacit.transparency.checkpoint import Checkpoint, PublicKey
from tests.support.certificate_attacks import head_of
from tests.support.checker import answer
from tests.support.first_record import secure_sum
from tests.support.made_certificates import (
    KEY,
    KINDS,
    Made,
    certified,
    made_certificate,
    public_key,
    rechained,
    signed_again,
)
from tests.support.planned_ledgers import opened_with

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


@pytest.mark.parametrize("kind", ["gaussian", "fixed", "tree", "banded", "cyclic"])
def test_rounds_that_are_about_to_run_again_are_charged_before_they_do(kind: str, tmp_path: Path):
    given, facts = KINDS[kind]
    plan, shown = PrivacyPlan(**given), []
    opened = opened_with(plan, **{"run_id": "ab12cd34", "rounds": 8, **facts})
    with LedgerWriter.create(tmp_path / "ledger.jsonl", opened) as writer:
        for intent in planned_intents(plan, 5):
            writer.append(intent)
        writer.append(Resumed(3, writer.ledger.lost_from(3), FRESH_NOISE))
        for again in (True, False):
            made = Made(certified(writer.ledger), writer.ledger, public_key(writer.ledger))
            code, said, epsilon = _said(tmp_path, made)
            assert code == 0, said
            assert epsilon == pytest.approx(made.content["statement"]["epsilon"], rel=1e-3, abs=1e-3)
            shown.append(epsilon)
            if again:
                writer.append(dataclasses.replace(planned_intents(plan, 4, start=3)[0], attempt=1))
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("sums", "section"),
    [
        ({"element_clip": 1 << 15}, {}),  # 20 users of this reach half of 2^20
        ({"bits": 32, "element_clip": 1 << 15}, {}),  # another modulus than the plan's
        ({"bits": 4, "element_clip": 1}, {"bits": 4}),
        ({}, {"scheme": "device_noise"}),  # whose noise is not this mechanism's
    ],
)
def test_secure_sums_that_may_wrap_around_are_refused(sums: dict[str, Any], section: dict[str, Any], tmp_path: Path):
    honest = {"settings": {"secagg": {"bits": 20}}, "secure_sum": secure_sum()}
    made = made_certificate(tmp_path, "fixed", **honest)
    records = [json.loads(line) for line in made.content["ledger"]]
    opened, plan = records[0], records[0]["plan"]
    plan = {**plan, "secagg": plan["secagg"] | section}
    changed = opened | {"plan": plan, "secure_sum": opened["secure_sum"] | sums}
    forged = signed_again(made.content, rechained([changed, *records[1:]]))
    code, said, _ = _said(tmp_path, Made(forged, made.ledger, made.key))
    assert code == 1
    assert "its secure sums may wrap around" in said
    # Tacit itself claims nothing either.
    (tmp_path / "forged.jsonl").write_text("".join(f"{line}\n" for line in rechained([changed, *records[1:]])))
    assert departures(read_ledger(tmp_path / "forged.jsonl"))


def test_a_delta_that_is_no_promise_to_one_of_so_many_is_refused(tmp_path: Path):
    made = made_certificate(tmp_path)
    records = [json.loads(line) for line in made.content["ledger"]]
    changed = records[0] | {"plan": {**records[0]["plan"], "delta": 0.4}}
    lines = rechained([changed, *records[1:]])
    stated = {**made.content["statement"], "delta": 0.4, "epsilon": 1.0, "ledger_head": json.loads(lines[-1])["digest"]}
    forged = signed_again(made.content | {"statement": stated}, lines)
    assert _said(tmp_path, Made(forged, made.ledger, made.key))[0] == 1


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
