"""The keyboard world: repeatable, readable, and truly distributed as it says."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import numpy as np
import pytest

from tacit.data.users import EOS, FIRST_WORD, OOV, Examples
from tacit.data.worlds import KeyboardWorld
from tacit.data.worlds.definition import CORE, END, STYLE_SHARES, STYLES
from tacit.data.worlds.grammar import english
from tacit.data.worlds.next_word_distribution import NextWordDistribution
from tacit.errors import RecipeError

HELD_OUT = np.arange(400_000, 400_060)


@pytest.fixture(scope="module")
def world() -> KeyboardWorld:
    return KeyboardWorld(seed=11, users=500_000)


@pytest.fixture(scope="module")
def many(world: KeyboardWorld) -> list[tuple[int, ...]]:
    """The sentences of 6,000 users."""
    return _sentences(world.gather(np.arange(6_000)))


def _sentences(examples: Examples) -> list[tuple[int, ...]]:
    items, offsets = examples.items.tolist(), examples.example_offsets.tolist()
    return [tuple(items[start:stop]) for start, stop in itertools.pairwise(offsets)]


def test_a_user_does_not_depend_on_who_else_is_asked_for(world: KeyboardWorld) -> None:
    together, alone = world.gather(np.array([4, 499_999, 4])), world.gather(np.array([499_999]))
    first, second = together.user_offsets[1:3]
    start, stop = together.example_offsets[[first, second]]
    np.testing.assert_array_equal(together.items[start:stop], alone.items)
    np.testing.assert_array_equal(together.items[:start], together.items[stop:])
    np.testing.assert_array_equal(np.diff(together.example_offsets[first : second + 1]), np.diff(alone.example_offsets))


def test_examples_are_well_formed(world: KeyboardWorld) -> None:
    examples = world.gather(np.arange(200))
    assert examples.items.dtype == np.int32
    assert examples.labels is None
    assert examples.items.min() >= OOV
    assert examples.items.max() < 2000
    assert examples.example_offsets[-1] == len(examples.items)
    assert examples.user_offsets[-1] == len(examples.example_offsets) - 1
    assert (np.diff(examples.example_offsets) >= 1).all()
    assert (np.diff(examples.user_offsets) >= 1).all()


def test_nobody_writes_nothing(world: KeyboardWorld) -> None:
    nobody = world.gather(np.array([], dtype=np.int64))
    assert len(nobody.items) == 0
    np.testing.assert_array_equal(nobody.example_offsets, [0])
    np.testing.assert_array_equal(nobody.user_offsets, [0])


def test_the_seed_changes_the_users_but_not_the_vocabulary(world: KeyboardWorld) -> None:
    other = KeyboardWorld(seed=12, users=10)
    assert other.words == world.words
    assert other.sentences(3) != world.sentences(3)
    assert KeyboardWorld(seed=11, users=10).sentences(3) == world.sentences(3)


def test_sizes_follow_tokens_per_user() -> None:
    world = KeyboardWorld(seed=2, users=5_000, tokens_per_user=120.0)
    examples = world.gather(np.arange(3_000))
    tokens = np.diff(examples.example_offsets[examples.user_offsets])
    assert abs(tokens.mean() - 120.0) < 6.0
    assert tokens.std() > 50
    capped = KeyboardWorld(seed=2, users=5_000, most_sentences=5).gather(np.arange(100))
    assert np.diff(capped.user_offsets).max() == 5


def test_the_vocabulary_is_the_head_of_the_whole_list(world: KeyboardWorld) -> None:
    whole = KeyboardWorld(seed=11, users=10, vocabulary_size=None)
    assert whole.words[:FIRST_WORD] == ("<pad>", "<bos>", "<eos>", "<oov>")
    assert whole.words[:2000] == world.words
    assert len(set(whole.words)) == len(whole.words) > 4_000
    ids, full = world.gather(np.array([8])).items, whole.gather(np.array([8])).items
    np.testing.assert_array_equal(ids, np.where(full < 2000, full, OOV))
    assert OOV not in whole.gather(np.arange(500)).items


def test_sentences_read_as_gather_says(world: KeyboardWorld) -> None:
    whole = KeyboardWorld(seed=11, users=10, vocabulary_size=None)
    written = [" ".join(whole.words[word] for word in sentence) for sentence in _sentences(whole.gather(np.array([1])))]
    for mark in ".,!?":
        written = [sentence.replace(f" {mark}", mark) for sentence in written]
    assert world.sentences(1) == written
    assert not any(mark in sentence for sentence in written for mark in "{}[]|=*")


def test_bad_values_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"users ≥ 1.*got 0"):
        KeyboardWorld(1, 0)
    with pytest.raises(RecipeError, match=r"vocabulary_size from 5 to .*got 4"):
        KeyboardWorld(1, 1, vocabulary_size=4)
    with pytest.raises(RecipeError, match=r"tokens_per_user > 0.*got -1"):
        KeyboardWorld(1, 1, tokens_per_user=-1)


def test_no_sentence_draws_twice_from_the_same_favourites() -> None:
    """What makes favourites average out exactly, and with them the best prediction computable."""
    grammar = english()
    used: dict[int, set[int]] = defaultdict(set)
    for line, stage in enumerate(grammar.line_stage):
        items = grammar.line_items[grammar.line_at[line] : grammar.line_at[line + 1]]
        slots = -1 - items[items < 0]
        personal = grammar.slot_base[slots[grammar.slot_personal[slots] > 0]].tolist()
        assert len(set(personal)) == len(personal)
        used[int(stage)].update(personal)
    around = [used[stage] for stage in range(END) if stage != CORE]
    assert all(not (used[CORE] & each) for each in around)
    assert not (used[0] & set().union(*around[1:]))


def test_users_have_favourites_and_topics_of_their_own() -> None:
    """Two halves of one user's words agree more than halves of two different users'."""
    talkative = KeyboardWorld(11, 100, tokens_per_user=2_000.0)
    counts = []
    for user in range(60):
        examples = talkative.gather(np.array([user]))
        halves = np.array_split(examples.items, 2)
        counts.append([np.sqrt(np.bincount(half, minlength=2000) / len(half)) for half in halves])
    table = np.array(counts)
    agreement = table[:, 0] @ table[:, 1].T
    own, others = np.diag(agreement), agreement[~np.eye(60, dtype=bool)]
    assert own.mean() > others.mean() + 0.1


def test_words_are_as_frequent_as_the_grammar_says(world: KeyboardWorld, many: list[tuple[int, ...]]) -> None:
    grammar = english()
    counted = np.bincount(np.concatenate(many), minlength=2000) / len(many)
    expected = grammar.word_shares[:300]
    deviation = (counted[FIRST_WORD : FIRST_WORD + 300] - expected) / np.sqrt(expected)
    # Favourites make a user's words clump, so deviations may exceed those of independent draws, but stay small.
    assert np.abs(deviation).max() < 0.03
    np.testing.assert_allclose(counted[OOV], grammar.word_shares[2000 - FIRST_WORD :].sum(), rtol=0.05)


@pytest.mark.parametrize("prefix", ["", "the", "see you", "i think", "im", "haha", "can you", "<oov>", "hi sam ,"])
def test_next_words_are_distributed_as_foreseen(world: KeyboardWorld, many: list[tuple[int, ...]], prefix: str) -> None:
    ids = tuple(world.words.index(word) for word in prefix.split())
    followers = Counter((*sentence, EOS)[len(ids)] for sentence in many if sentence[: len(ids)] == ids)
    counted = np.bincount(list(followers.elements()), minlength=2000)
    expected = world.next_word_distribution().distributions(np.array(ids, dtype=np.int64))[-1] * counted.sum()
    assert counted.sum() > 200
    assert counted[expected == 0].sum() == 0
    enough = expected >= 5
    observed = np.append(counted[enough], counted[~enough].sum())
    stated = np.append(expected[enough], max(expected[~enough].sum(), 1e-9))
    if stated[-1] < 5:
        observed, stated = observed[:-1], stated[:-1]
    degrees = len(stated)
    # Five standard deviations of a chi-square, widened a little because one user's sentences are not independent.
    assert ((observed - stated) ** 2 / stated).sum() < 1.15 * degrees + 5 * np.sqrt(2 * degrees)


def test_distributions_sum_to_one_and_never_exclude_what_was_written() -> None:
    world = KeyboardWorld(seed=3, users=1_000, vocabulary_size=1_000)
    oracle = world.next_word_distribution()
    for sentence in _sentences(world.gather(np.arange(3)))[:60]:
        rows = oracle.distributions(np.array(sentence))
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-9)
        assert rows.min() >= 0
        assert (rows[np.arange(len(rows)), [*sentence, EOS]] > 0).all()


def _hits(oracle: NextWordDistribution, sentences: list[tuple[int, ...]]) -> np.ndarray:
    """[3, words]: was the word written the oracle's first guess, was it among its first three, its surprise in bits."""
    results = []
    for sentence in sentences:
        rows = oracle.distributions(np.array(sentence))[:-1]
        guesses = rows.copy()
        guesses[:, [EOS, OOV]] = -1
        best = np.argsort(-guesses, axis=1)[:, :3]
        target = np.array(sentence)
        surprise = -np.log2(rows[np.arange(len(target)), target])
        results.append(np.stack([best[:, 0] == target, (best == target[:, None]).any(axis=1), surprise]))
    return np.concatenate(results, axis=1)


@pytest.mark.slow
def test_the_stated_optimum_is_what_the_oracle_really_scores(world: KeyboardWorld) -> None:
    stated = world.best_possible(HELD_OUT, most_sentences=400)
    scored = _hits(world.next_word_distribution(), _sentences(world.gather(HELD_OUT))[:400])
    assert stated["words"] == scored.shape[1]
    error = scored.std(axis=1) / np.sqrt(scored.shape[1])
    difference = scored.mean(axis=1) - [stated["top1"], stated["top3"], stated["entropy_bits"]]
    assert (np.abs(difference) < 4 * error).all()


@pytest.mark.slow
def test_knowing_the_user_helps_as_much_as_stated(world: KeyboardWorld) -> None:
    some = HELD_OUT[:8]
    stranger, friend = world.best_possible(some), world.best_possible(some, knowing_user=True)
    assert friend["words"] == stranger["words"]
    assert friend["top1"] > stranger["top1"] + 0.01
    assert friend["entropy_bits"] < stranger["entropy_bits"] - 0.1
    scored = np.concatenate(
        [
            _hits(world.next_word_distribution(user), _sentences(world.gather(np.array([user]))))
            for user in some.tolist()
        ],
        axis=1,
    )
    error = scored.std(axis=1) / np.sqrt(scored.shape[1])
    difference = scored.mean(axis=1) - [friend["top1"], friend["top3"], friend["entropy_bits"]]
    assert (np.abs(difference) < 4 * error).all()


def test_sentence_ends_count_when_asked_for(world: KeyboardWorld) -> None:
    some = HELD_OUT[:6]
    words, with_end = world.best_possible(some), world.best_possible(some, count_end=True)
    assert with_end["words"] == words["words"] + world.gather(some).user_offsets[-1]
    assert with_end["top1"] != words["top1"]


@pytest.mark.slow
def test_counting_words_is_clearly_better_than_one_guess_and_worse_than_the_optimum(
    world: KeyboardWorld, many: list[tuple[int, ...]]
) -> None:
    """The task can be learned: a table of word pairs doubles the unigram guess, and nothing beats the optimum."""
    after: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for sentence in many[:40_000]:
        for place, word in enumerate(sentence):
            if word != OOV:
                for length in (0, 1, 2):
                    after[(length, *sentence[max(0, place - length) : place])][word] += 1
    guess = {context: counts.most_common(1)[0][0] for context, counts in after.items()}
    hits = np.zeros(3)
    words = 0
    for sentence in _sentences(world.gather(HELD_OUT)):
        for place, word in enumerate(sentence):
            contexts = [(length, *sentence[max(0, place - length) : place]) for length in (0, 1, 2)]
            hits += [guess.get(context, guess[(0,)]) == word for context in contexts]
            words += 1
    unigram, bigram, trigram = hits / words
    stated = world.best_possible(HELD_OUT, most_sentences=600)
    assert abs(unigram - stated["unigram_top1"]) < 0.01
    assert bigram > 2 * unigram
    assert bigram < trigram < stated["top1"]
    assert 0.015 < stated["oov"] < 0.06


def test_a_users_style_is_the_one_they_write_in(world: KeyboardWorld) -> None:
    users = np.arange(3_000)
    styles = world.styles(users)
    np.testing.assert_allclose(np.bincount(styles) / len(users), STYLE_SHARES, atol=0.03)
    np.testing.assert_array_equal(world.styles(users[::-1]), styles[::-1])
    short = world.words.index("u")
    texters, tidy = (world.gather(users[styles == STYLES.index(style)]).items for style in ("texter", "tidy"))
    assert (texters == short).mean() > 0.01
    assert (tidy == short).sum() == 0


def test_what_nobody_could_write_has_no_distribution(world: KeyboardWorld) -> None:
    rows = world.next_word_distribution().distributions(np.array([world.words.index("."), world.words.index("the")]))
    np.testing.assert_allclose(rows.sum(axis=1), [1.0, 0.0, 0.0], atol=1e-9)
