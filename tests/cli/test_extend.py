"""`tacit train --resume RUN --set run.rounds=N`: a finished run gets more rounds, and says first what they cost."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.commands import Tacit, everything


def test_a_finished_run_is_extended_and_says_what_it_will_cost(tacit: Tacit, here: Path) -> None:
    assert tacit("train", "tiny.toml", "--set", "run.rounds=2", "--out", "run").code == 0
    longer = tacit("train", "--resume", "run", "--set", "run.rounds=3")
    assert longer.code == 0, longer.err
    announced = re.match(
        r"The run goes on from 2 to 3 rounds\. ε for all 3 rounds will be (\d+\.\d\d) at δ = 0.0001,", longer.err
    )
    assert announced is not None, longer.err
    said = " ".join(longer.out.split())
    assert f"ε = {announced[1]} at δ = 0.0001" in said
    assert "for the 3 rounds that were planned; all of them have run." in said
    assert f"epsilon {announced[1]} at delta 0.0001" in tacit("account", "run", "run").out


def test_a_run_that_is_not_extended_stays_as_it_is(tacit: Tacit, here: Path) -> None:
    assert tacit("train", "tiny.toml", "--set", "run.rounds=2", "--out", "run").code == 0
    before = everything(here / "run")
    fewer = tacit("train", "--resume", "run", "--set", "run.rounds=1").refusal(4)
    assert fewer == "Expected run.rounds > 2, the rounds that run has run, got 1."
    assert everything(here / "run") == before
