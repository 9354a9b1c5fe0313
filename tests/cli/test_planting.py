"""What `tacit audit plant` prints to train with is all that is needed: each printed line is run as it stands."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tacit.cli.planting import Planting, change
from tacit.data.build import save_users
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.errors import PrivacyError
from tests.support.commands import Answer, Tacit
from tests.support.list_users import ListUsers
from tests.support.store_keys import KEY
from tests.support.tiny_recipe import tiny

# Appended to the printed line, so that the test takes seconds: they change how long and on how much is trained.
SHORT = ("run.rounds=1", "model.preset=tiny", "data.held_out=2", "run.evaluate_words=50")


def printed(wrote: Answer) -> list[str]:
    """The words of the line after "Train with:", as a shell gives them to `tacit`."""
    assert wrote.code == 0, wrote.err
    words = shlex.split(wrote.out.partition("Train with: ")[2])
    assert words[0] == "tacit"
    return words[1:]


def trains(tacit: Tacit, line: list[str], here: Path) -> None:
    """Run the printed line; the run is one with the plan's canaries in it."""
    ended = tacit(*line, *(word for each in SHORT for word in ("--set", each)), "--out", "run")
    assert ended.code == 0, ended.err
    planted = json.loads((here / "run" / "ledger.jsonl").read_text().splitlines()[0])["planted"]
    assert planted["canaries"] > 0


def write_store(folder: Path, users: int) -> None:
    words = Vocabulary(tuple(f"w{i}" for i in range(50)), word_list("test"))
    save_users(
        ListUsers([[[4 + user % 40, 5, 6]] for user in range(users)]),
        folder, source="test", vocabulary=words, key=KEY, held_out=0.2,
    )  # fmt: skip


def test_for_a_recipe(tacit: Tacit, here: Path) -> None:
    line = printed(tacit("audit", "plant", "tiny.toml", "--coins", 4, "--out", "my plan.json"))
    assert line == ["train", "tiny.toml", "--set", "audit.plan=my plan.json"]
    trains(tacit, line, here)


@pytest.mark.slow
def test_for_the_built_in_world(tacit: Tacit, here: Path) -> None:
    assert printed(tacit("audit", "plant", "keyboard", "--out", "demo.json")) == (
        ["train", "demo", "--set", "audit.plan=demo.json"]
    )
    wrote = tacit(
        "audit", "plant", "keyboard", "--users", 300, "--world-seed", 7, "--vocabulary", 300, "--out", "a.json"
    )
    trains(tacit, printed(wrote), here)
    recipe = (here / "run" / "recipe.toml").read_text()
    for part in ("users = 300", "world_seed = 7", "vocabulary = 300", "population = 300"):
        assert part in recipe


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(("--devices", 0, "--coins", 4), marks=pytest.mark.slow, id="coins"),
        pytest.param(("--public", "news"), id="devices"),
    ],
)
def test_for_a_store(tacit: Tacit, here: Path, held: tuple[object, ...]) -> None:
    write_store(here / "my store", 100)
    write_store(here / "news", 30)
    trains(tacit, printed(tacit("audit", "plant", "my store", "--users", 80, *held, "--out", "plan.json")), here)


def test_a_plan_that_training_would_refuse_is_not_written(tacit: Tacit, here: Path) -> None:
    write_store(here / "store", 40)
    plant = ("audit", "plant", "store", "--out", "plan.json")
    assert tacit(*plant).refusal(8) == (
        "Expected --public with made-up devices on the store store, got none: beside its canary such a device holds public "
        "text."
    )
    assert "the private store itself" in tacit(*plant, "--public", "store").refusal(PrivacyError.exit_code)
    in_turns = tiny(privacy={"mechanism": "banded", "sampling": "cyclic_poisson", "bands": 2})
    (here / "in_turns.toml").write_text(in_turns.to_toml())
    assert "everybody is asked in one way" in tacit(
        "audit", "plant", "in_turns.toml", "--device-rate", 0.5, "--out", "plan.json"
    ).refusal(8)
    assert not (here / "plan.json").exists()


def test_a_large_population_gets_a_smaller_delta() -> None:
    assert Planting.on_store(Path("store"), 2_000_000, None).changes == [
        "data.store=store",
        "privacy.population=2000000",
        "privacy.delta=1e-8",
    ]


def test_a_path_stays_a_path() -> None:
    assert change("data.store", "stores/mine") == "data.store=stores/mine"
    assert change("data.store", "2024") == 'data.store="2024"'
