"""`tacit compare`: models on the same held-out users, with intervals; what does not fit is told in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.data.build import save_users
from tacit.data.store import open_store
from tacit.data.users import Users
from tacit.data.views import Subset
from tacit.data.vocabulary import PRIVATE, Vocabulary, word_list
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.keyboard import comparison_users as comparison_users
from tacit.keyboard.comparison_users import open_comparison_users
from tacit.keyboard.replay import METRICS
from tacit.recipe.training import parse_recipe
from tacit.runs.callbacks import Callback
from tacit.runs.folder import RunFolder
from tacit.simulation.training import start_run
from tests.support.chats import write_chat, write_list
from tests.support.commands import Tacit
from tests.support.list_users import ListUsers
from tests.support.tiny_recipe import tiny

FEW = ("--users", 12, "--buckets", 4)
WORDS = KeyboardWorld(1, 1, vocabulary_size=300).words


def save(users: Users, out: Path, provenance: str = word_list("test"), words: tuple[str, ...] = WORDS) -> Path:
    save_users(users, out, source="test", vocabulary=Vocabulary(words[4:], provenance), held_out=0.25, key=bytes(32))
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store; a run on the world, one on the store, and one on the world with other words."""
    root = tmp_path_factory.mktemp("compare")
    store = save(KeyboardWorld(5, 50, vocabulary_size=300, tokens_per_user=40), root / "store", PRIVATE)
    start_run(tiny(run={"rounds": 1}), root / "run", tacit.Callback())
    start_run(tiny(run={"rounds": 1}, data={"vocabulary": 200}), root / "other", tacit.Callback())
    on_store = {"world": None, "store": str(store), "held_out": 12}
    start_run(
        tiny(run={"rounds": 1}, data=on_store, privacy={"population": 30, "cohort": 8}),
        root / "on",
        tacit.Callback(),
    )
    return root


@pytest.fixture(autouse=True)
def fewer_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison_users, "WORLD_READ", 300)


@pytest.mark.slow
def test_an_ngram_beats_a_model_of_one_round(tacit: Tacit, folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "c.png"
    found = tacit("compare", "ngram", folder / "run", "--on", "keyboard", *FEW, "--plot", picture, "--json").object
    assert (found["users"], found["buckets"], found["outside_guarantee"]) == (12, 4, True)
    ngram, run = found["models"]
    assert [ngram["model"], run["model"]] == ["ngram", str(folder / "run")]
    assert ngram["changes"] == {}
    assert set(run["changes"]) == set(run["metrics"]) == set(METRICS)
    change = run["changes"]["top-1 recall"]
    ratio = run["metrics"]["top-1 recall"] / ngram["metrics"]["top-1 recall"]
    assert change["relative"] == pytest.approx(ratio - 1)
    assert change["low"] < change["relative"] < change["high"] < -0.5
    assert run["changes"]["word modified ratio"]["relative"] > 0
    assert ngram["privacy"] == {"counted_on": "300 users of the keyboard world with seed 1", "is_public": False}
    assert run["privacy"]["epsilon"] > 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_table_says_who_what_and_on_whom(tacit: Tacit, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    counted = 50 - len(open_store(folder / "store").held_out_users())
    answer = tacit("compare", "ngram", "ngram+history", "on", "--on", "store", "--buckets", 4)
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0].split() == ["ngram", "ngram+history", "on"]
    assert sum(line.startswith(tuple(METRICS)) for line in lines) == len(METRICS)
    assert f"ngram: no privacy, counted on {counted} users of the store store." in lines  # the store's own users
    assert "on: no privacy, because the vocabulary was counted on the private users themselves." in lines
    assert (
        f"words of {50 - counted} held-out users of the store store; change against ngram with its 95% interval"
        in lines[-1]
    )
    assert lines[-1].endswith("Measured outside any guarantee.")


def test_a_saved_ngram_is_the_same_model(tacit: Tacit, folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.npz"
    tacit("compare", "ngram", "ngram+history", "--on", "keyboard", *FEW, "--ngram-order", 2, "--save-ngram", kept)
    # Counted in the default vocabulary of 2,000 words: not the run's.
    assert "whose words are others" in tacit("compare", folder / "run", kept, "--on", "keyboard", *FEW).refusal(3)
    found = tacit("compare", "ngram", kept, "--on", "keyboard", *FEW, "--ngram-order", 2, "--json").object
    assert found["models"][0]["metrics"] == found["models"][1]["metrics"]
    assert {change["relative"] for change in found["models"][1]["changes"].values()} == {0.0}


def test_an_ngram_of_another_store_reads_that_store(tacit: Tacit, folder: Path, tmp_path: Path) -> None:
    words = (*WORDS[:4], "elsewhere", *WORDS[10:4:-1])
    public = save(ListUsers([[[5, 6, 4, 7]] * 3]), tmp_path / "public", words=words)
    arguments = ("compare", "ngram", folder / "run", "--on", "keyboard", *FEW, "--ngram-on", public, "--json")
    counted = tacit(*arguments, "--ngram-public").object["models"][0]["privacy"]
    assert counted == {"counted_on": f"1 users of the store {public}", "is_public": True}
    assert tacit(*arguments).object["models"][0]["privacy"]["is_public"] is False
    itself = ("--on", folder / "store", "--buckets", 4, "--ngram-on", folder / "store")
    assert "its held-out users would be counted" in tacit("compare", "ngram", "ngram+history", *itself).refusal(5)
    alone = ("--on", folder / "store", "--buckets", 4, "--ngram-public")
    assert "--ngram-public needs --ngram-on" in tacit("compare", "ngram", "ngram+history", *alone).refusal(5)


def test_held_out_users_are_those_of_the_store(folder: Path) -> None:
    store = open_comparison_users(str(folder / "store"), [folder / "on"])
    assert isinstance(store.held_out, Subset)
    np.testing.assert_array_equal(store.held_out.members, open_store(folder / "store").held_out_users())
    assert isinstance(store.others, Subset)
    assert not set(store.others.members) & set(store.held_out.members)
    fewer = open_comparison_users(str(folder / "store"), [folder / "on"], held_out=5)
    assert isinstance(fewer.held_out, Subset)
    assert set(fewer.held_out.members) < set(store.held_out.members)
    world = open_comparison_users("keyboard", [folder / "run"], held_out=7)
    assert isinstance(world.held_out, Subset)
    assert world.held_out.members.tolist() == list(range(400, 407))  # beyond the run's own users
    assert isinstance(world.others, Subset)
    assert not set(world.others.members) & set(world.held_out.members)


def test_another_vocabulary_is_refused(tacit: Tacit, folder: Path) -> None:
    told = tacit("compare", folder / "run", folder / "other", "--on", "keyboard", *FEW).refusal(4)
    assert "Expected a run with the 300 words" in told
    assert told.endswith("whose 200 words are others.")


def test_too_few_users_are_refused(tacit: Tacit, folder: Path, tmp_path: Path) -> None:
    two = ("compare", "ngram", "ngram+history")
    there = len(open_store(folder / "store").held_out_users())
    told = tacit(*two, folder / "on", "--on", folder / "store", "--buckets", there + 1).refusal(3)
    assert told.startswith(f"Expected at least {there + 1} held-out users, one a bucket, got {there} of")
    assert "--users of at least 20, one user a bucket, got 19" in tacit(
        *two, "--on", "keyboard", "--users", 19
    ).refusal(3)
    empty = save(ListUsers([]), tmp_path / "empty")
    assert "which has no users" in tacit(*two, "--on", empty).refusal(3)
    aside = open_store(folder / "store").held_out_users()  # the same rows in every store with this key
    silent = save(ListUsers([[] if user in aside else [[4]] for user in range(50)]), tmp_path / "silent")
    assert f"got {there} who wrote none" in tacit(*two, "--on", silent, "--buckets", 5).refusal(3)
    assert "at least 2 buckets" in tacit(*two, "--on", "keyboard", "--buckets", 1).refusal(3)


def test_what_is_no_model_and_what_is_no_store_are_refused(tacit: Tacit, tmp_path: Path) -> None:
    on = ("--on", "keyboard", *FEW)
    assert "which does not exist" in tacit("compare", "ngram", tmp_path / "nothing", *on).refusal(4)
    assert "There is no n-gram model" in tacit("compare", "ngram", tmp_path / "nothing.npz", *on).refusal(3)
    assert "two or more models to compare, got 1" in tacit("compare", "ngram", *on).refusal(4)
    assert "named once" in tacit("compare", "ngram", "ngram", *on).refusal(4)
    assert "There is no store" in tacit("compare", "ngram", "ngram+history", "--on", tmp_path / "s").refusal(3)
    assert "--ngram-order from 1 to 5, got 6" in tacit(
        "compare", "ngram", "ngram+history", *on, "--ngram-order", 6
    ).refusal(3)
    assert ".png or .svg" in tacit("compare", "ngram", "ngram+history", *on, "--plot", tmp_path / "c.pdf").refusal(4)


def test_runs_with_discovered_words_are_compared_in_these_words(tacit: Tacit, tmp_path: Path) -> None:
    store = write_chat(tmp_path / "store").path
    tree = tiny(
        data={"world": None, "store": str(store), "held_out": 12},
        privacy={"population": 60, "noise_multiplier": 2.0},
        run={"rounds": 1},
    ).model_dump(mode="json", exclude_none=True)
    words = {"words": str(write_list(tmp_path / "words.txt")), "size": 12, "epsilon": 40.0}
    start_run(parse_recipe(tree | {"vocabulary": words}), tmp_path / "run", Callback())
    users = open_comparison_users(str(store), [tmp_path / "run"], held_out=12)
    assert "lol" in users.words  # on no list, and not among the words of the store
    assert list(users.words) == RunFolder.open(tmp_path / "run").vocabulary()
    found = tacit("compare", "ngram", tmp_path / "run", "--on", store, *FEW, "--ngram-order", 2, "--json").object
    assert [model["model"] for model in found["models"]] == ["ngram", str(tmp_path / "run")]
    assert found["models"][0]["metrics"]["top-1 recall"] > 0
