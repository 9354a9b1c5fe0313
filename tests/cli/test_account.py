"""`tacit account`: the papers' printed numbers, what is said in words, refusals, and how fast it answers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tacit.privacy.accounting.conventions import CONVENTIONS
from tests.support.account_commands import FEDAVG, FTRL, KEYS, ask, cold_start, words
from tests.support.commands import Tacit

PAPERS = Path(__file__).parents[1] / "privacy" / "accounting" / "paper_numbers.json"
NUMBERS: list[dict[str, Any]] = json.loads(PAPERS.read_text())


def test_there_are_as_many_numbers_as_the_papers_print() -> None:
    assert len(NUMBERS) == len({number["key"] for number in NUMBERS}) == 102
    assert {number["ask"].get("convention") for number in NUMBERS} >= set(CONVENTIONS)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number["key"])
def test_a_printed_number_comes_out_under_its_convention(tacit: Tacit, number: dict[str, Any]) -> None:
    options = dict(number["ask"])
    command, solved = options.pop("command"), options.pop("solve", None)
    if solved is not None:  # the paper's value is the setting that gives the target
        target, half = options.pop("target"), 0.5 * 10 ** -number["decimals"]
        around = [ask(tacit, command, options | {solved: number["printed"] + side}) for side in (half, -half)]
        assert around[0]["epsilon"] < target < around[1]["epsilon"]
        return
    found = ask(tacit, command, options)
    assert round(found[number["field"]], number["decimals"]) == number["printed"]
    if "convention" in options:
        paper = CONVENTIONS[options["convention"]]
        assert (found["convention"], found["differs"]) == (paper.name, paper.differs)
        assert found["proven"].keys() >= KEYS
        if paper.sampling == "fixed":  # twice the sensitivity costs more
            assert found["proven"]["epsilon"] > found["epsilon"]
        elif paper.name == "gboard-2023":  # rounding ρ goes either way
            assert found["proven"]["epsilon"] == pytest.approx(found["epsilon"], rel=0.02)
        else:
            assert found["proven"]["epsilon"] <= found["epsilon"] * (1 + 1e-9)


def test_own_bound_is_the_tighter_accountant_and_says_which(tacit: Tacit) -> None:
    by_default, pld, rdp = (ask(tacit, "fedavg", FEDAVG | {"accountant": name}) for name in (None, "pld", "rdp"))
    assert by_default == pld
    assert (pld["accountant"], rdp["accountant"]) == ("pld", "rdp")
    assert pld["epsilon"] < rdp["epsilon"]
    fixed = ask(tacit, "fedavg", FEDAVG | {"sampling": "fixed"})
    assert (fixed["adjacency"], fixed["accountant"]) == ("replace one user", "pld")
    assert fixed["epsilon"] > pld["epsilon"]
    assert ask(tacit, "fedavg", FEDAVG | {"noise-multiplier": 0.3, "rounds": 10**6})["accountant"] == "rdp"


def test_restarts_and_fresh_noise(tacit: Tacit) -> None:
    one_tree, fresh = (ask(tacit, "ftrl", FTRL | {"mechanism": name})["rho"] for name in ("tree", "gaussian"))
    assert (one_tree, fresh) == pytest.approx((47 / 98, 4 / 98))
    restarted = tacit(*words("ftrl", FTRL), "--restart-at", 100, "--restart-at", 300, "--json").object
    assert 4 / 98 < restarted["rho"] < one_tree
    assert "at least 212 rounds strictly between" in restarted["assumptions"][-1]


def test_min_separation_is_not_the_difference_of_round_numbers(tacit: Tacit) -> None:
    """Gboard's en-IN prints 1.14; taken for the difference of round numbers, its 170 would cost 1.18."""
    row = FTRL | {"rounds": 1290, "max-participation": 6}
    assert round(ask(tacit, "ftrl", row | {"min-separation": 170})["rho"], 2) == 1.14
    assert round(ask(tacit, "ftrl", row | {"min-separation": 169})["rho"], 2) == 1.18


def test_rho_of_any_mechanism_costs_more(tacit: Tacit) -> None:
    options = {"rho": 0.25, "delta": 1e-10}
    anything = tacit(*words("zcdp", options), "--any-mechanism", "--json").object
    assert anything["epsilon"] > ask(tacit, "zcdp", options)["epsilon"]
    assert "RDP" in anything["accountant"]


@pytest.mark.parametrize("command", ["fedavg", "ftrl"])
@pytest.mark.parametrize("by_paper", [False, True])
def test_no_noise_is_null_in_json_and_infinite_in_words(tacit: Tacit, command: str, by_paper: bool) -> None:
    paper = {"fedavg": "dp-fedavg-2018", "ftrl": "gboard-2023"}[command] if by_paper else None
    options = (FEDAVG if command == "fedavg" else FTRL) | {"noise-multiplier": 0, "convention": paper}
    found = ask(tacit, command, options)
    assert (found["epsilon"], found["rho"], found["reasons_not_private"]) == (None, None, ["no noise is added"])
    assert "epsilon is infinite: no noise is added" in tacit(*words(command, options)).out


def test_a_group(tacit: Tacit) -> None:
    options = {"epsilon": 1, "delta": 1e-8, "size": 16}
    found = ask(tacit, "group", options)
    assert (found["epsilon"], found["delta"]) == pytest.approx((16, 1e-8 * math.expm1(16) / math.expm1(1)))
    assert "epsilon 16.00 at delta 0.05172" in tacit(*words("group", options)).out
    nothing = ask(tacit, "group", options | {"size": 60})
    assert (nothing["epsilon"], nothing["delta"]) == (None, 1.0)
    assert "epsilon is infinite: the group's delta reaches 1" in tacit(*words("group", options | {"size": 60})).out


def test_words_say_the_bound_rounded_up_and_what_it_assumes(tacit: Tacit) -> None:
    out = tacit(*words("ftrl", FTRL)).out
    assert out.startswith("epsilon 6.41 at delta 1e-10, rho 0.4796 (zero out one user; ")
    assert "assuming one person is one user" in out
    by_paper = tacit(*words("fedavg", FEDAVG | {"convention": "production-2020"})).out
    assert by_paper.startswith("production-2020 counts epsilon ")
    assert "\n  differs: the theorem is for replace-one" in by_paper
    assert "\n  proven: epsilon " in by_paper


def test_conventions_are_listed(tacit: Tacit) -> None:
    out = tacit("account", "conventions").out
    for each in CONVENTIONS.values():
        assert each.name in out
        assert each.differs in out
    listed = tacit("account", "conventions", "--json").object["conventions"]
    assert [each["name"] for each in listed] == list(CONVENTIONS)


@pytest.mark.parametrize(
    ("command", "option", "value", "said"),
    [
        ("fedavg", "population", 0, "at least 1"),
        ("fedavg", "cohort", 100_001, "at most --population"),
        ("fedavg", "cohort", 0, "above 0"),
        ("fedavg", "cohort", "nan", "above 0"),
        ("fedavg", "rounds", 0, "at least 1"),
        ("fedavg", "noise-multiplier", -1, "from 1e-06"),
        ("fedavg", "noise-multiplier", "nan", "from 1e-06"),
        ("fedavg", "noise-multiplier", "1e-200", "from 1e-06"),
        ("fedavg", "delta", 0, "between 0 and 1"),
        ("fedavg", "delta", 1, "between 0 and 1"),
        ("fedavg", "sampling", "shuffle", "poisson or fixed"),
        ("fedavg", "accountant", "guess", "rdp or pld"),
        ("fedavg", "convention", "gboard-2023", "dp-fedavg-2018 or"),
        ("ftrl", "min-separation", -1, "at least 0"),
        ("ftrl", "max-participation", 0, "at least 1"),
        ("ftrl", "rounds", 10**6, "at most 20000"),
        ("ftrl", "mechanism", "honaker", "tree or blt or banded or gaussian"),
        ("ftrl", "restart-at", 930, "from 0 to 929"),
        ("ftrl", "convention", "production-2020", "gboard-2023"),
    ],
)
def test_a_bad_value_is_refused_in_one_sentence_that_names_it(
    tacit: Tacit, command: str, option: str, value: object, said: str
) -> None:
    sentence = tacit(*words(command, (FEDAVG if command == "fedavg" else FTRL) | {option: value})).refusal(2)
    assert f"--{option}" in sentence
    assert said in sentence


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        (
            "fedavg",
            {"sampling": "fixed", "accountant": "pld", "noise-multiplier": 0.3},
            "below 0.4 with --sampling fixed",
        ),
        ("fedavg", {"sampling": "fixed", "cohort": 10.5}, "whole number for --cohort"),
        ("fedavg", {"noise-multiplier": 0.1, "accountant": "pld"}, "--accountant rdp"),
        ("fedavg", {"convention": "production-2020", "sampling": "poisson"}, "--sampling fixed"),
        ("fedavg", {"convention": "production-2020", "accountant": "rdp"}, "does not go with --convention"),
        ("ftrl", {"mechanism": "gaussian", "restart-at": 3}, "not with --mechanism gaussian"),
        ("ftrl", {"convention": "gboard-2023", "restart-at": 3}, "got --restart-at 3"),
        ("ftrl", {"convention": "gboard-2023", "mechanism": "gaussian"}, "got --mechanism gaussian"),
    ],
)
def test_options_that_do_not_go_together(tacit: Tacit, command: str, options: dict[str, Any], said: str) -> None:
    assert said in tacit(*words(command, (FEDAVG if command == "fedavg" else FTRL) | options)).refusal(2)


@pytest.mark.parametrize(
    ("command", "options", "option"),
    [
        ("zcdp", {"rho": -1, "delta": 1e-6}, "--rho"),
        ("zcdp", {"rho": 1, "delta": 2}, "--delta"),
        ("group", {"epsilon": -1, "delta": 0, "size": 2}, "--epsilon"),
        ("group", {"epsilon": "inf", "delta": 0, "size": 2}, "--epsilon"),
        ("group", {"epsilon": 1, "delta": 1, "size": 2}, "--delta"),
        ("group", {"epsilon": 1, "delta": 0, "size": 0}, "--size"),
    ],
)
def test_refusals_of_the_small_commands(tacit: Tacit, command: str, options: dict[str, Any], option: str) -> None:
    assert option in tacit(*words(command, options)).refusal(2)


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("fedavg", FEDAVG | {"population": 763_430, "cohort": 5_000, "rounds": 5_000, "delta": 1e-9}),
        ("ftrl", FTRL | {"rounds": 4_000, "max-participation": 18}),
    ],
)
def test_answers_from_a_cold_start_without_jax(command: str, options: dict[str, Any]) -> None:
    assert cold_start(*words(command, options), "--json")["epsilon"] > 0
