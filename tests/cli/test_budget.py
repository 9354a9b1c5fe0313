"""`tacit budget`, and every command that draws from one: refused with one sentence, in text and as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.chats import write_chat, write_list
from tests.support.commands import Answer, Tacit
from tests.support.tiny_recipe import tiny

SPEND = ("--epsilon", 6, "--delta", 1e-4)
DISCOVER = ("data", "vocabulary", "--private", "store", "--population", 60, "--delta", 1e-4, "--words", "words.txt")


@pytest.fixture
def store(here: Path) -> Path:
    """A store of some dozens of people, a word list and a recipe of four rounds on the store."""
    write_list(here / "words.txt")
    tree = tiny(
        data={"world": None, "store": "store", "held_out": 4},
        privacy={"population": 60, "noise_multiplier": 2.0},
        run={"rounds": 4},
    )
    (here / "chat.toml").write_text(tree.to_toml())
    return write_chat(here / "store").path


def refusal(answer: Answer) -> str:
    """The one sentence after warnings and the plan; nothing is on stdout."""
    assert (answer.code, answer.out) == (5, ""), answer.err
    assert "Traceback" not in answer.err
    (found,) = [line for line in answer.err.splitlines() if line.startswith("error: ")]
    assert found.endswith(".")
    return found


def test_a_budget_is_set_spent_and_raised(tacit: Tacit, store: Path, here: Path) -> None:
    assert tacit("budget", "show", "store").out == ("No budget is set for store. tacit budget set store sets one.\n")
    assert tacit("budget", "show", "store", "--json").object == {"store": "store", "set": []}
    for wrong, why in (
        ((), "Expected either epsilon with delta, or rho, as the budget."),
        (("--epsilon", 4), "Expected a delta beside epsilon, such as 1e-6, got none."),
        (("--epsilon", "nan", "--delta", 1e-4), "Expected epsilon > 0, got nan."),
        (("--rho", 0), "Expected rho > 0, got 0.0."),
    ):
        assert tacit("budget", "set", "store", *wrong).refusal(5) == why
    assert tacit("budget", "set", "nowhere", *SPEND).refusal(3) == "There is no store nowhere."
    first = tacit("budget", "set", "store", *SPEND)
    assert "The budget of store is ε = 6 at δ = 0.0001, never raised: ε = 0.0000 is spent or reserved" in first.out
    assert tacit("train", "chat.toml", "--out", "first").code == 0
    told = tacit("budget", "show", "store", "--json").object
    assert 0 < told["spent"] < 6
    assert told["left"] == 6 - told["spent"]
    assert (told["runs"], told["open"], told["raised"], told["runs_before"]) == (1, [], 0, 0)
    composed = tacit("account", "odometer", "store", "--delta", 1e-4, "--json").object
    assert composed["budget"]["left"] == told["left"]
    assert "is spent or reserved, and ε = " in tacit("account", "odometer", "store").out
    assert "is spent or reserved, and ε = " in tacit("guarantee", "first").out
    refused = tacit("train", "chat.toml", "--out", "second", "--set", "run.rounds=400")
    assert "of it is left: with this run ε = " in refusal(refused)
    assert "hint: What would fit: " in refused.err
    lower = tacit("budget", "set", "store", "--epsilon", 0.1, "--delta", 1e-4)
    assert "Expected a budget of at least ε = " in lower.refusal(5)
    assert "only its ε can be changed" in tacit("budget", "set", "store", "--rho", 1).refusal(5)
    assert "only its ε can be changed" in tacit("budget", "set", "store", "--epsilon", 9, "--delta", 1e-3).refusal(5)
    raised = tacit("budget", "set", "store", "--epsilon", 40, "--delta", 1e-4).out
    assert "raised once" in raised
    assert "set 20" in raised


def test_words_are_paid_for_once_and_refused_when_they_do_not_fit(tacit: Tacit, store: Path, here: Path) -> None:
    tacit("budget", "set", "store", "--epsilon", 45, "--delta", 1e-2)
    few = ("--size", 15, "--sure", 2)
    assert "of it is left" in tacit(*DISCOVER, *few, "--epsilon", 60, "--out", "dear").refusal(5)
    assert not (here / "dear" / "vocabulary.txt").exists()
    assert tacit(*DISCOVER, *few, "--epsilon", 20, "--out", "words").code == 0
    alone = tacit("budget", "show", "store", "--json").object["spent"]
    text = (here / "chat.toml").read_text() + f'\n[vocabulary]\nrun = "{here / "words"}"\n'
    (here / "uses.toml").write_text(text)
    assert tacit("train", "uses.toml", "--out", "run").code == 0
    both = tacit("budget", "show", "store", "--json").object["spent"]
    assert alone < both < 1.5 * alone


def test_a_budget_in_rho_admits_words_without_threshold_only(tacit: Tacit, store: Path, here: Path) -> None:
    tacit("budget", "set", "store", "--rho", 3)
    sampled = refusal(tacit("train", "chat.toml", "--out", "sampled"))
    assert "the users of the run" in sampled
    assert "are sampled, and that cost is no rho" in sampled


def test_what_a_killed_run_had_reserved_is_settled(tacit: Tacit, store: Path, here: Path) -> None:
    from tacit.runs.budget.reservation import Reservation

    tacit("budget", "set", "store", *SPEND)
    assert tacit("budget", "settle", "store").out == "Nothing is open.\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reservation, "settle", lambda self, ledger: None)  # as if the process had been killed before it
        assert tacit("train", "chat.toml", "--out", "run").code == 0
    assert "open: " in tacit("budget", "show", "store").out
    spent = tacit("budget", "show", "store", "--json").object["spent"]
    assert tacit("budget", "settle", "store", "--json").object["runs"][0]["outcome"] == "settled"
    told = tacit("budget", "show", "store", "--json").object
    assert (told["open"], told["spent"]) == ([], spent)
