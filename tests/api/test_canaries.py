"""`tacit.canaries`: the plan of an audit, secret unless it is seeded, and saved for its owner alone."""

from __future__ import annotations

from pathlib import Path

import tacit
from tacit.data.canaries.plan import load_plan


def test_a_plan_is_secret_unless_seeded_and_is_saved_for_its_owner(tmp_path: Path) -> None:
    users = tacit.KeyboardWorld(1, 40, vocabulary_size=200)
    assert tacit.canaries(users, coins=9, seed=1) == tacit.canaries(users, coins=9, seed=1)
    plan = tacit.canaries(users, coins=9)
    assert plan != tacit.canaries(users, coins=9)
    plan.save(str(tmp_path / "plan.json"))
    assert load_plan(tmp_path / "plan.json") == plan
    assert (tmp_path / "plan.json").stat().st_mode & 0o077 == 0
