"""`tacit runs`: what a person reads about their runs."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tacit.cli.runs import app
from tacit.errors import RunError
from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.records import FRESH_NOISE, Closed, Opened, Record, Resumed
from tacit.privacy.statement.wording import epsilon_text
from tacit.recipe.reading import toml_of
from tacit.runs.folder import RunFolder
from tacit.runs.metrics import MetricsWriter
from tests.support.first_record import NO_NOISE
from tests.support.ledger_records import intent, opened

PLAN = PrivacyPlan(population=1000, cohort=10, clip_norm=0.8, noise_multiplier=1.1, delta=1e-6)


def stated(**figures: Any) -> dict[str, Any]:
    """What a summary states of a run's cost, with these figures."""
    return spent_by(opened(rounds=2), [intent(0), intent(1)]).as_dict() | figures


PRIVATE = {
    "rounds": 2,
    "metrics": {"top1": 0.2461, "perplexity": 88.123},
    "privacy": stated(epsilon=3.214, delta=1e-6, unit="user", accountant="pld", releases=2),
    "baselines": {"unigram": 0.066},
}
SEEDED = {
    "metrics": {"top1": 0.3, "in_vocabulary_top1": 0.412, "papers_top1": 0.27, "out_of_vocabulary": 0.055},
    "privacy": stated(epsilon=None, releases=1, reasons_not_private=["replayable noise"]),
}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def planned(rounds: int) -> str:
    """What a recipe says of the plan that the tests' intents follow."""
    return toml_of({"privacy": PLAN.model_dump(mode="json", exclude_none=True), "run": {"rounds": rounds}})


def first(run: RunFolder, **facts: Any) -> Opened:
    """The first record of the run's ledger."""
    digest = hashlib.sha256(run.recipe_path.read_bytes()).hexdigest()
    rounds = run.recipe()["run"]["rounds"]
    return opened(run_id=run.run_id, plan=PLAN.model_dump(mode="json"), rounds=rounds, recipe=digest, **facts)


def make(
    name: str, recipe: str, records: list[Record], summary: dict[str, Any] | None = None, **facts: Any
) -> RunFolder:
    ends = [record.round for record in records if isinstance(record, Closed) and record.outcome == "finished"]
    run = RunFolder.create(Path("runs") / name, recipe + planned(ends[0] if ends else 2))
    with run.create_ledger(first(run, **facts)) as ledger:
        for record in records:
            ledger.append(record)
    if summary is not None:
        run.write_summary(summary)
    return run


@pytest.fixture
def three() -> None:
    make("good", "[work]\nclip = 0.8\n[model]\nsize = 3\n", [intent(0), intent(1), Closed(2, "finished")], PRIVATE)
    make("seeded", "[work]\nclip = 0.5\n[model]\nsize = 3\n", [intent(0), Closed(1, "diverged")], SEEDED)
    cut = make("cut", "", [intent(0), Resumed(0, [[0, 0]], FRESH_NOISE), intent(0, 1)])
    with MetricsWriter(cut.metrics_path) as metrics:
        metrics.append({"round": 0, "top1": 0.12, "epsilon_if_planned_to_end_here": 1.5, "delta": 1e-5})


def of_before(name: str) -> RunFolder:
    """A run that was made when the papers' metric was the only one and was called top1."""
    metrics = {"words": 500, "top1": 0.2, "top3": 0.35, "in_vocabulary_top1": 0.21, "perplexity": 90.0}
    run = make(name, "", [intent(0), intent(1), Closed(2, "finished")], {**PRIVATE, "metrics": metrics})
    with MetricsWriter(run.metrics_path) as writer:
        writer.append({"round": 1, **metrics})
        writer.append({"round": 2, **metrics, "top1": 0.3, "papers_top1": 0.25, "papers_top3": 0.4})  # resumed since
    return run


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_no_runs_yet() -> None:
    assert "No runs in runs yet" in invoke()
    assert json.loads(invoke("--json")) == {"root": "runs", "runs": []}
    with pytest.raises(RunError, match="not there"):
        invoke("list", "elsewhere")


@pytest.mark.usefixtures("three")
def test_runs_alone_lists_them() -> None:
    lines = invoke().splitlines()
    assert invoke("list").splitlines() == lines
    assert [line.split()[:3] for line in lines[1:]] == [
        ["runs/cut", "interrupted", "1"],
        ["runs/good", "finished", "2"],
        ["runs/seeded", "diverged", "1"],
    ]
    assert "24.6%" in lines[2]
    assert "epsilon 3.22 at delta 1e-06 a user (pld)" in lines[2]
    assert "epsilon is infinite: replayable noise" in lines[3]
    assert [run["state"] for run in json.loads(invoke("list", "--json"))["runs"]] == [
        "interrupted",
        "finished",
        "diverged",
    ]


@pytest.mark.usefixtures("three")
def test_the_papers_metric_and_words_outside_the_vocabulary_have_their_names() -> None:
    lines = {line.rsplit(maxsplit=1)[0].strip(): line.split()[-1] for line in invoke("show", "seeded").splitlines()}
    assert (lines["top1"], lines["by the papers' metric, top1"]) == ("30.0%", "27.0%")
    assert lines["outside the vocabulary"] == "5.5%"
    assert "by the papers' metric, top1" in invoke("compare", "good", "seeded")


@pytest.mark.usefixtures("three")
def test_one_damaged_run_does_not_hide_the_others() -> None:
    ledger = Path("runs/good/ledger.jsonl")
    ledger.write_bytes(ledger.read_bytes().replace(b'"kind":"poisson"', b'"kind":"Poisson"', 1))
    found = {run["run"]: run for run in json.loads(invoke("--json"))["runs"]}
    assert found["runs/good"]["state"] == "damaged"
    assert "line 2" in found["runs/good"]["problem"]
    assert found["runs/cut"]["state"] == "interrupted"
    assert "damaged at line 2" in invoke()
    with pytest.raises(RunError, match="line 2"):
        invoke("show", "good")


@pytest.mark.usefixtures("three")
def test_show_says_what_a_run_came_to() -> None:
    truth = spent_by(opened(rounds=2), [intent(0), intent(1)]).epsilon  # from the ledger, whatever the summary states
    text = invoke("show", "good")
    for words in ("finished", "24.6%", "88.12", "0.066", f"epsilon {epsilon_text(truth)}"):
        assert words in text
    assert invoke("show", "runs/good") == text
    facts = json.loads(invoke("show", "good", "--json"))
    assert (facts["rounds"], facts["releases"]) == (2, 2)
    assert facts["privacy"]["epsilon"] == truth
    assert facts["metrics"] == PRIVATE["metrics"]


@pytest.mark.usefixtures("three")
def test_show_without_a_summary_reads_metrics_and_ledger() -> None:
    text = invoke("show", "cut")
    assert "1, and 1 further attempt, accounted in addition" in text
    truth = spent_by(
        opened(rounds=2, plan=PLAN.model_dump(mode="json")), [intent(0), intent(0, 1)]
    ).epsilon  # the ledger's, not the last evaluation's
    assert f"epsilon {epsilon_text(truth)} at delta 1e-06 a user" in text
    assert "assuming" in text
    assert "12.0%" in text


def test_show_of_a_run_that_runs_or_never_began() -> None:
    run = RunFolder.create(Path("runs/new"), planned(2))
    facts = json.loads(invoke("show", "new", "--json"))
    assert (facts["state"], facts["rounds"]) == ("not begun", 0)
    assert "epsilon is not stated yet" in invoke("show", "new")
    with run.create_ledger(first(run, reasons_not_private=(NO_NOISE,))):
        assert json.loads(invoke("show", "new", "--json"))["state"] == "running"
        assert "epsilon is infinite: no noise" in invoke("show", "new")
    assert json.loads(invoke("show", "new", "--json"))["state"] == "interrupted"


def test_a_finite_epsilon_beside_a_reason_is_not_shown() -> None:
    wrong = stated(epsilon=1.0, delta=1e-6, releases=0, reasons_not_private=["counted vocabulary"])
    make("odd", "", [Closed(0, "finished")], {"privacy": wrong})
    assert "epsilon is infinite: counted vocabulary" in invoke("list", "runs")


def test_a_summary_that_leaves_something_out_is_not_believed() -> None:
    make("short", "", [intent(0), intent(1), Closed(2, "finished")], {"privacy": {"epsilon": 1.0, "releases": 2}})
    truth = spent_by(opened(rounds=2), [intent(0), intent(1)]).epsilon
    (found,) = json.loads(invoke("list", "--json"))["runs"]
    assert found["privacy"]["epsilon"] == truth


def test_a_summary_that_speaks_of_fewer_releases_is_not_believed() -> None:
    make("stale", "", [intent(0), intent(1), intent(2), Closed(3, "finished")], PRIVATE)
    truth = spent_by(opened(rounds=3), [intent(round) for round in range(3)], quick=True).epsilon
    assert f"epsilon {epsilon_text(truth)}" in invoke("list", "runs")
    assert "3.22" not in invoke("list", "runs")


@pytest.mark.usefixtures("three")
def test_compare_shows_what_differs() -> None:
    answer = json.loads(invoke("compare", "good", "seeded", "--json"))
    assert answer["recipe_differences"] == {"work.clip": [0.8, 0.5]}
    assert [run["state"] for run in answer["runs"]] == ["finished", "diverged"]
    text = invoke("compare", "good", "seeded", "cut")
    assert "work.clip" in text
    assert "model.size" in text  # the third run has none
    assert "30.0%" in text
    assert "41.2%" in text
    with pytest.raises(RunError, match="two or more"):
        invoke("compare", "good")


def test_what_is_no_run_is_refused() -> None:
    with pytest.raises(RunError, match="does not exist"):
        invoke("show", "nothing")


@pytest.mark.process
def test_it_starts_without_jax() -> None:
    code = "import sys, tacit.cli.runs; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
