"""`tacit plan`: the table, the words around it, JSON, pictures, refusals, and how fast it answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.numbers import rounded_up
from tacit.privacy.planning.costs import MECHANISMS
from tests.support.commands import Tacit

# Gboard's es-ES, with the noise with which a report goal of 500 learned well.
SPAIN: dict[str, object] = {
    "population": 4_210_000,
    "rounds": 1900,
    "delta": 1e-10,
    "simulated-noise": 0.54,
    "simulated-report-goal": 500,
    "devices-per-round": 6500,
}
SMALL: dict[str, object] = {
    "population": 20_000,
    "rounds": 60,
    "delta": 1e-6,
    "noise-on-mean": 0.01,
    "devices-per-round": 400,
    "mechanism": ["tree", "gaussian", "poisson"],
}
ACCOUNT_KEYS = {"epsilon", "delta", "rho", "adjacency", "accountant", "assumptions"}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def words(options: dict[str, Any]) -> list[object]:
    given: list[object] = ["plan"]
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                given += [f"--{name}"] if each is True else [f"--{name}", each]
    return given


def ask(tacit: Tacit, **options: Any) -> dict[str, Any]:
    return tacit(
        *words({**SMALL, **{name.replace("_", "-"): value for name, value in options.items()}}), "--json"
    ).object


def test_one_object_holds_every_row(tacit: Tacit) -> None:
    found = ask(tacit, rho=0.5)
    assert found.keys() >= ACCOUNT_KEYS | {"rows", "recommended", "why", "notes", "target"}
    assert found["recommended"] in found["rows"]
    assert {(row["report_goal"], row["mechanism"]) for row in found["rows"]} >= {
        (goal, name) for goal in (12, 25, 50, 100, 200, 400) for name in ("tree", "gaussian", "poisson")
    }
    assert (found["epsilon"], found["rho"]) == (found["recommended"]["epsilon"], found["recommended"]["rho"])
    assert found["target"]["rho"] == 0.5


def test_a_row_costs_what_account_says(tacit: Tacit) -> None:
    row = ask(tacit, mechanism="tree", report_goal=400)["recommended"]
    asked = {
        "rounds": 60,
        "noise-multiplier": row["noise_multiplier"],
        "min-separation": row["min_separation"],
        "max-participation": row["max_participation"],
        "delta": 1e-6,
    }
    given = [word for name, value in asked.items() for word in (f"--{name}", value)]
    account = tacit("account", "ftrl", *given, "--json").object
    assert (account["rho"], account["epsilon"]) == (row["rho"], row["epsilon"])


def test_the_table_and_its_words(tacit: Tacit) -> None:
    answer = tacit(*words({**SMALL, "rho": 2}))
    assert (answer.code, answer.err) == (0, "")
    marked = [line for line in answer.out.splitlines() if line.startswith(">")]
    assert len(marked) == 1
    assert " tree " in marked[0]
    assert marked[0].rstrip().endswith("met")
    assert "Recommended: tree with report goal" in answer.out
    assert "the smallest report goal that meets rho 2 with no more noise than the simulation had" in answer.out
    assert "Report goal 400, the largest, would give rho" in answer.out
    assert "running sums" in answer.out
    assert "MinS is the most the population can sustain" in answer.out
    assert "…" not in answer.out  # no figure is cut off


def test_a_narrow_terminal_cuts_no_figure(tacit: Tacit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = tacit(*words({**SMALL, "rho": 2})).out
    assert "…" not in out
    assert any(line.startswith(">") and line.rstrip().endswith("met") for line in out.splitlines())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "the smallest epsilon of all rows with no more noise than the simulation had"),
        ({"rho": 1e-4}, "times the noise of the simulation. Expect a worse model"),
        ({"epsilon": 1, "noise-on-mean": None}, "first simulate report goal 100 with noise multiplier"),
        ({"min-separation": 90}, "* MinS is less than was asked for"),
        ({"round-minutes": 30, "timer-hours": 48}, "A longer timer would only make rounds wait for devices."),
        ({"round-minutes": 30, "min-separation": 9}, "A timer of 5 hours on each device holds MinS 9"),
        ({"max-participation": 1}, "cannot fill them within --max-participation: report goal 400."),
        ({"report-goal": 50}, "Poisson sampling is no better here (epsilon"),
        ({"noise-on-mean": 0.5}, "Poisson sampling would be better here (epsilon"),
        ({"mechanism": ["tree", "banded"]}, "banded keeps up to MinS arrays"),
    ],
)
def test_what_is_said_fits_the_question(tacit: Tacit, options: dict[str, Any], said: str) -> None:
    answer = tacit(*words({**SMALL, **options}))
    assert (answer.code, answer.err) == (0, "")
    assert said in answer.out


def test_what_is_not_so_is_not_said(tacit: Tacit) -> None:
    out = tacit(*words({**SMALL, "min-separation": 9, "mechanism": "tree"})).out
    for words_ in ("less than was asked for", "most the population can sustain", "Poisson", "Left out", "A timer"):
        assert words_ not in out


def test_uniform_sampling_lets_poisson_win(tacit: Tacit) -> None:
    found = ask(tacit, noise_on_mean=0.5, uniform_sampling=True)
    assert found["recommended"]["mechanism"] == "poisson"
    assert (found["adjacency"], found["rho"]) == ("add or remove one user", None)
    assert any("stays secret" in each for each in found["assumptions"])


def test_a_target_epsilon_is_met_with_the_noise_that_is_printed(tacit: Tacit) -> None:
    """Whoever copies the rounded figure of the table gets no less privacy."""
    options = {**SMALL, "epsilon": 1.5, "noise-on-mean": None, "mechanism": "tree", "report-goal": 400}
    marked = next(line for line in tacit(*words(options)).out.splitlines() if line.startswith(">"))
    _, _, _, z, _, _, min_separation, max_participation, *_ = marked.split()
    found = tacit(
        *("account", "ftrl", "--rounds", 60, "--delta", 1e-6, "--noise-multiplier", z),
        *("--min-separation", min_separation, "--max-participation", max_participation, "--json"),
    ).object
    assert 1.49 < found["epsilon"] <= 1.5


@given(st.floats(1e-6, 1e9), st.integers(2, 6))
def test_figures_are_rounded_up_and_not_far(value: float, digits: int) -> None:
    shown = float(rounded_up(value, digits))
    assert value * (1 - 1e-11) <= shown <= value * (1 + 10.0 ** (1 - digits) * 1.01)


def test_every_mechanism_may_be_asked_for(tacit: Tacit) -> None:
    names = [*MECHANISMS, "poisson"]
    found = ask(tacit, mechanism=names, report_goal=400)
    assert [row["mechanism"] for row in found["rows"]] == names
    usual = ask(tacit, mechanism=None, report_goal=400)
    assert [row["mechanism"] for row in usual["rows"]] == ["tree", "blt", "gaussian", "poisson"]
    assert usual["recommended"]["mechanism"] == "blt"


@pytest.mark.parametrize(
    ("name", "begins"), [("a.png", b"\x89PNG"), pytest.param("a.svg", b"<?xml", marks=pytest.mark.slow)]
)
def test_a_picture(tacit: Tacit, tmp_path: Path, name: str, begins: bytes) -> None:
    answer = tacit(*words({**SMALL, "rho": 0.5, "mechanism": ["tree", "poisson"], "plot": tmp_path / name}))
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith(f"Wrote {tmp_path / name}.\n")
    picture = (tmp_path / name).read_bytes()
    assert picture.startswith(begins)
    assert len(picture) > 20_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"population": 0}, "--population from 1"),
        ({"rounds": 20_001}, "--rounds from 1 to 20000, got 20001"),
        ({"delta": 1}, "--delta between 0 and 1, got 1"),
        ({"rho": 0}, "--rho from 1e-09"),
        ({"epsilon": -1}, "--epsilon from 1e-09"),
        ({"epsilon": "nan"}, "--epsilon"),
        ({"epsilon": 1, "rho": 1}, "--epsilon or --rho, got both"),
        ({"rho": 1e-9, "noise-on-mean": None, "population": 400}, "--rho that a noise multiplier of at most 1e+06"),
        ({"noise-on-mean": None}, "--epsilon or --rho, or the noise of a simulation"),
        ({"simulated-noise": 1, "simulated-report-goal": 9}, "--noise-on-mean, here 0.01, or --simulated-noise"),
        ({"noise-on-mean": None, "simulated-noise": 1}, "got no --simulated-report-goal"),
        ({"noise-on-mean": None, "simulated-report-goal": 9}, "got no --simulated-noise"),
        ({"noise-on-mean": 0}, "--noise-on-mean from 1e-09"),
        ({"devices-per-round": None}, "--devices-per-round, or --devices-per-day with --round-minutes"),
        ({"devices-per-round": 0}, "--devices-per-round of at least 1, got 0"),
        ({"devices-per-round": None, "devices-per-day": 10, "round-minutes": 1}, "at least one device in a round"),
        ({"devices-per-day": -1}, "--devices-per-day above 0, got -1"),
        ({"timer-hours": 24}, "--round-minutes or --devices-per-day with --timer-hours, here 24"),
        ({"timer-hours": 0, "round-minutes": 1}, "--timer-hours above 0, got 0"),
        ({"report-goal": 401}, "--report-goal of at most 400"),
        ({"report-goal": 400, "min-separation": 50}, "--min-separation of at most 49"),
        ({"min-separation": -1}, "--min-separation of at least 0, got -1"),
        ({"max-participation": 0}, "--max-participation of at least 1, got 0"),
        ({"mechanism": "magic"}, "--mechanism to be tree or blt or banded or gaussian or poisson, got 'magic'"),
        ({"simulated-mechanism": "poisson"}, "--simulated-mechanism to be tree"),
        ({"plot": "curves.pdf"}, "--plot that ends in .png or .svg, got curves.pdf"),
    ],
)
def test_refusals_are_one_sentence(tacit: Tacit, options: dict[str, Any], said: str) -> None:
    assert said in tacit(*words({**SMALL, **options})).refusal(2)


def test_a_picture_that_cannot_be_written_is_refused(tacit: Tacit, tmp_path: Path) -> None:
    refused = tacit(*words({**SMALL, "mechanism": "gaussian", "plot": tmp_path / "nowhere" / "a.png"})).refusal(2)
    assert "Cannot write --plot" in refused


@pytest.mark.process
def test_answers_from_a_cold_start_and_without_jax(tmp_path: Path) -> None:
    code = """
import sys
from tacit.cli.app import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    print(ended.code, "jax" in sys.modules, file=sys.stderr)
"""
    options = {**SPAIN, "epsilon": 8, "mechanism": ["tree", "gaussian", "poisson"]}
    arguments = [sys.executable, "-c", code, *map(str, words(options)), "--json"]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert ended.stderr.split() == ["0", "False"]
    found = json.loads(ended.stdout)
    assert found["recommended"]["report_goal"] == 6500
    assert found["recommended"]["noise_multiplier"] == pytest.approx(7.02)
    assert found["recommended"]["min_separation"] == 646
