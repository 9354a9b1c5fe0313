"""What a run's statement charges, from the ledger as it is at that moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tacit.privacy.accounting.several_runs import together
from tacit.privacy.record.ledger import LedgerWriter
from tacit.privacy.record.records import FRESH_NOISE, SAME_SUM, Resumed
from tacit.runs.budget.listed import charge_of_ledger
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder
from tests.support.planned_ledgers import CHECK_IN, POISSON, PrivacyPlan, intent_of, opened_with


@pytest.mark.parametrize("settings", [POISSON, CHECK_IN], ids=["poisson", "check-in"])
def test_rounds_that_are_about_to_run_again_are_charged_before_they_do(settings: dict[str, Any], tmp_path: Path):
    plan = PrivacyPlan(**settings)
    folder = RunFolder.create(tmp_path / "run", "name = 'run'")
    with LedgerWriter.create(folder.ledger_path, opened_with(plan, rounds=8)) as writer:
        for round in range(5):
            writer.append(intent_of(plan, round))
        before = cost_of(folder, writer.ledger).stated
        writer.append(Resumed(3, writer.ledger.lost_from(3), FRESH_NOISE))
        resumed, both = cost_of(folder, writer.ledger).stated, together([writer.ledger])
        charged = charge_of_ledger(writer.ledger)
        writer.append(intent_of(plan, 3, 1))
        again = cost_of(folder, writer.ledger).stated
        assert (before.releases, resumed.releases, again.releases) == (5, 5, 6)
        assert before.epsilon < resumed.epsilon == again.epsilon
        assert both.epsilon == together([writer.ledger]).epsilon
        assert charged == charge_of_ledger(writer.ledger)


def test_a_sum_that_is_still_there_is_charged_once(tmp_path: Path):
    plan = PrivacyPlan(**CHECK_IN)
    folder = RunFolder.create(tmp_path / "run", "name = 'run'")
    with LedgerWriter.create(folder.ledger_path, opened_with(plan, rounds=8)) as writer:
        for round in range(5):
            writer.append(intent_of(plan, round))
        before = cost_of(folder, writer.ledger).stated
        writer.append(Resumed(5, [], SAME_SUM))
        assert cost_of(folder, writer.ledger).stated.epsilon == before.epsilon
