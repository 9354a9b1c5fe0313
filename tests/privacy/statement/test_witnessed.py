"""What a statement says of the ledger's witness, and what it lists as assumed where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tacit.privacy.record.facts import WitnessRecord
from tacit.privacy.record.records import from_json, to_json
from tacit.privacy.statement.witnessed import witness_lines
from tacit.privacy.statement.wording import Mark
from tests.support.planned_ledgers import POISSON, guarantee_of, ledger_of

RECORD = WitnessRecord("example.com/w", "example.com/w+00000000+key", required=True)


def marked(path: Path, witness: WitnessRecord | None) -> dict[Mark | None, str]:
    """What the guarantee rests on, by mark."""
    lines = guarantee_of(ledger_of(path, POISSON, witness=witness)).assumptions
    return {mark: "\n".join(line.text for line in lines if line.mark is mark) for mark in Mark}


def test_without_a_witness_it_is_assumed_that_nobody_rewrote_the_ledger(tmp_path: Path) -> None:
    found = marked(tmp_path, None)
    assert "Nobody cut records off the end of the ledger" in str(found[Mark.ASSUMED])
    assert "witness" not in str(found[Mark.ENFORCED])


def test_a_required_witness_makes_it_evident(tmp_path: Path) -> None:
    found = marked(tmp_path, RECORD)
    assert "Nobody cut records off" not in str(found[Mark.ASSUMED])
    assert "the witness example.com/w had signed a head" in str(found[Mark.ENFORCED])
    assert "tacit witness check" in str(found[Mark.ENFORCED])
    assert "never signs two histories" in str(found[Mark.ASSUMED])
    assert "how long rounds took" in str(found[Mark.ASSUMED])


def test_one_that_is_not_required_may_have_signed_nothing(tmp_path: Path) -> None:
    found = marked(tmp_path, replace(RECORD, required=False))
    assert "Nothing of a round was shown" not in str(found[Mark.ENFORCED])
    assert "Records that are in no signed head were not cut off" in str(found[Mark.ASSUMED])


def test_the_name_of_a_witness_cannot_become_a_line_of_its_own(tmp_path: Path) -> None:
    opened = ledger_of(tmp_path, POISSON).opened
    evil = WitnessRecord("w\n\x1b[2J", "w\n\x1b[2J+0+0", required=True)
    assert not any("\n" in line.text or "\x1b" in line.text for line in witness_lines(replace(opened, witness=evil)))


def test_the_record_reads_back_and_a_key_of_another_name_is_refused(tmp_path: Path) -> None:
    opened = replace(ledger_of(tmp_path, POISSON).opened, witness=RECORD)
    assert from_json(to_json(opened)) == opened
    with pytest.raises(ValueError, match="begin with its name"):
        WitnessRecord("other", RECORD.key, required=True)
