"""`tacit audit`: plant, run; every mistake one sentence, and a broken promise is no success."""

from __future__ import annotations

import html
import json
import stat
from pathlib import Path

import numpy as np
import pytest

from tacit.audit.canaries import load_plan
from tacit.audit.lower_bound import LowerBound
from tacit.audit.outcome import Outcome, Proven
from tacit.data.build import save_users
from tacit.data.vocabulary import Vocabulary, word_list
from tests.cli.conftest import Tacit
from tests.helpers import ListUsers


@pytest.fixture
def planted(tacit: Tacit, here: Path) -> Path:
    """A short run of tiny.toml with nine canaries on devices and twenty coins."""
    plant = ("audit", "plant", "tiny.toml", "--devices", 1, "--examples-per-device", 4, "--coins", 20)
    assert tacit(*plant, "--copies", 2, "--out", "plan.json").code == 0
    assert (
        tacit("train", "tiny.toml", "--set", "audit.plan=plan.json", "--set", "run.rounds=1", "--out", "run").code == 0
    )
    return here / "run"


def test_from_plan_to_report(tacit: Tacit, planted: Path) -> None:
    found = tacit("audit", "run", "run", "--suffixes", 30, "--json").object
    assert len(found["canaries"]) == 9
    assert all(1 <= each["rank"] <= 31 for each in found["canaries"])
    assert set(found["lower_bounds"]) == {"loss", "trajectory"}
    assert found["proven"]["epsilon"] > 0
    assert found["broken"] is False
    said = tacit("audit", "run", "run", "--suffixes", 30)
    assert said.code == 0
    assert "n_u = 16, n_e = 4" in said.out
    assert "compares the rest with 30 random endings" in said.out
    assert tacit("report", "run").code == 0
    secret = load_plan(planted.parent / "plan.json").canaries[0].text
    assert secret in html.unescape((planted / "private" / "report.html").read_text())
    assert tacit("report", "run", "--share").code == 0
    assert secret not in html.unescape((planted / "report.html").read_text())
    assert "prefix from 0 to 4" in tacit("audit", "run", "run", "--prefix", 5).refusal(8)


def test_a_broken_promise_exits_with_nine(tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.runs.folder import RunFolder
    from tests.simulation.test_training import tiny

    RunFolder.create(here / "run", tiny().to_toml())
    bound = LowerBound(1.51, 0.9995, 100, 100, 99, 2.0)
    found = Outcome(2, 30, 5, [], [], {"loss": bound}, Proven(1.5, 1e-6, ()))
    monkeypatch.setattr("tacit.simulation.auditing.audit_run", lambda *a, **k: found)
    said = tacit("audit", "run", "run")
    assert said.code == 9
    assert "Something is broken" in said.err
    assert "at least 1.51" in said.out
    said = tacit("audit", "run", "run", "--json")
    assert said.code == 9
    assert json.loads(said.out)["broken"] is True


def test_a_plan_for_a_store(tacit: Tacit, here: Path) -> None:
    words = Vocabulary(tuple(f"w{i}" for i in range(50)), word_list("test"))
    save_users(ListUsers([[[4, 5]]] * 30), here / "store", source="test", vocabulary=words)
    wrote = tacit(
        "audit", "plant", "store", "--held-out", 10, "--devices", 0, "--sharers", 2, "--expected-sharers", "1,2,4",
        "--out", "plan.json", "--seed", 5,
    )  # fmt: skip
    assert wrote.code == 0, wrote.err
    plan = load_plan(here / "plan.json")
    assert (plan.users, len(plan.canaries), plan.synthetic_users) == (20, 18, 0)
    assert stat.S_IMODE((here / "plan.json").stat().st_mode) == 0o600
    assert plan.canaries[0].text not in wrote.out
    assert np.unique([canary.text for canary in plan.canaries]).size == 18


def test_mistakes_in_planting(tacit: Tacit, here: Path) -> None:
    plant = ("audit", "plant", "keyboard", "--users", 50)
    assert "canaries to plant" in tacit(*plant, "--devices", 0, "--out", "a").refusal(8)
    assert "which exists" in tacit(*plant, "--out", "tiny.toml").refusal(8)
    assert "got 1.5" in tacit(*plant, "--device-rate", 1.5, "--out", "a").refusal(8)
    assert "three numbers" in tacit(*plant, "--sharers", 1, "--expected-sharers", "1,x", "--out", "a").refusal(8)
    assert "from 0 to 50 sharers" in tacit(*plant, "--sharers", 1, "--out", "a").refusal(8)
    assert "'nowhere'" in tacit("audit", "plant", "nowhere", "--out", "a").refusal(2)
    assert not (here / "a").exists()


def test_a_run_without_canaries(tacit: Tacit, here: Path) -> None:
    from tacit.runs.folder import RunFolder
    from tests.simulation.test_training import tiny

    RunFolder.create(here / "run", tiny().to_toml())
    assert "no [audit]" in tacit("audit", "run", "run").refusal(8)
    assert "which does not exist" in tacit("audit", "run", "absent").refusal(4)


def test_an_experiment_goes_on_where_it_was(tacit: Tacit, here: Path) -> None:
    again = ("audit", "experiment", "tiny.toml", "--out", "x", "--only", "SGD, by user", "--suffixes", 20)
    few = ("--sharers", 1, "--expected-sharers", "2,4,8", "--set", "run.rounds=1")
    first = tacit(*again, *few, "--json").object
    assert first["done"]
    assert first["regimes"]["SGD, by user"]["canaries"] == 9
    said = tacit(*again)
    assert said.code == 0
    assert "All done." in said.out
    assert load_plan(here / "x" / "canaries.json").canaries[0].text not in said.out
    assert "'SGD'" in tacit("audit", "experiment", "tiny.toml", "--out", "x", "--only", "SGD").refusal(2)
