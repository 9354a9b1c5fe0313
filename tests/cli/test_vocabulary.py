"""`tacit data vocabulary`: of public words, and of the words that people are found to use; and runs that train with those."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.api.run import open_run
from tacit.cli.audit import COULD_NOT_FAIL_EXIT
from tacit.data.store import open_store
from tacit.data.vocabulary import load_vocabulary
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.callbacks import Callback
from tacit.runs.odometer import runs_of
from tacit.simulation.training import start_run
from tests.support.chats import LISTED, own, write_chat, write_list
from tests.support.commands import Tacit, everything
from tests.support.forging import Records, forge, forge_checkpoints
from tests.support.stopping import stopped
from tests.support.tiny_recipe import tiny

DISCOVER = ("data", "vocabulary", "--private", "store", "--population", 60, "--delta", 1e-4)
# Little noise: a few dozen people are enough.
QUICK = (*DISCOVER, "--words", "words.txt", "--size", 15, "--sure", 2, "--epsilon", 40)


@pytest.fixture
def store(here: Path) -> Path:
    """A store of what some dozens of people wrote, beside a public word list."""
    write_list(here / "words.txt")
    return write_chat(here / "store").path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store and three runs: `run` and `stopped` use the words of `run-words`, `other` the store's."""
    place = tmp_path_factory.mktemp("made")
    write_list(place / "words.txt")
    write_chat(place / "store")
    with chdir(place):
        recipe = _recipe(vocabulary={"words": "words.txt", "size": 15, "sure": 2, "epsilon": 2.0})
        start_run(recipe, Path("run"), Callback())
        start_run(_recipe(), Path("other"), Callback())
        stopped(_recipe(vocabulary={"run": str(place / "run-words")}), Path("stopped"), 1)
    return place


@pytest.fixture
def runs(made: Path, here: Path) -> Path:
    """A copy of these, to be used or forged. The path of the discovery in the recipe is that of the original."""
    shutil.copytree(made, here, dirs_exist_ok=True)
    return here


def _recipe(vocabulary: dict[str, Any] | None = None) -> Recipe:
    made = tiny(
        data={"world": None, "store": "store", "held_out": 4},
        privacy={"population": 60, "noise_multiplier": 2.0},
        run={"rounds": 4},
    ).model_dump(mode="json", exclude_none=True)
    return parse_recipe(made | ({} if vocabulary is None else {"vocabulary": vocabulary}))


# Public words.


@pytest.fixture
def corpus(here: Path) -> Path:
    path = here / "chat.jsonl"
    records = [{"user": "ann", "said": ["the xylophone", "the end ."]}, {"user": "bob", "said": ["the beginning"]}]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


COLUMNS = ("--user", "user", "--text", "said")


def test_a_vocabulary_from_a_public_corpus(tacit: Tacit, here: Path, corpus: Path) -> None:
    command = ("data", "vocabulary", "--corpus", corpus, *COLUMNS, "--public-name", "Chat", "--size", 5, "--out", "v")
    assert tacit(*command, "--json").object["provenance"] == "public corpus: Chat"
    assert (here / "v").read_text().splitlines()[1:] == ["the"]
    assert tacit("data", "import", corpus, *COLUMNS, "--vocabulary", "v", "--out", "s").code == 0
    vocabulary = open_store(here / "s").vocabulary
    assert vocabulary is not None
    assert vocabulary.is_public


def test_a_vocabulary_from_a_word_list(tacit: Tacit, here: Path) -> None:
    write_list(here / "words.txt", ("the", "end", "The"))
    answer = tacit("data", "vocabulary", "--words", "words.txt", "--size", 5, "--out", "v")
    assert "5 entries, word list: words.txt" in answer.out
    assert answer.err == (
        "warning: 1 line of the word list words.txt repeats a word of an earlier line, perhaps in another spelling: each word "
        "counts once, at its first place.\n"
    )


def test_images_have_no_words(tacit: Tacit, here: Path) -> None:
    np.savez(here / "i.npz", images=np.zeros((1, 28, 28), np.uint8), labels=np.array([1]), writers=np.array([7]))
    answer = tacit("data", "vocabulary", "--corpus", "i.npz", "--public-name", "x", "--out", "v")
    assert "holds images; expected text" in answer.refusal(3)
    assert not (here / "v").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--size", 0), "at least 5"),
        ((), "either --corpus or --words"),
        (("--corpus", "a", "--words", "b"), "either --corpus or --words"),
        (("--corpus", "a"), "needs --public-name"),
        (("--corpus", "a", "--public-name", " "), "name of the public corpus"),
        (("--words", "words.txt", "--epsilon", 1), "Expected --epsilon with --private only: public words cost nothing"),
        (("--words", "words.txt", "--rare", "words.txt"), "Expected --rare with --private only"),
    ],
)
def test_bad_vocabularies(tacit: Tacit, store: Path, arguments: tuple[Any, ...], sentence: str) -> None:
    assert sentence in tacit("data", "vocabulary", *arguments, "--out", "v").refusal(3)
    assert not (store.parent / "v").exists()


def test_nothing_is_overwritten(tacit: Tacit, store: Path) -> None:
    assert "exists already" in tacit("data", "vocabulary", "--words", "words.txt", "--out", "words.txt").refusal(3)
    assert "The folder store is not empty" in tacit(*QUICK, "--out", "store").refusal(4)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("the\nca\x07t\n", "Line 2 of the word list words.txt holds the control character U+0007; expected a word."),
        ("the\ncat\x00\n", "Line 2 of the word list words.txt holds the control character U+0000; expected a word."),
        ("the\ntwo words\n", "Line 2 of the word list words.txt holds 2 words; expected one."),
        ("***\n", "The word list words.txt holds no word."),
    ],
)
def test_a_list_that_is_none(tacit: Tacit, store: Path, line: str, sentence: str) -> None:
    (store.parent / "words.txt").write_text(line)
    assert tacit(*QUICK, "--out", "words").refusal(3) == sentence
    assert runs_of(store) == {}


# Words that people use.


def test_words_are_discovered(tacit: Tacit, store: Path) -> None:
    answer = tacit(*QUICK, "--out", "words")
    assert answer.code == 0, answer.err
    assert "words/vocabulary.txt: 15 entries; 10 are words of the public list, 1 was found." in answer.out
    assert "It cost epsilon 40.00 at delta 0.0001. The statement: tacit guarantee words" in answer.out
    assert '[vocabulary]\nrun = "words"' in answer.out
    assert "lol" in load_vocabulary(store.parent / "words" / "vocabulary.txt").words
    assert tacit("account", "run", "words", "--json").object["epsilon"] <= 40
    shown = tacit("runs", "show", "words").out
    assert "11, 1 of them on no public list" in shown
    assert tacit("runs", "list", ".", "--json").object["runs"][0]["discovery"] == {"words": 11, "found": 1}
    assert tacit("report", "words", "--share").code == 0
    assert tacit("report", "words").code == 0
    page = (store.parent / "words" / "report.html").read_text()
    assert "<td>lol</td>" in page
    assert "It ran to its end." in page


def test_json_of_a_discovery(tacit: Tacit, store: Path) -> None:
    found = tacit(*QUICK, "--out", "words", "--json").object
    assert (found["size"], found["found"], found["delta"], found["warnings"]) == (15, 1, 1e-4, [])
    assert found["provenance"].startswith("discovered by the run ")
    assert "totals" not in found


def test_words_that_a_vocabulary_does_not_have(tacit: Tacit, store: Path) -> None:
    rare = (*DISCOVER, "--epsilon", 40, "--rare", "words.txt")
    answer = tacit(*rare, "--out", "new")
    assert "1 word was found that words.txt does not have" in answer.out
    assert answer.out.splitlines()[2].split()[1] == "lol"
    assert "[vocabulary]" not in answer.out
    found = tacit(*rare, "--out", "newer", "--json").object
    assert list(found["totals"]) == ["lol"]
    nothing = (*DISCOVER, "--epsilon", 40, "--rare", "new2", "--out", "newest")
    assert "vocabulary file new2" in tacit(*nothing).refusal(3)
    assert tacit("guarantee", "new").code == 0
    assert len(runs_of(store)) == 2


def test_no_word_that_a_vocabulary_does_not_have(tacit: Tacit, store: Path) -> None:
    write_list(store.parent / "all.txt", (*LISTED, "lol"))
    rare = (*DISCOVER, "--epsilon", 40, "--rare", "all.txt")
    assert "No word was found that all.txt does not have" in tacit(*rare, "--out", "new").out
    found = tacit(*rare, "--out", "newer", "--json").object
    assert (found["totals"], found["vocabulary"], found["size"]) == ({}, None, 0)


def test_a_list_in_another_alphabet_is_told(tacit: Tacit, store: Path) -> None:
    write_list(store.parent / "words.txt", ("дом", "кот", "стол", "сад"))
    answer = tacit(*QUICK, "--out", "words")
    assert answer.code == 0
    assert "the list may be in another alphabet or language than the texts" in answer.err


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--population", 0), 2, "population > 0, got 0"),
        (("--epsilon", 0), 2, "Expected vocabulary.epsilon > 0, got 0"),
        (("--delta", 0), 5, "Expected a delta above 0 and below 1"),
        (("--delta", 1e-299), 5, "No threshold shows a word of one user alone with a probability as low as 1e-300"),
        (("--epsilon", 1e-9), 5, "No noise makes a discovery of words cost epsilon 1e-09"),
        (("--sure", 99), 2, "Expected vocabulary.sure ≤ 11"),
        (("--corpus", "x"), 3, "Expected --private or --corpus, got both"),
        (("--rare", "words.txt"), 3, "Expected --rare without --words"),
        (("--private", "nowhere"), 3, "There is no store"),
        (("--words", "nowhere"), 3, "There is no vocabulary file nowhere"),
    ],
)
def test_what_cannot_be_discovered_costs_nothing(
    tacit: Tacit, store: Path, arguments: tuple[Any, ...], code: int, sentence: str
) -> None:
    before = everything(store.parent)
    assert sentence in tacit(*QUICK, *arguments, "--out", "words").refusal(code)
    assert everything(store.parent) == before


def test_a_population_is_not_counted_for_anybody(tacit: Tacit, store: Path) -> None:
    assert "needs --population" in tacit("data", "vocabulary", "--private", "store", "--out", "words").refusal(3)


# Runs that train with such words.


def test_a_run_with_discovered_words_does_all_that_others_do(tacit: Tacit, runs: Path) -> None:
    assert open_run(runs / "run").predict("the cat")
    for command in (
        "predict run the",
        "export run --safetensors m.safetensors --onnx m.onnx",
        "report run --share",
        "runs show run",
        "runs compare run other",
        "guarantee run",
        "train --resume stopped",
        "audit plant stopped/recipe.toml --devices 0 --coins 20 --copies 2 --out plan.json",
    ):
        answer = tacit(*command.split())
        assert answer.code == 0, (command, answer.err)
    assert "The choice of the words that the model knows, by the run" in tacit("guarantee", "run").out
    trained = tacit("train", "stopped/recipe.toml", "--set", "audit.plan=plan.json", "--out", "audited")
    assert trained.code == 0, trained.err
    assert tacit("audit", "run", "audited", "--suffixes", 30).code == COULD_NOT_FAIL_EXIT


def test_the_odometer_counts_a_discovery_once(tacit: Tacit, made: Path, here: Path) -> None:
    epsilon = {name: tacit("account", "run", made / name, "--json").object["epsilon"] for name in ("run", "other")}
    assert epsilon["run"] > epsilon["other"]
    both = tacit("account", "compose", made / "run-words", made / "run", "--json").object
    assert both["epsilon"] == pytest.approx(epsilon["run"], rel=1e-6)
    twice = tacit("account", "compose", made / "run", made / "other", "--json").object["epsilon"]
    three = tacit("account", "compose", made / "run-words", made / "run", made / "other", "--json").object["epsilon"]
    assert three == pytest.approx(twice, rel=1e-6)
    total = tacit("account", "odometer", made / "store", "--json").object
    assert len(total["runs"]) == 4
    assert total["epsilon"] > epsilon["run"]


def _edit_discovery(**changes: Any) -> Callable[[Records], Any]:
    return lambda records: records[0]["discovery"].update(changes)


@pytest.mark.parametrize(
    ("run", "edit", "said"),
    [
        ("run-words", _edit_discovery(threshold_delta=1e-12), "vocabulary.threshold_delta is"),
        ("run-words", _edit_discovery(largest_share=0.1), "vocabulary.largest_share is 0.5 in recipe.toml and 0.1 in"),
        ("run-words", _edit_discovery(words_per_user=1), "vocabulary.words_per_user is 1000 in recipe.toml and 1 in"),
        ("run-words", lambda records: records[0]["plan"].update(noise_multiplier=40.0), "privacy.noise_multiplier is"),
        ("run", lambda records: records[0].update(vocabulary=None), "the ledger does not say what that cost"),
        (
            "run",
            lambda records: records[0]["vocabulary"].update(noise_multiplier=1e6),
            "was not saved under the ledger's first record",
        ),
    ],
)
def test_a_forged_ledger_claims_nothing(
    tacit: Tacit, runs: Path, run: str, edit: Callable[[Records], Any], said: str
) -> None:
    assert tacit("account", "run", run).code == 0
    forge(runs / run, edit)
    for command in ("account run", "account compose", "guarantee", "report --share", "runs show"):
        assert said in tacit(*command.split(), run).refusal(4), command


def test_a_discovery_that_says_nothing_of_how_it_was_made_claims_nothing(tacit: Tacit, runs: Path) -> None:
    forge(runs / "run-words", lambda records: records[0].update(discovery=None))
    answer = tacit("guarantee", "run-words", "--json")
    assert answer.code == 4 or answer.object["epsilon"] is None


def test_where_everything_of_a_discovery_was_forged_the_store_knows(tacit: Tacit, runs: Path) -> None:
    """With the vocabulary's record and the section of the recipe gone, only the odometer has the true ledger."""
    forge(runs / "run", lambda records: records[0].update(vocabulary=None))
    recipe = runs / "run" / "recipe.toml"
    text = recipe.read_text()
    start = text.index("[vocabulary]")
    recipe.write_text(text[:start] + text[text.index("[", start + 1) :])
    digest = hashlib.sha256(recipe.read_bytes()).hexdigest()
    forge(runs / "run", lambda records: records[0].update(recipe=digest))
    forge_checkpoints(runs / "run")
    assert "is not the one that the odometer" in tacit("account", "run", "run").refusal(4)


def test_people_who_leave_words_of_their_own_do_not_show_in_anything_public(tacit: Tacit, store: Path) -> None:
    assert tacit(*QUICK, "--out", "words").code == 0
    for name, content in everything(store.parent / "words").items():
        assert not any(own(number).encode() in content for number in range(80)), name


LETTERS = (*DISCOVER, "--letters", "--longest", 7, "--rounds", 5, "--epsilon", 10)


def test_words_are_found_letter_by_letter(store: Path, tacit: Tacit) -> None:
    answer = tacit(*LETTERS, "--rare", "words.txt", "--out", "new")
    assert answer.code == 0, answer.err
    assert "1 word was found that words.txt does not have" in answer.out
    assert "lol" in answer.out
    assert "It cost epsilon 9.99 at delta 0.0001" in answer.out
    found = tacit(*LETTERS, "--words", "words.txt", "--out", "run", "--json").object
    assert (found["found"], found["size"]) == (1, 15)
    assert "in all rounds together" in tacit("guarantee", "run").out
    assert "1 of them on no public list" in tacit("runs", "show", "run").out
    assert tacit("report", "run", "--share").code == 0


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--letters", "--sure", 2), "Expected --letters without --sure"),
        (("--rounds", 3), "with --letters only"),
        (("--letters", "--alphabet", "AB"), "in lower case"),
        (("--letters", "--rounds", 1), "letters.coordinates"),
    ],
)
def test_mistakes_with_letters(store: Path, tacit: Tacit, more: tuple[Any, ...], sentence: str) -> None:
    answer = tacit(*DISCOVER, *more, "--out", "run")
    assert answer.code != 0
    assert sentence in answer.refusal(answer.code)
    assert not Path("run").exists()
