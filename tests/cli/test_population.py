"""`tacit population`: what it tells, what it draws, what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import Tacit

SMALL = ("population", "--devices", 3000, "--report-goal", 20, "--rounds", 150)
TWO = ("--timer-hours", 24, "--timer-hours", 96)


def test_the_answer_as_json(tacit: Tacit) -> None:
    found = tacit(*SMALL, *TWO, "--json").object
    assert found["largest_separation"] == 149
    assert found["settings"]["devices"] == 3000
    day, days = found["timers"]
    assert (day["timer_hours"], days["timer_hours"]) == (24, 96)
    assert 0 < day["min_separation"] < days["min_separation"] < 149
    assert day["max_participation"] > days["max_participation"]
    assert day["counts"]["check_ins"] > 150 * 20
    assert len(day["round_s_by_hour_utc"]) == 24
    assert tacit(*SMALL, *TWO, "--json").object == found
    assert tacit(*SMALL, *TWO, "--json", "--seed", 1).object != found


def test_the_answer_in_words(tacit: Tacit) -> None:
    found = tacit(*SMALL, "--timer-hours", "24", "--json").object["timers"][0]
    answer = tacit(*SMALL, "--timer-hours", "24")
    assert answer.code == 0
    assert "150 rounds of 20 reports (26 devices selected) from 3,000 devices, zones us." in answer.out
    row = next(line for line in answer.out.splitlines() if line.lstrip().startswith("24 h")).split()
    assert row[-3:-1] == [str(found["min_separation"]), str(found["max_participation"])]
    assert "3,000 devices allow at most 149" in answer.out
    few = tacit("population", "--devices", 3000, "--report-goal", 20, "--rounds", 2, "--timer-hours", "24")
    assert "Where MinS is none, no device took part twice." in few.out


@pytest.mark.parametrize(
    ("name", "magic"), [("a.png", b"\x89PNG"), pytest.param("a.svg", b"<?xml", marks=pytest.mark.slow)]
)
def test_a_picture(tacit: Tacit, tmp_path: Path, name: str, magic: bytes) -> None:
    assert tacit(*SMALL, "--timer-hours", 24, "--timer-hours", 48, "--plot", tmp_path / name).code == 0
    assert (tmp_path / name).read_bytes().startswith(magic)


def test_a_picture_where_nobody_took_part_twice(tacit: Tacit, tmp_path: Path) -> None:
    few = ("population", "--devices", 3000, "--report-goal", 20, "--rounds", 1, "--timer-hours", "0")
    assert tacit(*few, "--plot", tmp_path / "a.png").code == 0


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--rounds", 0), 2, "Expected --rounds from 1 to 1000000, got 0."),
        (("--seed", -1), 2, "Expected --seed of at least 0, got -1."),
        (("--timer-hours", 24, "--timer-hours", 24), 2, "Expected --timer-hours to name each timer once, got 24, 24."),
        (("--timer-hours", "nan"), 2, "timer_hours"),
        (("--report-goal", 5000), 2, "Expected report_goal from 1 to 3000 (every device at once), got 5000."),
        (("--min-separation", 400, "--rounds", 500), 2, "got 400."),
        (("--max-participation", 1, "--rounds", 500), 2, "got 1."),
        (("--report-goal", 900, "--timer-hours", 3000), 2, "missed its goal for 28 simulated days,"),
        (("--zones", "mars"), 2, "got 'mars'."),
        (("--plot", "a.pdf"), 4, "Expected a picture that ends in .png or .svg, got a.pdf."),
        (("--plot", "nowhere/a.png"), 4, "Expected a picture in a folder that exists, got nowhere/a.png."),
    ],
)
def test_refusals(tacit: Tacit, tmp_path: Path, options: tuple[object, ...], code: int, sentence: str) -> None:
    assert sentence in tacit(*SMALL, *options).refusal(code)


def test_timers_are_compared_in_the_order_given_and_there_are_six_unless_some_are(tacit: Tacit) -> None:
    few = ("population", "--devices", 500, "--report-goal", 5, "--rounds", 3, "--json")
    assert [each["timer_hours"] for each in tacit(*few).object["timers"]] == [24, 48, 72, 96, 144, 192]
    asked = tacit(*few, "--timer-hours", 48, "--timer-hours", 24).object["timers"]
    assert [each["timer_hours"] for each in asked] == [48, 24]


@pytest.mark.parametrize("hours", ["soon", "24,48"])
def test_a_timer_is_one_number(tacit: Tacit, hours: str) -> None:
    refused = tacit(*SMALL, "--timer-hours", hours)
    assert refused.code == 2
    assert "Invalid value for '--timer-hours'" in refused.err


@pytest.mark.process
def test_no_accelerator_library_is_loaded() -> None:
    code = (
        "import sys; from tacit.cli.app import main\n"
        "try: main(['population', '--devices', '500', '--report-goal', '5', '--rounds', '3', '--json'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('jax', 'optax', 'equinox', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
