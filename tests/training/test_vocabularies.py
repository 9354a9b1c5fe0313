"""The words of a recipe's [vocabulary]: found on its users, never on the held-out ones, and charged to the run that trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from tacit.api.run import open_run
from tacit.api.train import train
from tacit.data.encoding import word_counts
from tacit.data.importing import import_text
from tacit.data.sources import TextSource
from tacit.data.store import open_store
from tacit.data.users import RESERVED
from tacit.data.views import split_users
from tacit.data.vocabulary import PRIVATE, Vocabulary, count_vocabulary, load_vocabulary
from tacit.errors import DataError, PrivacyError, RecipeError, RunError, TacitError, WorkerError
from tacit.privacy.accounting.cost import Cost
from tacit.privacy.noise.tail import apart_from_tail
from tacit.privacy.record.reasons import Why
from tacit.privacy.statement.assumptions import Observed
from tacit.privacy.statement.wording import round_up
from tacit.recipe.sections import VocabularySection
from tacit.recipe.target import words_delta
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.callbacks import Callback
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder
from tacit.runs.odometer import runs_of
from tacit.runs.word_discovery import totals_of, words_of
from tacit.simulation import training
from tacit.simulation.ray import users as ray_users
from tacit.simulation.training import resume_run, start_run
from tacit.training.vocabularies import discover_words, discovery_of, found_words
from tests.support.chats import LISTED, SHARE, chat, write_chat, write_list
from tests.support.commands import everything
from tests.support.inline_pool import InlinePool
from tests.support.stopping import stopped
from tests.support.store_keys import KEY, key_holding_out
from tests.support.tiny_recipe import tiny


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_chat(tmp_path / "store").path


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    return write_list(tmp_path / "words.txt")


def section(listed: Path | None = None, **changes: Any) -> VocabularySection:
    """Little noise, so that a few people are enough."""
    settings: dict[str, Any] = {"size": 12, "sure": 2 if listed else None, "epsilon": 40.0}
    return VocabularySection(**settings | {"words": None if listed is None else str(listed)} | changes)


def found(given: VocabularySection, store: Path, out: str = "words", **more: Any) -> RunFolder:
    return discover_words(given, store, store.parent / out, population=60, delta=1e-4, **more)


def recipe(store: Path, given: VocabularySection | None, **sections: Any) -> Recipe:
    made = tiny(
        data={"world": None, "store": str(store), "held_out": 4},
        privacy={"population": 60, "noise_multiplier": 2.0},
        run={"rounds": 4},
        **sections,
    )
    tree = made.model_dump(mode="json", exclude_none=True)
    return parse_recipe(tree | ({} if given is None else {"vocabulary": given.model_dump(exclude_none=True)}))


def test_the_section_becomes_a_discovery(listed: Path) -> None:
    made = discovery_of(section(listed, sure=2, candidates=3), population=60, delta=1e-4)
    assert (made.sure, made.candidates) == (LISTED[:2], LISTED[2:5])
    assert made.size == 8
    half = discovery_of(section(listed, sure=None), population=60, delta=1e-4)
    assert (half.sure, half.candidates) == (LISTED[:4], LISTED[4:])
    assert made.threshold_delta == pytest.approx(1e-5)
    assert words_delta(section(), 1e-5) == pytest.approx(1e-7)
    assert words_delta(section(delta=1e-6), 1e-5) == 1e-6


def test_words_of_held_out_people_are_never_read(tmp_path: Path, listed: Path) -> None:
    wrote = chat()
    key = key_holding_out({"person 0", "person 1"}, list(wrote)[:12], SHARE)
    aside = {"person 0", "person 1"}
    some = {user: texts + (["aside aside"] if user in aside else []) for user, texts in list(wrote.items())[:12]}
    store = write_chat(tmp_path / "store", some, key=key)
    train, held_out = split_users(store)
    assert (len(train), len(held_out)) == (10, 2)
    assert all(counts["aside"] for counts in word_counts(store, held_out.members))
    totals = totals_of(
        found(section(write_list(tmp_path / "more.txt", (*LISTED, "aside")), epsilon=1000.0), store.path)
    )
    assert totals.found.keys() == {"lol"}
    assert totals.noise < 0.05  # so little that one person's share would show
    assert totals.candidates["aside"] == pytest.approx(0.0, abs=6 * totals.noise)
    assert totals.candidates["dog"] > 10 * 0.2


def test_a_store_without_held_out_people_has_words_too(tmp_path: Path, listed: Path) -> None:
    store = write_chat(tmp_path / "store", held_out=0.0)
    assert "lol" in words_of(found(section(listed), store.path))


@pytest.mark.slow
def test_a_word_of_one_person_is_shown_as_often_as_delta_says_and_no_more(tmp_path: Path) -> None:
    """Attack, from the store to the files: one person has four words that nobody else has. The bound is tight for them."""
    trials, delta = 120, 0.5
    pins = tuple(f"pin{number}" for number in range(4))
    store = write_chat(tmp_path / "store", {"spy": [" ".join(pins)], **chat(6)}, held_out=0.0)
    given = VocabularySection(epsilon=1.0, words_per_user=4, largest_share=0.5)
    outside = write_list(tmp_path / "known.txt", ("the", "cat"))
    shown = 0
    for number in range(trials):
        out = tmp_path / f"words{number}"
        folder = discover_words(given, store.path, out, population=1, delta=delta, outside=outside)
        words = words_of(folder)
        shown += any(pin in words for pin in pins)
        for name, content in everything(out).items():  # what is not shown is nowhere
            assert not any(pin.encode() in content for pin in pins if pin not in words), name
    assert shown <= binom.ppf(1 - 1e-6, trials, 0.1 * delta)  # a tenth of delta is the threshold's
    assert shown >= 1  # the attack works: words do pass now and then


def test_the_users_of_a_store_in_the_words_that_were_found(store: Path, listed: Path) -> None:
    folder = found(section(listed), store)
    given = found_words(section(run=str(folder.path)), open_store(store))
    assert given.users.vocabulary.words == words_of(folder)
    assert "lol" in words_of(folder)
    assert given.record is not None
    assert given.record.run == folder.run_id
    assert given.reasons_not_private == ()


def test_a_discovery_on_other_users_is_refused(store: Path, listed: Path) -> None:
    folder = found(section(listed), store)
    other = write_chat(store.parent / "other")
    with pytest.raises(PrivacyError, match="which read those of another store"):
        found_words(section(run=str(folder.path)), other)


def test_words_that_have_not_been_discovered(store: Path) -> None:
    with pytest.raises(RunError, match="have not been discovered yet"):
        found_words(section(), open_store(store))


def test_words_outside_a_vocabulary_or_a_run(store: Path, listed: Path) -> None:
    whole = found(section(listed, size=15), store)
    assert "lol" in words_of(found(section(), store, "rare-of-a-list", outside=listed))
    rare = found(section(), store, "rare-of-a-run", outside=whole.path)
    assert words_of(rare) == ()
    with pytest.raises(RunError, match="which looked for words outside another one alone"):
        found_words(section(run=str(store.parent / "rare-of-a-list")), open_store(store))


def test_words_outside_a_trained_model(store: Path) -> None:
    start_run(recipe(store, None), store.parent / "run", Callback())
    rare = found(section(), store, outside=store.parent / "run")
    assert words_of(rare) == ("lol",)
    assert cost_of(rare).stated.reasons_not_private == ()


def test_words_outside_a_vocabulary_that_was_counted_on_users_claim_nothing(store: Path, tmp_path: Path) -> None:
    Vocabulary(("the", "cat"), PRIVATE).save(tmp_path / "counted.vocab")
    rare = found(section(), store, outside=tmp_path / "counted.vocab")
    assert [reason.code for reason in cost_of(rare).stated.reasons_not_private] == [Why.COUNTED_VOCABULARY]
    seeded = found(section(epsilon=40.0), store, "seeded", seed=3)
    again = found(section(), store, "again", outside=seeded.path)
    assert [reason.code for reason in cost_of(again).stated.reasons_not_private] == [Why.SEEDED]


def test_a_list_that_comes_from_users_is_no_public_list(store: Path, listed: Path, tmp_path: Path) -> None:
    folder = found(section(listed), store)
    Vocabulary(("the", "cat"), PRIVATE).save(tmp_path / "counted.vocab")
    for path in (folder.vocabulary_path, tmp_path / "counted.vocab"):
        with pytest.raises(DataError, match=r"Expected a public word list, got .*, whose words come from users"):
            discovery_of(section(path), population=60, delta=1e-4)


@pytest.mark.parametrize(
    ("changes", "delta", "sentence"),
    [
        ({}, 1e-299, "No threshold shows a word of one user alone with a probability as low as 1e-300"),
        ({}, 1.5, "Expected a delta above 0 and below 1"),
        ({"epsilon": 1e-9}, 1e-4, "No noise makes a discovery of words cost epsilon 1e-09"),
        ({"words": "missing.txt"}, 1e-4, "There is no vocabulary file missing.txt"),
    ],
)
def test_what_is_impossible_is_refused_before_anything_is_read(
    store: Path, changes: dict[str, Any], delta: float, sentence: str
) -> None:
    with pytest.raises(TacitError, match=sentence):
        discover_words(section(**changes), store, store.parent / "words", population=60, delta=delta)
    assert not (store.parent / "words").exists()
    assert runs_of(store) == {}


def test_repeated_words_of_a_list_are_told(store: Path, tmp_path: Path) -> None:
    listed = write_list(tmp_path / "words.txt", (*LISTED, "cat", "CAT"))
    warnings = (found(section(listed), store).summary() or {})["warnings"]
    assert warnings == [
        f"2 lines of the word list {listed} repeat a word of an earlier line, perhaps in another spelling: each word counts "
        "once, at its first place."
    ]


def test_a_run_that_trains_is_charged_for_its_words(store: Path, listed: Path) -> None:
    place, told = store.parent, Told()
    given = section(write_list(store.parent / "twice.txt", (*LISTED, "cat")), epsilon=2.0)
    start_run(recipe(store, given), place / "with", told)
    start_run(recipe(store, None), place / "without", Callback())
    assert any("repeat" in sentence for sentence in told.warnings)
    folder, words = RunFolder.open(place / "with"), RunFolder.open(place / "with-words")
    record = folder.ledger().opened.vocabulary
    assert record is not None
    assert (record.run, record.head) == (words.run_id, words.ledger().head)
    assert folder.vocabulary() == ["<pad>", "<bos>", "<eos>", "<oov>", *words_of(words)]
    with_words, alone = cost_of(folder).stated, cost_of(RunFolder.open(place / "without")).stated
    assert alone.epsilon < with_words.epsilon < alone.epsilon + 2.0
    assert set(runs_of(store)) == {folder.run_id, words.run_id, RunFolder.open(place / "without").run_id}
    assert open_run(place / "with").predict("the cat")


class Told(Callback):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def on_warning(self, sentence: str) -> None:
        self.warnings.append(sentence)


def test_a_run_that_uses_discovered_words_goes_on_where_it_was(store: Path, listed: Path) -> None:
    asked = recipe(store, section(listed, epsilon=2.0))
    stopped(asked, store.parent / "run", 1)
    assert RunFolder.open(store.parent / "run").ledger().next_round == 2
    resume_run(store.parent / "run", Callback(), asked)  # the same recipe, which names no discovery
    folder = RunFolder.open(store.parent / "run")
    assert folder.ledger().next_round == 4
    assert len(runs_of(store)) == 2
    assert np.isfinite(cost_of(folder).stated.epsilon)


def test_workers_that_cannot_read_the_users_are_told_of_before_words_are_discovered(
    store: Path, listed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(InlinePool):
        def prepare(self, side: Any, shards: Any = ()) -> None:
            raise WorkerError("The worker node-2 cannot read the users: there is no store.")

    monkeypatch.setattr(ray_users, "RayPool", lambda settings: Elsewhere())
    monkeypatch.setattr(training, "use_accelerators", lambda ray: None)
    before = everything(tmp_path)
    with pytest.raises(WorkerError, match="cannot read the users"):
        start_run(recipe(store, section(listed), engine={"kind": "ray"}), tmp_path / "run", Callback())
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model": {"preset": "no such model"}}, "no such model"),
        ({"privacy": {"sampling": "fixed", "population": 70, "cohort": 12}}, "at least privacy.population = 70"),
        ({"data": {"tokens_per_user": 0}}, "tokens_per_user"),
    ],
)
def test_a_wrong_recipe_is_refused_before_words_are_discovered(
    store: Path, listed: Path, changes: dict[str, Any], sentence: str
) -> None:
    tree = recipe(store, section(listed)).model_dump(mode="json", exclude_none=True)
    for name, values in changes.items():
        tree[name] |= values
    with pytest.raises(TacitError, match=sentence):
        start_run(parse_recipe(tree), store.parent / "run", Callback())
    assert runs_of(store) == {}
    assert not (store.parent / "run-words").exists()


def test_words_that_were_paid_for_are_not_discovered_again(store: Path, listed: Path) -> None:
    found(section(listed), store, "run-words")
    with pytest.raises(RunError, match="another one would cost again") as told:
        start_run(recipe(store, section(listed)), store.parent / "run", Callback())
    assert "--set vocabulary.run=" in str(told.value.hint)
    assert len(runs_of(store)) == 1


@pytest.mark.parametrize(
    ("vocabulary", "sentence"),
    [
        ({"delta": 1e-4}, "Expected vocabulary.delta < privacy.delta = 0.0001, of which it is a part, got 0.0001"),
        ({"sure": 99}, "Expected vocabulary.sure ≤ 8"),
        ({"words": None, "sure": 2}, "Expected vocabulary.words, a public word list"),
    ],
)
def test_a_section_that_cannot_be(store: Path, vocabulary: dict[str, Any], sentence: str) -> None:
    tree = recipe(store, None).model_dump(mode="json", exclude_none=True)
    given = {"size": 12, "words": "list.txt"} | vocabulary
    with pytest.raises(RecipeError, match=sentence):
        parse_recipe(tree | {"vocabulary": {name: value for name, value in given.items() if value is not None}})


def counted_store(path: Path) -> Path:
    """A store whose words were counted on its people, words of one person among them."""
    wrote = chat()
    rows = [(place, user, text) for place, (user, text) in enumerate((u, t) for u in wrote for t in wrote[u])]
    words = count_vocabulary((text for _, _, text in rows), size=40, provenance=PRIVATE)
    source = TextSource("chat", "made up", "row", iter(rows))
    return import_text([source], path, vocabulary=words, held_out=SHARE, key=KEY).path


def test_the_words_of_a_run_are_as_public_as_they_were_before(tmp_path: Path, store: Path) -> None:
    for name, of, public in (("counted", counted_store(tmp_path / "counted-store"), False), ("listed", store, True)):
        start_run(recipe(of, None), tmp_path / name, Callback())
        folder = RunFolder.open(tmp_path / name)
        kept = load_vocabulary(folder.vocabulary_path)
        assert kept.is_public == public
        assert [*RESERVED, *kept.words] == folder.vocabulary()
    with pytest.raises(DataError, match="Expected a public word list"):
        discovery_of(section(tmp_path / "counted" / "vocabulary.txt"), population=60, delta=1e-4)
    start_run(tiny(run={"rounds": 1}), tmp_path / "world", Callback())
    assert load_vocabulary(tmp_path / "world" / "vocabulary.txt").provenance == "word list: the keyboard world"


def test_no_epsilon_is_promised_for_words_that_were_counted(tmp_path: Path) -> None:
    counted = recipe(counted_store(tmp_path / "store"), None)
    with pytest.raises(RecipeError, match="No noise reaches epsilon 4, because the vocabulary was counted"):
        train(recipe=counted, epsilon=4.0, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_new_discovery_with_a_pretrained_model_of_another_run_is_refused_before_anything_is_paid(store: Path) -> None:
    tree = recipe(store, section()).model_dump(mode="json", exclude_none=True)
    tree["pretrain"] = {"store": "public", "public": True, "steps": 3, "reuse": "runs/other"}
    with pytest.raises(RecipeError, match="a new discovery finds other words than the reused model has"):
        parse_recipe(tree)


def test_the_owner_reads_what_a_stolen_record_costs_together_with_the_words(store: Path, listed: Path) -> None:
    start_run(recipe(store, section(listed, epsilon=4.0)), store.parent / "run", Callback())
    cost = cost_of(RunFolder.open(store.parent / "run"))
    words = cost.ledger.opened.vocabulary
    assert words is not None
    text = cost.guarantee(observed=Observed(4)).as_markdown()
    rho = 4 / (2 * 2.0**2) + 1 / (2 * words.noise_multiplier**2)
    both = Cost.of_rho(rho, gaussian=True, threshold_delta=words.threshold_delta).epsilon(apart_from_tail(1e-4))[0]
    assert f"which makes epsilon {round_up(both)} at the same delta, the words included" in " ".join(text.split())
