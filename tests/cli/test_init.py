"""`tacit init`: a recipe for a store of one's own, which says what it will cost, and costs that."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

import tacit as library
from tacit.privacy.statement.wording import epsilon_text
from tacit.recipe.reading import find_recipe
from tacit.recipe.suggestion import Wishes, suggested_recipe
from tacit.recipe.training import load_recipe
from tacit.runs import odometer
from tests.support.commands import Tacit, everything

PEOPLE = 400
WORDS = ("see", "you", "there", "later", "today")
KEY = bytes(range(32))


def save_people(path: Path) -> None:
    people = {f"person {number}": ["see you there", "see you later today"] for number in range(PEOPLE)}
    library.users(people, vocabulary=WORDS, key=KEY).save(path)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_people(tmp_path / "stores" / "chat")
    return Path("stores/chat")


@pytest.mark.slow
def test_a_recipe_costs_what_it_says(tacit: Tacit, store: Path) -> None:
    answer = tacit("init", "--yes", "--rounds", 2, "--epsilon", 3)
    assert (answer.code, answer.err) == (0, "")
    said = answer.out
    assert said.startswith("stores/chat: 400 people, ")
    assert "recipe.toml: 2 rounds, each with about 75 of 300 people" in said
    assert "Privacy: ε = 3.00 at δ = 0.0001, for all the data of any one person, in 2 rounds." in said
    assert "Time: about " in said
    assert said.endswith("Train with: tacit train recipe.toml\n")
    told = tacit("train", "recipe.toml", "--json").object["privacy"]
    assert 2.9 < told["epsilon"] <= 3.0
    assert epsilon_text(told["epsilon"]) == "3.00"
    assert told["delta"] == 1e-4


def test_every_line_is_explained_and_the_recipe_is_the_one_that_was_meant(tacit: Tacit, store: Path) -> None:
    options = ("--population", 350, "--cohort", 40, "--delta", 1e-5, "--rounds", 3, "--epsilon", 5, "--no-trial")
    facts = tacit("init", store, *options, "--out", "mine.toml", "--json").object
    assert (facts["recipe"], facts["store"], facts["seconds"]) == ("mine.toml", "stores/chat", None)
    recipe = load_recipe(Path("mine.toml"))
    plan = recipe.privacy
    assert (plan.population, plan.cohort, plan.delta, recipe.run.rounds, recipe.name) == (350, 40, 1e-5, 3, "chat")
    assert facts["noise_multiplier"] == plan.noise_multiplier
    assert 4.8 < facts["epsilon"] <= 5
    for line in Path("mine.toml").read_text().splitlines():
        assert not line or "#" in line or line.startswith("["), line


def test_words_counted_on_the_people_are_discovered_again_under_privacy(
    tacit: Tacit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"author": f"person {number}", "text": "see you there"} for number in range(PEOPLE)]
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ("chat.jsonl", "--user", "author", "--text", "text", "--vocabulary-private", 100, "--out", "stores/chat")
    assert tacit("data", "import", *asked).code == 0
    answer = tacit("init", "--yes", "--no-trial", "--rounds", 2)
    assert answer.code == 0, answer.err
    assert "The recipe discovers at most 10,000 words under differential privacy, for ε = 1 of the total" in answer.out
    assert "Privacy: ε = " in answer.out
    section = load_recipe(Path("recipe.toml")).vocabulary
    assert section is not None
    assert (section.size, section.epsilon) == (10_000, 1.0)  # and not how many words people have
    assert not odometer.read(Path("stores/chat"))  # an estimate discovers nothing
    facts = tacit("init", "--json", "--no-trial", "--rounds", 2, "--out", "other.toml").object
    assert 3.8 < facts["epsilon"] <= 4
    assert facts["reasons_not_private"] == []
    assert "people were counted in the store and rounded down" in facts["warnings"][0]
    assert "people were counted in the store and rounded down" in answer.out
    assert "These are exact figures about private users." in answer.out


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("chat.jsonl", '{"Author": "a", "body": "see you"}\n', "--user Author --text body"),
        ("chat.csv", "when,user_id,message\n1,a,see you\n", "--user user_id --text message"),
        ("chat.tsv", "speaker\ttext\na\tsee you\n", "--user speaker --text text"),
        ("chat.jsonl", "my secret diary\n", "--user USER --text TEXT"),
        ("chat.csv", "dear diary; today\n", "--user USER --text TEXT"),
        ("chat.parquet", "PAR1", "--user USER --text TEXT"),
    ],
)
def test_a_file_gets_the_command_that_imports_it(
    tacit: Tacit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str, columns: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(content)
    answer = tacit("init", name)
    assert answer.refusal(3) == f"Expected a store, got the file {name}, which has to be imported first."
    assert f"hint: tacit data import {name} {columns} --vocabulary WORDS --out stores/chat" in answer.err
    assert "diary" not in answer.err


def test_a_population_far_above_the_store_is_warned_about(tacit: Tacit, store: Path) -> None:
    """Each person takes part with probability cohort / population, so rounds would stay nearly empty."""
    few = "far fewer people than the population"
    said = tacit("init", store, "--population", 40_000, "--yes", "--no-trial", "--out", "large.toml").out
    assert (
        "Warning: The store has far fewer people than the population of 40,000: a round will have about 5 people"
        in said
    )
    assert few not in tacit("init", store, "--population", 500, "--yes", "--no-trial", "--out", "near.toml").out
    facts = tacit("init", store, "--population", 40_000, "--no-trial", "--out", "json.toml", "--json").object
    assert any(few in sentence for sentence in facts["warnings"])


def test_mistakes_leave_nothing_behind(tacit: Tacit, store: Path) -> None:
    Path("taken.toml").write_text("mine")
    save_people(Path("stores/other"))
    before = everything(Path())
    assert tacit("init", store, "--out", "taken.toml").refusal(2).startswith("The file taken.toml exists already")
    assert (
        tacit("init", store, "--population", 20).refusal(2).startswith("Expected a population of at least 100 people")
    )
    assert tacit("init", store, "--epsilon", 0).refusal(2) == "Expected --epsilon to be a number above 0, got 0."
    assert tacit("init", store, "--cohort", 999).refusal(2).startswith("Expected privacy.cohort ≤ privacy.population")
    assert "There is no store nothing" in tacit("init", "nothing").refusal(3)
    several = tacit("init", "--yes")
    assert several.refusal(3) == "Expected a store to train on, got none, and stores/ has 2."
    assert "hint: Name one of stores/chat, stores/other." in several.err
    assert everything(Path()) == before


def test_on_a_terminal_it_asks_for_what_was_not_given(
    tacit: Tacit, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("360\n\n"))
    answer = tacit("init", store, "--rounds", 2, "--no-trial")
    assert answer.code == 0, answer.err
    assert "How many people are there, as you would say it in public? [300]" in answer.err
    assert "Which epsilon" in answer.err
    plan = load_recipe(Path("recipe.toml")).privacy
    assert plan.population == 360
    assert "ε = 4.00" in answer.out
    assert "were counted in the store" not in answer.out


def test_the_own_data_recipe_is_the_base() -> None:
    """A recipe for as many people as own_data.toml has differs from it in the store, its name and digits of the noise."""
    own = load_recipe(find_recipe("own_data")).model_dump()
    made = suggested_recipe("stores/chat", "chat", Wishes(own["privacy"]["population"])).model_dump()
    assert made["privacy"].pop("noise_multiplier") == pytest.approx(own["privacy"].pop("noise_multiplier"), abs=1e-3)
    assert (made.pop("name"), made["data"].pop("store")) == ("chat", "stores/chat")
    assert (own.pop("name"), own["data"].pop("store")) == ("own_data", "stores/mine")
    assert made == own
