"""The description of a fleet in the ledger."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tacit.fleet.rounds.program import describe_fleet
from tacit.privacy.record.facts import FleetRecord
from tacit.recipe.sections import FleetSection


def described(section: FleetSection, *, secure: bool) -> FleetRecord:
    task = SimpleNamespace(report_goal=4)
    context: Any = SimpleNamespace(section=section, secure=object() if secure else None, task=task)
    return describe_fleet(context, transport="https")


@pytest.mark.parametrize(("over_selection", "lost"), [(1.0, 0.3), (1.3, 1 - 0.7 * 4 / 6), (4.0, 1 - 0.7 / 4)])
def test_devices_selected_beyond_the_goal_are_lost_and_so_are_dropouts_among_the_others(
    over_selection: float, lost: float
) -> None:
    """Four of six places are filled, two devices are always too slow, and 30% of the four may go after masking."""
    section = FleetSection(over_selection=over_selection, dropout=0.3)
    assert described(section, secure=True).dropout == pytest.approx(lost)


def test_what_is_not_looked_at_is_not_claimed() -> None:
    assert described(FleetSection(), secure=False).checks_norms
    assert not described(FleetSection(), secure=True).checks_norms
