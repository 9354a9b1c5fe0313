"""`tacit account calibrate`: the option left out comes back, and the other commands agree that it meets the target."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.account_commands import FEDAVG, FTRL, KEYS, ask, cold_start, words
from tests.support.commands import Tacit

TARGETS = {"fedavg": {"epsilon": 1.0}, "ftrl": {"rho": 0.25}}
FINDABLE = [
    ("fedavg", "noise-multiplier"),
    ("fedavg", "rounds"),
    ("fedavg", "cohort"),
    ("ftrl", "noise-multiplier"),
    ("ftrl", "rounds"),
]


def without(command: str, *options: str) -> dict[str, Any]:
    known = FEDAVG | {"noise-multiplier": 2.0} if command == "fedavg" else FTRL
    return {name: value for name, value in known.items() if name not in options}


def calibrate(command: str, options: dict[str, Any]) -> list[object]:
    return ["account", "calibrate", *words(command, options)[1:]]


@pytest.mark.parametrize(("command", "option"), FINDABLE)
def test_what_is_found_meets_the_target(tacit: Tacit, command: str, option: str) -> None:
    settings, (measure, target) = without(command, option), next(iter(TARGETS[command].items()))
    found = tacit(*calibrate(command, settings | {measure: target}), "--json").object
    key = option.replace("-", "_")
    assert found.keys() >= KEYS | {"found", key}
    assert found["found"] == key
    assert found[measure] <= target
    assert ask(tacit, command, settings | {option: found[key]})[measure] <= target
    out = tacit(*calibrate(command, settings | {measure: target})).out
    assert out.startswith(f"{option.replace('-', ' ')} {found[key]}\nepsilon ")


def test_an_epsilon_for_ftrl_and_restarts(tacit: Tacit) -> None:
    settings = without("ftrl", "noise-multiplier") | {"epsilon": 6}
    one_tree = tacit(*calibrate("ftrl", settings), "--json").object
    restarted = tacit(*calibrate("ftrl", settings), "--restart-at", 100, "--restart-at", 300, "--json").object
    fresh = tacit(*calibrate("ftrl", settings | {"mechanism": "gaussian"}), "--json").object
    assert fresh["noise_multiplier"] < restarted["noise_multiplier"] < one_tree["noise_multiplier"]
    assert all(each["epsilon"] <= 6 for each in (one_tree, restarted, fresh))
    rounds = tacit(*calibrate("ftrl", without("ftrl", "rounds") | {"epsilon": 6, "restart-at": 5000}), "--json").object
    assert 0 < rounds["rounds"] < 5000  # a restart beyond what can be afforded does no harm


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("fedavg", without("fedavg") | {"epsilon": 1}, "got none left out"),
        ("fedavg", without("fedavg", "rounds", "cohort") | {"epsilon": 1}, "got --rounds and --cohort left out"),
        ("fedavg", without("fedavg", "rounds") | {"epsilon": 0}, "--epsilon above 0"),
        ("fedavg", without("fedavg", "rounds") | {"epsilon": "nan"}, "--epsilon above 0"),
        ("fedavg", without("fedavg", "rounds") | {"epsilon": "inf"}, "--epsilon of 0, or from"),
        ("fedavg", without("fedavg", "rounds") | {"epsilon": 1, "noise-multiplier": 0}, "--noise-multiplier above 0"),
        ("fedavg", without("fedavg", "rounds") | {"epsilon": 1, "cohort": 10**6}, "at most --population"),
        ("fedavg", without("fedavg", "rounds") | {"epsilon": 1, "sampling": "shuffle"}, "poisson or fixed"),
        (
            "fedavg",
            without("fedavg", "noise-multiplier") | {"epsilon": 1e-4, "cohort": 10**5, "rounds": 10**6},
            "No noise multiplier",
        ),
        (
            "fedavg",
            without("fedavg", "rounds") | {"epsilon": 0.001, "noise-multiplier": 0.5},
            "Not even a single round",
        ),
        ("ftrl", without("ftrl", "rounds"), "--epsilon or --rho, got neither"),
        ("ftrl", without("ftrl", "rounds") | {"rho": 1, "epsilon": 1}, "--epsilon or --rho, got both"),
        ("ftrl", without("ftrl", "rounds") | {"rho": -1}, "--rho above 0"),
        ("ftrl", without("ftrl", "noise-multiplier") | {"rho": 1, "restart-at": 930}, "--restart-at from 0 to 929"),
        ("ftrl", without("ftrl", "rounds") | {"rho": 1, "mechanism": "gaussian"}, "rounds and more meet rho 1"),
        ("ftrl", without("ftrl", "rounds") | {"rho": 1e-3}, "Not even a single round"),
    ],
)
def test_refusals(tacit: Tacit, command: str, options: dict[str, Any], said: str) -> None:
    assert said in tacit(*calibrate(command, options)).refusal(2)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("fedavg", {"population": 763_430, "cohort": 5_000, "rounds": 5_000, "delta": 1e-9, "epsilon": 4}),
        ("ftrl", without("ftrl", "rounds") | {"epsilon": 8}),
    ],
)
@pytest.mark.process
def test_answers_from_a_cold_start_in_two_seconds_and_without_jax(command: str, options: dict[str, Any]) -> None:
    assert cold_start(*calibrate(command, options), "--json")["epsilon"] <= options["epsilon"]
