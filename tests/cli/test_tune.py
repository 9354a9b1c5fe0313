"""`tacit tune`: from a recipe and public text to a tuned recipe, without a look at private users."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tacit as library
from tacit.privacy.record.ledger import read_ledger
from tacit.recipe.reading import toml_of
from tacit.recipe.target import at_epsilon
from tacit.recipe.training import load_recipe
from tacit.runs.odometer import read as read_odometer
from tacit.simulation.tuning import stand_ins
from tests.support.commands import Tacit
from tests.support.public_text import tree_with, write_public

_watched: list[tuple[str, set[str]]] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    for prefix, seen in _watched:
        seen.update(each for each in arguments if isinstance(each, str) and each.startswith(prefix))


sys.addaudithook(_hook)


@contextmanager
def opened_below(folder: Path) -> Iterator[set[str]]:
    """The paths below a folder that this process opens, lists or changes, as Python's own audit events name them."""
    watch = (str(folder), set[str]())
    _watched.append(watch)
    try:
        yield watch[1]
    finally:
        _watched.remove(watch)


def write_recipe(path: Path, public: Path, private: Path, **sections: dict[str, Any]) -> Path:
    path.write_text(toml_of(tree_with(public, private, **sections)))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}


@pytest.mark.slow
def test_a_recipe_is_tuned_without_opening_the_private_store(
    tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public, private = write_public(here / "public"), write_public(here / "private")
    write_recipe(here / "mine.toml", public, private)
    before, made = {each: contents(each) for each in (public, private)}, list[int]()
    pretrain_on = stand_ins.pretrain_on
    monkeypatch.setattr(stand_ins, "pretrain_on", lambda *given: made.append(1) or pretrain_on(*given))
    with opened_below(private) as seen:
        few = ("--trials", 2, "--minutes", 9, "--runs", "tried", "--out", "a.toml")
        answer = tacit("tune", "mine.toml", "--epsilon", 4, *few, "--json")
        assert not seen
        (private / "store.json").read_bytes()
        assert seen  # the watch works
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert len(made) == 1  # pre-trained once for all settings
    assert {each: contents(each) for each in (public, private)} == before
    assert read_odometer(private) == read_odometer(public) == []
    assert "Private users are not read" in answer.err

    assert len(found["settings"]) == 2
    assert found["settings"][0]["keys"]["run.rounds"] == 3
    chosen = found["settings"][found["chosen"] - 1]
    tuned = load_recipe(here / "a.toml")
    assert tuned.run.rounds == chosen["keys"]["run.rounds"]
    assert tuned.privacy.noise_multiplier == found["noise_multiplier"] == chosen["noise_multiplier"]
    assert tuned.server.average == chosen["average"]["average"]
    assert found["epsilon"] <= 4
    assert at_epsilon(tuned, 4.0).recipe == tuned  # the noise is the least for the target, with the chosen settings
    assert tuned.data.store == str(private)
    assert "The users of [data] were not read" in (here / "a.toml").read_text()

    for run in (here / "tried").iterdir():
        ledger = read_ledger(run / "ledger.jsonl")
        assert ledger.opened.reasons_not_private  # it claims nothing about anybody
        assert str(private) not in (run / "recipe.toml").read_text()
        plan = library.open_run(run).settings["privacy"]
        z, cohort = tuned.privacy.noise_multiplier, tuned.privacy.cohort
        assert plan["noise_multiplier"] / plan["cohort"] == pytest.approx(z / cohort, rel=1e-6)


@pytest.mark.slow
def test_a_private_store_that_is_not_here_does_not_matter(tacit: Tacit, here: Path) -> None:
    write_recipe(here / "mine.toml", write_public(here / "public"), here / "elsewhere" / "private")
    answer = tacit("tune", "mine.toml", "--epsilon", 4, "--trials", 1, "--minutes", 9)
    assert answer.code == 0, answer.err
    assert "Chosen (*): " in answer.out
    assert "papers" in answer.out
    assert "setting 1 (the recipe's own): top-1 " in answer.err
    assert load_recipe(here / "tuned.toml").data.store == str(here / "elsewhere" / "private")
    assert not (here / "elsewhere").exists()


def test_a_recipe_without_public_text_is_refused_in_one_sentence(tacit: Tacit, here: Path) -> None:
    answer = tacit("tune", "tiny.toml", "--epsilon", 4)
    assert answer.code == 2
    assert answer.err.startswith("error: Expected a recipe with public text to tune on, a store in pretrain.store")
    assert not (here / "tuned.toml").exists()


def test_nothing_is_overwritten(tacit: Tacit, here: Path) -> None:
    (here / "tuned.toml").write_text("mine")
    answer = tacit("tune", "tiny.toml", "--epsilon", 4)
    assert answer.code == 2
    assert "tuned.toml exists already" in answer.err
    assert (here / "tuned.toml").read_text() == "mine"


def test_an_epsilon_that_is_out_of_reach_is_refused_before_public_text_is_read(tacit: Tacit, here: Path) -> None:
    write_recipe(here / "mine.toml", here / "no store", here / "private", vocabulary={"epsilon": 9.0})
    answer = tacit("tune", "mine.toml", "--epsilon", 4)
    assert answer.code == 2
    assert "The discovery of words alone costs" in answer.err


def test_a_store_of_stand_ins_must_be_declared_public(tacit: Tacit, here: Path) -> None:
    write_recipe(here / "mine.toml", write_public(here / "public"), here / "private")
    forum = write_public(here / "forum")
    answer = tacit("tune", "mine.toml", "--epsilon", 4, "--stand-ins", forum)
    assert "Expected --stand-ins-public" in answer.refusal(5)
    assert not (here / "tuned.toml").exists()
