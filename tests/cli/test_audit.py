"""`tacit audit`: plant, run; every mistake one sentence, and a broken promise is no success."""

from __future__ import annotations

import html
import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tacit.audit.lower_bound import LowerBound
from tacit.audit.outcome import AuditOutcome, Proven
from tacit.cli.audit import BROKEN_EXIT, COULD_NOT_FAIL_EXIT, _print_table
from tacit.data.build import save_users
from tacit.data.canaries.plan import Sharers, load_plan
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.errors import TacitError
from tacit.privacy.noise.mechanisms.gaussian import Gaussian, NoNoise
from tests.support.commands import Tacit
from tests.support.list_users import ListUsers
from tests.support.store_keys import KEY
from tests.support.tiny_recipe import tiny


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
    answer = tacit("audit", "run", "run", "--suffixes", 30, "--json")
    assert answer.code == COULD_NOT_FAIL_EXIT  # twenty coins can show nothing at this delta
    found = json.loads(answer.out)
    assert found["verdict"] == "could_not_fail"
    assert len(found["canaries"]) == 9
    assert all(1 <= each["rank"] <= 31 for each in found["canaries"])
    assert set(found["lower_bounds"]) == {"loss", "trajectory"}
    assert found["proven"]["epsilon"] > 0
    assert found["broken"] is False
    said = tacit("audit", "run", "run", "--suffixes", 30)
    assert said.code == COULD_NOT_FAIL_EXIT
    assert "n_u = 16, n_e = 4" in said.out
    assert "compares the rest with 30 random endings" in said.out
    assert tacit("report", "run").code == 0
    secret = load_plan(planted.parent / "plan.json").canaries[0].text
    assert secret in html.unescape((planted / "private" / "report.html").read_text())
    assert tacit("report", "run", "--share").code == 0
    assert secret not in html.unescape((planted / "report.html").read_text())
    assert "prefix from 0 to 4" in tacit("audit", "run", "run", "--prefix", 5).refusal(8)


def test_a_run_is_audited_from_any_folder(tacit: Tacit, planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = tacit("train", "tiny.toml", "--set", "audit.plan=plan.json", "--set", "run.rounds=1", "--resume", "run")
    assert "the recipe the run" not in again.err  # the plan is the same one, whole path or not
    (planted.parent / "elsewhere").mkdir()
    monkeypatch.chdir(planted.parent / "elsewhere")
    assert len(json.loads(tacit("audit", "run", planted, "--suffixes", 30, "--json").out)["canaries"]) == 9


def test_figures_are_never_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    heads = ["regime", "RS, of 90", "exposure, bits", "epsilon"]
    row = ["FedAvg + clip, by user", "diverged", "13.46", "∞ (noise: 18.80)"]
    _print_table(Console(width=30), heads, [row])
    above, below, figures = capsys.readouterr().out.splitlines()
    assert [*above.split(), *below.split()] == ["RS,", "of", "exposure,", "regime", "90", "bits", "epsilon"]
    assert " ".join(figures.split()) == " ".join(row)


def test_a_broken_promise_has_an_exit_code_of_its_own(
    tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacit.runs.folder import RunFolder

    RunFolder.create(here / "run", tiny().to_toml())
    bound = LowerBound(1.51, 0.9995, 100, 100, 99, 2.0)
    found = AuditOutcome(2, 30, 5, [], [], {"loss": bound}, Proven(1.5, 1e-6, ()))
    monkeypatch.setattr("tacit.audit.run_audit.audit_run", lambda *a, **k: found)
    said = tacit("audit", "run", "run")
    assert said.code == BROKEN_EXIT
    assert "Something is broken" in said.err
    assert "at least 1.51" in said.out
    said = tacit("audit", "run", "run", "--json")
    assert said.code == BROKEN_EXIT
    assert json.loads(said.out)["broken"] is True
    mistakes = [TacitError]
    for each in mistakes:
        mistakes += each.__subclasses__()
    assert len(mistakes) > 5
    assert BROKEN_EXIT not in {0, *(each.exit_code for each in mistakes)}


def test_an_audit_that_could_not_have_failed_has_an_exit_code_of_its_own(
    tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacit.runs.folder import RunFolder

    RunFolder.create(here / "run", tiny().to_toml())
    found = AuditOutcome(2, 30, 5, [], [], {"loss": LowerBound(0.0, 0.9995, 20, 20, 12, 1.4)}, Proven(1.5, 1e-6, ()))
    monkeypatch.setattr("tacit.audit.run_audit.audit_run", lambda *a, **k: found)
    said = tacit("audit", "run", "run")
    assert said.code == COULD_NOT_FAIL_EXIT == 21
    assert "This audit could not have failed" in said.out
    said = tacit("audit", "run", "run", "--json")
    assert said.code == COULD_NOT_FAIL_EXIT
    assert json.loads(said.out)["verdict"] == "could_not_fail"


def test_noise_that_is_left_out_ends_the_command_with_an_error(
    tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trained with an epsilon below 1 in its ledger and not a bit of noise, and audited: not one figure here is made up."""

    def forgetful(self: Gaussian, bounded: Any, state: Any, *, key: Any) -> Any:
        return NoNoise(self.noise_multipliers).release(bounded, state, key=key)

    (here / "claims.toml").write_text(
        tiny(
            model={"embedding": 16, "units": 16, "projection": 16},
            data={"users": 40, "vocabulary": 1200},
            work={"batch_size": 4, "learning_rate": 2.0},
            privacy={"population": 40, "cohort": 40, "clip_norm": 0.05, "noise_multiplier": 8.0, "delta": 1e-7},
            server={"optimizer": "sgd"},
            run={"rounds": 2, "checkpoint_every": 1},
            engine={"chunk": 64},
        ).to_toml()
    )
    plant = ("audit", "plant", "claims.toml", "--devices", 0, "--coins", 160, "--copies", 4, "--seed", 11)
    assert tacit(*plant, "--out", "plan.json").code == 0
    with monkeypatch.context() as patch:
        patch.setattr(Gaussian, "release", forgetful)
        assert tacit("train", "claims.toml", "--set", "audit.plan=plan.json", "--out", "run").code == 0
    said = tacit("audit", "run", "run", "--json")
    assert said.code == BROKEN_EXIT
    assert "Do not use the model" in said.err
    found = json.loads(said.out)
    assert found["broken"]
    assert found["proven"]["epsilon"] < 1 < max(each["epsilon"] for each in found["lower_bounds"].values())


def test_a_plan_for_a_store(tacit: Tacit, here: Path) -> None:
    words = Vocabulary(tuple(f"w{i}" for i in range(50)), word_list("test"))
    save_users(ListUsers([[[4, 5]]] * 30), here / "store", source="test", vocabulary=words, key=KEY)
    wrote = tacit(
        "audit", "plant", "store", "--users", 20, "--devices", 0, "--sharers", 2, "--expected-sharers", "1,2,4",
        "--out", "plan.json", "--seed", 5,
    )  # fmt: skip
    assert wrote.code == 0, wrote.err
    plan = load_plan(here / "plan.json")
    assert (len(plan.canaries), plan.synthetic_users) == (18, 0)
    assert {c.sharing.user_probability for c in plan.canaries if isinstance(c.sharing, Sharers)} == {0.05, 0.1, 0.2}
    alone = ("audit", "plant", "store", "--sharers", 1, "--out", "other.json")
    assert "Expected --users with --sharers on the folder of a store" in tacit(*alone).refusal(8)
    assert stat.S_IMODE((here / "plan.json").stat().st_mode) == 0o600
    assert plan.canaries[0].text not in wrote.out
    assert np.unique([canary.text for canary in plan.canaries]).size == 18


def test_mistakes_in_planting(tacit: Tacit, here: Path) -> None:
    plant = ("audit", "plant", "keyboard", "--users", 50)
    assert "canaries to plant" in tacit(*plant, "--devices", 0, "--out", "a").refusal(8)
    assert "which exists" in tacit(*plant, "--out", "tiny.toml").refusal(8)
    assert "got 1.5" in tacit(*plant, "--device-rate", 1.5, "--out", "a").refusal(8)
    shared = (*plant, "--sharers", 1, "--out", "a")
    assert "at most 50 sharers of a canary (the population), got 78.4" in tacit(*shared).refusal(8)
    for given, sentence in {
        "1,x": "three different numbers",
        "1,2": "three different numbers",
        "2,2,4": "three different numbers",
        "0,1,2": "more than 0 and at most 50 sharers of a canary (the population), got 0",
        "1,nan,2": "got nan",
        "1,2,inf": "got inf",
    }.items():
        assert sentence in tacit(*shared, "--expected-sharers", given).refusal(8)
    assert "seed from 0 to 2⁶⁴ - 1, got 18446744073709551616" in tacit(*plant, "--seed", 2**64, "--out", "a").refusal(8)
    assert "'nowhere'" in tacit("audit", "plant", "nowhere", "--out", "a").refusal(2)
    assert not (here / "a").exists()


def test_a_run_without_canaries(tacit: Tacit, here: Path) -> None:
    from tacit.runs.folder import RunFolder

    RunFolder.create(here / "run", tiny().to_toml())
    assert "no audit.plan" in tacit("audit", "run", "run").refusal(8)
    assert "which does not exist" in tacit("audit", "run", "absent").refusal(4)


def test_a_run_without_planted_canaries_shows_the_audit_of_its_gate(
    tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tacit("train", "tiny.toml", "--out", "run")
    sentence = "Audit of the gate: noise 5.67% too small would have been seen with 99.9% probability."
    assert sentence in " ".join(said.out.split())
    said = tacit("audit", "run", "run")
    assert said.code == 0
    assert "Nothing contradicts the ledger." in said.out
    found = tacit("audit", "run", "run", "--json").object
    assert (found["verdict"], found["broken"], found["gate"]["verdict"]) == ("passed", False, "passed")
    assert tacit("report", "run").code == 0
    assert "What the audit of the gate found" in (here / "run" / "private" / "report.html").read_text()
    assert tacit("report", "run", "--share").code == 0
    assert "What the audit of the gate found" not in (here / "run" / "report.html").read_text()
    assert "The audit of the gate" in (here / "run" / "report.html").read_text()
    assert "made-up contributions passed the gate" in tacit("guarantee", "run").out

    def forgetful(self: Gaussian, bounded: Any, state: Any, *, key: Any) -> Any:
        return NoNoise(self.noise_multipliers).release(bounded, state, key=key)

    monkeypatch.setattr(Gaussian, "release", forgetful)
    said = tacit("train", "tiny.toml", "--out", "broken")
    assert said.code == 0
    assert sentence in " ".join(said.out.split())  # the same as of a sound run: the verdict is the owner's
    assert "broken at" not in said.out
    said = tacit("audit", "run", "broken", "--json")
    assert said.code == BROKEN_EXIT
    assert "Do not use the model" in said.err
    assert json.loads(said.out)["gate"]["verdict"] == "broken"


def test_an_experiment_goes_on_where_it_was(tacit: Tacit, here: Path) -> None:
    again = ("audit", "experiment", "tiny.toml", "--out", "x", "--only", "SGD, by user", "--suffixes", 20)
    few = ("--sharers", 1, "--expected-sharers", "2,4,8", "--set", "run.rounds=1")
    first = tacit(*again, *few, "--json").object
    assert first["done"]
    assert first["regimes"]["SGD, by user"]["canaries"] == 9
    said = tacit(*again, *few)
    assert said.code == 0
    assert "All done." in said.out
    head, figures, *_ = said.out.splitlines()[-3:]  # whole, whatever the terminal's width
    assert head.split()[-5:] == ["bits", "top-1", "top-1", "perplexity", "epsilon"]
    assert "papers'" in said.out.splitlines()[-4]  # above the second: headings may be broken between words
    assert figures.startswith("SGD, by user  ")
    assert "…" not in said.out
    sizes = tacit(*again[:-1], 21, *few).refusal(8)
    assert "--suffixes 20, with which the results" in sizes
    for other in (("--set", "run.rounds=2"), ("--sharers", 2), ("--expected-sharers", "2,4,9"), ("--seed", 2)):
        assert "began, got others" in tacit(*again, *few, *other).refusal(8)
    assert "began, got others" in tacit(*again).refusal(8)
    assert load_plan(here / "x" / "canaries.json").canaries[0].text not in said.out
    assert "'SGD'" in tacit("audit", "experiment", "tiny.toml", "--out", "x", *few, "--only", "SGD").refusal(2)
    assert "check_in" in tacit("audit", "experiment", "gboard", "--out", "y").refusal(2)
    assert not (here / "y").exists()
