"""A reason is a code for programs and a sentence for people, and an unknown one is a reason like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.record.ledger import LedgerWriter, read_ledger
from tacit.privacy.record.reasons import Reason, Why, distinct, in_words, reasons_as_json
from tests.support.made_up_ledgers import intent, opened


def test_every_code_has_a_sentence_that_begins_small_and_ends_open() -> None:
    for why in Why:
        assert "because of this" in Reason(why, "because of this").sentence
        sentence = Reason(why).sentence
        assert "does not know" not in sentence
        assert sentence[0].islower()
        assert not sentence.endswith((".", ":"))
    assert Reason(Why.BROKEN_PROMISE, "a user took part twice").sentence == "a user took part twice"
    assert Reason(Why.SEEDED, "5").sentence.endswith("who knows the seed (run.seed): 5")


def test_codes_are_distinct_and_stable() -> None:
    assert len({str(why) for why in Why}) == len(Why)
    assert (Why.SEEDED, Why.NO_NOISE, Why.COUNTED_VOCABULARY) == ("seeded", "no-noise", "counted-vocabulary")


def test_an_unknown_code_in_a_ledger_takes_the_claim_away(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    known, unknown = (opened("r", rounds=1, reasons_not_private=each) for each in ((), (Reason("later\x1b[2J", "x"),)))
    assert spent_by(known, [intent(0)]).epsilon < 10
    with LedgerWriter.create(path, unknown) as writer:
        writer.append(intent(0))
    found = read_ledger(path)
    spent = spent_by(found.opened, found.intents)
    assert spent.as_dict()["epsilon"] is None
    assert spent.as_dict()["reason_codes"] == ["later\x1b[2J"]
    (said,) = spent.as_dict()["reasons_not_private"]
    assert said == "the ledger gives a reason that this version of Tacit does not know (later[2J): x"


def test_a_reason_is_the_same_before_and_after_the_ledger(tmp_path: Path) -> None:
    reasons = (
        Reason(Why.SEEDED),
        Reason(Why.DEPARTS_FROM_PLAN, "round 3 ran twice"),
        Reason(Why.NO_NOISE, run="other"),
    )
    first = opened("r", reasons_not_private=reasons)
    with LedgerWriter.create(tmp_path / "ledger.jsonl", first):
        pass
    assert read_ledger(tmp_path / "ledger.jsonl").opened == first
    assert b'"code":"seeded"' in (tmp_path / "ledger.jsonl").read_bytes()


def test_sentences_name_the_run_and_each_stands_once() -> None:
    reasons = distinct([Reason(Why.NO_NOISE), Reason("no-noise"), Reason(Why.NO_NOISE).in_run("b")])
    assert in_words(reasons) == "no noise is added; no noise is added (run b)"
    assert reasons_as_json(reasons)["reason_codes"] == ["no-noise", "no-noise"]


def test_a_reason_is_not_a_sentence() -> None:
    with pytest.raises(TypeError, match="reasons_not_private"):
        opened("r", reasons_not_private=("no noise is added",))
