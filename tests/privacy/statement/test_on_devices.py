"""What a run on devices rests on: nothing is called enforced that the server cannot look at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tacit.privacy.record.facts import FleetRecord
from tacit.privacy.statement.guarantee import Guarantee
from tacit.privacy.statement.wording import Mark
from tests.support.first_record import secure_sum
from tests.support.planned_ledgers import CHECK_IN, guarantee_of, ledger_of, part

PLAIN = FleetRecord(
    transport="https",
    secure_aggregation=False,
    checks_norms=True,
    over_selection=1.3,
    timer_s=60.0,
    dropout=None,
    corruption=None,
)


SECURE = replace(PLAIN, secure_aggregation=True, checks_norms=False, dropout=0.3, corruption=0.1)


def said(path: Path, fleet: FleetRecord | None, **facts: Any) -> Guarantee:
    path.mkdir()
    return guarantee_of(ledger_of(path, CHECK_IN, fleet=fleet, **facts))


def marked(guarantee: Guarantee, mark: Mark) -> str:
    return "\n".join(line.text for line in guarantee.assumptions if line.mark is mark)


def test_a_simulation_says_nothing_of_devices(tmp_path: Path) -> None:
    found = said(tmp_path / "a", None)
    everything = "\n".join(line.text for line in found.assumptions)
    assert "enrols" not in everything
    assert "before the round read a user" in everything
    assert "sees updates without noise" in found.as_markdown()
    assert "Diagnostics such as" in part(found, "Not covered")
    assert "Diagnostics such as" not in part(said(tmp_path / "b", PLAIN), "Not covered")


def test_what_the_server_looks_at_itself_is_enforced(tmp_path: Path) -> None:
    found = said(tmp_path / "a", PLAIN)
    enforced, assumed = marked(found, Mark.ENFORCED), marked(found, Mark.ASSUMED)
    for words in (
        "computes the norm of every update and refuses",
        "sooner than the plan allows",
        "encrypted and authenticated",
        "does not need it to be secret",
        "at most the stated bound",
        "left the users' side",
    ):
        assert words in enforced
    for words in ("One person enrols one device", "does not depend on what", "see single updates in their memory"):
        assert words in assumed
    assert "curious" not in assumed
    assert found.private


def test_what_secure_aggregation_hides_from_the_server_is_assumed_of_devices(tmp_path: Path) -> None:
    found = said(tmp_path / "a", SECURE, secure_sum=secure_sum())
    enforced, assumed = marked(found, Mark.ENFORCED), marked(found, Mark.ASSUMED)
    assert "norm of every update" not in enforced
    assert "at most the stated bound" not in enforced
    assert "cannot wrap" not in enforced
    assert "Every device clips and encodes as the task says" in assumed
    assert "honest but curious" in assumed
    assert "At most 10% of a round's devices collude with the server, and at most 30% drop out" in assumed
    assert "single updates in their memory" not in assumed
    assert "and no single update" in found.as_markdown()
    assert "sees single updates" not in found.as_markdown()
    assert "sees sums of updates without noise" in found.as_markdown()


def test_a_record_that_does_not_say_what_was_checked_claims_no_check(tmp_path: Path) -> None:
    found = said(tmp_path / "a", replace(SECURE, secure_aggregation=False))
    assert "norm of every update" not in marked(found, Mark.ENFORCED)
    assert "Every device clips" in marked(found, Mark.ASSUMED)
    with pytest.raises(ValueError, match="expected dropout and corruption"):
        replace(SECURE, corruption=None)


def test_a_loopback_without_encryption_is_said(tmp_path: Path) -> None:
    assert "not encrypted on the way" in marked(
        said(tmp_path / "a", replace(PLAIN, transport="http on loopback")), Mark.ASSUMED
    )
    assert "not encrypted on the way" not in marked(said(tmp_path / "b", PLAIN), Mark.ASSUMED)


def test_a_measured_model_is_another_runs(tmp_path: Path) -> None:
    found = said(tmp_path / "a", PLAIN, evaluates="ab" * 32)
    assert "trained by another run" in part(found, "Not covered")
    assert "held-out users" not in part(found, "Not covered")


def test_how_to_add_up_what_several_runs_on_the_same_devices_cost_is_said(tmp_path: Path) -> None:
    text = said(tmp_path / "a", PLAIN).as_markdown()
    assert "`tacit account odometer FOLDER`" in text
    assert "odometer" not in said(tmp_path / "b", None).as_markdown()
