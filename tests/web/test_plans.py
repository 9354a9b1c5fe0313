"""The planner's page asks the same as `tacit plan`, and gives the same numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.boards import client_of
from tests.support.commands import Tacit

FLEET = {"population": 40_000, "rounds": 60, "delta": 1e-6}
QUESTIONS = [
    {
        "population": 40_000,
        "rounds": 60,
        "delta": 1e-6,
        "epsilon": 8,
        "devices_per_round": 200,
        "mechanism": ["tree", "gaussian"],
    },
    {
        "population": 40_000,
        "rounds": 60,
        "delta": 1e-6,
        "rho": 0.5,
        "report_goal": [50, 100],
        "mechanism": ["tree", "poisson"],
    },
    {"population": 4_000, "rounds": 40, "delta": 1e-5, "epsilon": 4, "noise_on_mean": 0.01, "devices_per_round": 80}
    | {"round_minutes": 30, "timer_hours": [6.5], "mechanism": ["tree"], "uniform_sampling": True},
]


def as_command(question: dict) -> list[object]:
    words: list[object] = []
    for name, value in question.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        else:
            words += [word for each in (value if isinstance(value, list) else [value]) for word in (option, each)]
    return words


@pytest.mark.parametrize("question", QUESTIONS, ids=["epsilon", "rho", "simulated"])
def test_the_page_has_the_numbers_of_the_command(tacit: Tacit, tmp_path: Path, question: dict) -> None:
    told = tacit("plan", *as_command(question), "--json").object
    with client_of(tmp_path) as client:
        found = client.get("/api/plan", params=question)
    assert found.status_code == 200, found.text
    assert found.json() == told


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"population": 0}, "Expected --population from 1"),
        ({"rounds": 10**9}, "Expected --rounds from 1"),
        ({"delta": 2}, "Expected --delta between 0 and 1"),
        ({"epsilon": -1}, "Expected --epsilon from"),
        ({"mechanism": ["nonsense"]}, "Expected --mechanism to be"),
        ({"devices_per_round": 0}, "Expected --devices-per-round"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, change: dict, said: str) -> None:
    with client_of(tmp_path) as client:
        answer = client.get("/api/plan", params=QUESTIONS[0] | change)
    assert answer.status_code == 409
    assert answer.json()["problem"].startswith(said)


@pytest.mark.parametrize("change", [{"population": "many"}, {"nonsense": 1}, {"rounds": ""}])
def test_a_value_that_is_none_is_refused(tmp_path: Path, change: dict) -> None:
    with client_of(tmp_path) as client:
        answer = client.get("/api/plan", params=QUESTIONS[0] | change)
    assert answer.status_code == 422
    assert answer.json()["problem"].endswith(".")


def test_the_recommended_row_lies_on_its_curve(tmp_path: Path) -> None:
    with client_of(tmp_path) as client:
        answer = client.get("/api/plan", params=QUESTIONS[0]).json()
        picture = client.get("/api/plan/picture", params=QUESTIONS[0]).json()
    row = answer["recommended"]
    (own,) = [curve for curve in picture["by_mechanism"] if curve["own"]]
    assert own["name"] == row["mechanism"]
    assert dict(map(tuple, own["points"]))[row["report_goal"]] == pytest.approx(row["epsilon"], rel=1e-6)
    for name in ("by_population", "by_rounds"):
        (own,) = [curve for curve in picture[name] if curve["own"]]
        assert dict(map(tuple, own["points"]))[row["report_goal"]] == pytest.approx(row["rho"], rel=1e-6)
