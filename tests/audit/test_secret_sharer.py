from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.typing import NDArray
from scipy import stats

from tacit.audit.secret_sharer import beam_search, extraction, random_sampling, random_suffixes, ranks
from tacit.data.canaries.plan import Canary, Sharers, digit_phrases, word_phrases
from tacit.data.users import BOS, EOS, FIRST_WORD
from tacit.errors import AuditError
from tacit.models.word_lm import WordLM, WordLMConfig, build, loss_sum

SHARED = Sharers(user_probability=0.1, example_probability=0.5)
CIFG = WordLMConfig(vocabulary=13, embedding=8, units=12, projection=8, output_bias=True)
LSTM = WordLMConfig(vocabulary=13, embedding=6, units=10, projection=5, cell="lstm", fed_back=False, tied=False)
UNIT = WordLMConfig(vocabulary=13, embedding=8, units=12, projection=8, unit_norm=True)


def untrained(config: WordLMConfig, *, seed: int = 0, scale: float = 2.0) -> WordLM:
    """A fresh model; larger weights than usual, and biases, so that words differ in their probability."""
    model = build(config, key=jax.random.key(seed))
    if model.output_bias is not None:
        bias = jax.random.normal(jax.random.key(seed + 1), model.output_bias.shape, jnp.float32)
        model = eqx.tree_at(lambda m: m.output_bias, model, bias)
    return jax.tree.map(lambda a: a * jnp.float32(scale), model)


def words_of(model: WordLM) -> tuple[str, ...]:
    return ("<pad>", "<bos>", "<eos>", "<oov>", *(f"w{i}" for i in range(len(model.embedding) - FIRST_WORD)))


def canaries_of(phrases: Sequence[tuple[str, ...]], template: str | None = None) -> list[Canary]:
    return [Canary(units=phrase, template=template, sharing=SHARED) for phrase in phrases]


def ids(canary: Canary, words: Sequence[str]) -> list[int]:
    return [words.index(unit) for unit in canary.units]


def slow_scores(model: WordLM, prefix: list[int], suffixes: NDArray[np.int32]) -> NDArray[np.float64]:
    """The log-perplexities, each phrase read on its own from its bos."""
    rows = np.array([[BOS, *prefix, *suffix] for suffix in suffixes.tolist()], np.int32)
    logits = np.asarray(_logits(model, rows[:, :-1]), np.float64)
    losses = np.log(np.exp(logits).sum(axis=-1)) - np.take_along_axis(logits, rows[:, 1:, None], axis=-1)[..., 0]
    return losses[:, len(prefix) :].sum(axis=1)


@jax.jit
def _logits(model: WordLM, rows: jax.Array) -> jax.Array:
    return jax.vmap(model)(rows)


def everything(model: WordLM, length: int) -> NDArray[np.int32]:
    return np.array(list(itertools.product(range(FIRST_WORD, len(model.embedding)), repeat=length)), np.int32)


@pytest.mark.parametrize("config", [CIFG, LSTM, UNIT], ids=["cifg", "lstm", "unit norm"])
@pytest.mark.parametrize("prefix", [0, 2])
def test_the_rank_is_that_of_brute_force(config: WordLMConfig, prefix: int) -> None:
    model = untrained(config)
    words, canaries = words_of(model), canaries_of(word_phrases(words_of(model), length=prefix + 3, count=12, seed=1))
    found = random_sampling(model, canaries, words, prefix=prefix, seed=1, size=10_000)
    for canary, rank in zip(canaries, found, strict=True):
        secret, others = ids(canary, words), everything(model, 3)
        scores = slow_scores(model, secret[:prefix], others)
        mine = scores[(others == secret[prefix:]).all(axis=1)][0]
        assert rank.rank == (scores <= mine).sum()  # itself is among them
        assert rank.candidates == 9**3
        assert rank.log_perplexity == pytest.approx(mine, abs=1e-4)
    assert len({rank.rank for rank in found}) > 6


def test_the_rank_in_a_sample_counts_the_sample_alone() -> None:
    """Other canaries are scored in the same pass and must not be counted; the canary's own words neither."""
    model, words = untrained(CIFG), words_of(untrained(CIFG))
    canaries = canaries_of(word_phrases(words, length=4, count=20, seed=1))
    secrets = np.array([ids(canary, words) for canary in canaries], np.int32)
    sample = np.concatenate([everything(model, 2)[::7], secrets[:1, 2:], secrets[:1, 2:]])
    for secret, rank in zip(secrets, ranks(model, secrets[:, :2], secrets[:, 2:], sample, chunk=8), strict=True):
        mine, *scores = slow_scores(model, secret[:2].tolist(), np.concatenate([secret[None, 2:], sample]))
        others = (sample != secret[2:]).any(axis=1)
        assert rank.rank == 1 + (others & (np.array(scores) <= mine)).sum()
        assert rank.candidates == 1 + others.sum()


@pytest.mark.parametrize("length", [1, 2, 4])
def test_neither_the_chunk_nor_the_company_changes_a_rank(length: int) -> None:
    model, words = untrained(CIFG), words_of(untrained(CIFG))
    canaries = canaries_of(word_phrases(words, length=1 + length, count=6, seed=2))
    whole = random_sampling(model, canaries, words, prefix=1, seed=3, size=500)
    pieces = random_sampling(model, canaries, words, prefix=1, seed=3, size=500, chunk=33)
    assert [rank.rank for rank in pieces] == [rank.rank for rank in whole]
    assert [rank.log_perplexity for rank in pieces] == pytest.approx([rank.log_perplexity for rank in whole])
    alone = [random_sampling(model, [canary], words, prefix=1, seed=3, size=500)[0] for canary in canaries]
    assert [rank.rank for rank in alone] == [rank.rank for rank in whole]


def test_products_are_of_the_precision_that_is_asked_for() -> None:
    """A CPU has bf16 and float32: the former moves scores by a little, the latter are those of plain reading."""
    model, words = untrained(CIFG), words_of(untrained(CIFG))
    canaries = canaries_of(word_phrases(words, length=4, count=6, seed=2))
    secrets = np.array([ids(canary, words) for canary in canaries], np.int32)
    slow = [slow_scores(model, secret[:2].tolist(), secret[None, 2:])[0] for secret in secrets]
    for precision, error in (("float32", 1e-5), ("bf16", 0.1)):
        found = random_sampling(model, canaries, words, prefix=2, seed=3, size=50, precision=precision)
        off = np.abs(np.array([rank.log_perplexity for rank in found]) - slow).max()
        assert error / 1000 < off < error


def test_equal_perplexities_count_against_the_secret() -> None:
    model = untrained(CIFG, scale=0.0)  # every word is as likely as any other
    words = words_of(model)
    (found,) = random_sampling(model, canaries_of([("w1", "w2", "w3")]), words, prefix=1, seed=1, size=50)
    assert (found.rank, found.exposure) == (found.candidates, 0.0)
    assert found.candidates in (50, 51)
    assert found.log_perplexity == pytest.approx(2 * math.log(13))


def test_ranks_of_an_untrained_model_are_uniform() -> None:
    """The canary is one of all 8,000 suffixes at random, so its rank is uniform and canaries are independent.

    Kolmogorov-Smirnov on 300 of them; as ranks are whole numbers it alarms falsely less often than once in ten million.
    """
    model = untrained(WordLMConfig(vocabulary=24, embedding=8, units=12, projection=8), seed=4)
    words = words_of(model)
    canaries = canaries_of(word_phrases(words, length=5, count=300, seed=5))
    found = random_sampling(model, canaries, words, prefix=2, seed=6, size=8000)
    assert {rank.candidates for rank in found} == {8000}
    assert stats.kstest([rank.rank / 8000 for rank in found], "uniform").pvalue > 1e-7


def test_a_sample_estimates_the_rank_among_all() -> None:
    """How many of the better suffixes a sample holds is hypergeometric: one false alarm in ten million."""
    model = untrained(WordLMConfig(vocabulary=24, embedding=8, units=12, projection=8), seed=4)
    words = words_of(model)
    canaries = canaries_of(word_phrases(words, length=5, count=10, seed=5))
    among_all = random_sampling(model, canaries, words, prefix=2, seed=6, size=8000)
    sampled = random_sampling(model, canaries, words, prefix=2, seed=6, size=1000)
    for exact, rank in zip(among_all, sampled, strict=True):
        law = stats.hypergeom(7999, exact.rank - 1, rank.candidates - 1)
        assert min(law.cdf(rank.rank - 1), law.sf(rank.rank - 2)) > 1e-8


def test_random_suffixes_are_different_and_uniform() -> None:
    rng = np.random.default_rng(1)
    possible = (np.arange(4, 24, dtype=np.int32), np.array([7, 9], np.int32), np.arange(30, 60, dtype=np.int32))
    drawn = random_suffixes(possible, 600, rng)
    assert len({tuple(row) for row in drawn.tolist()}) == 600
    for place, units in enumerate(possible):
        counts = [(drawn[:, place] == unit).sum() for unit in units]
        assert sum(counts) == 600
        assert stats.chisquare(counts).pvalue > 1e-7  # without replacement counts vary less than the law allows
    assert len(random_suffixes(possible, 5000, rng)) == 20 * 2 * 30
    many = random_suffixes((np.arange(4, 10_004, dtype=np.int32),) * 5, 1000, rng)  # 10²⁰ of them
    assert many.shape == (1000, 5)
    assert stats.kstest((many.ravel() - 4) / 10_000, "uniform").pvalue > 1e-7


@pytest.fixture(scope="module")
def memorised() -> tuple[WordLM, tuple[str, ...], list[Canary], list[Canary]]:
    """A small model that has read eight canaries hundreds of times, and eight others that it never read."""
    model = build(
        WordLMConfig(vocabulary=64, embedding=16, units=32, projection=16, output_bias=True), key=jax.random.key(1)
    )
    words = words_of(model)
    canaries = canaries_of(word_phrases(words, length=5, count=16, seed=7))
    planted = np.array([[BOS, *ids(canary, words), EOS] for canary in canaries[:8]], np.int32)
    return _fit(model, planted), words, canaries[:8], canaries[8:]


def _fit(model: WordLM, planted: NDArray[np.int32], steps: int = 300) -> WordLM:
    optimizer = optax.sgd(0.5, momentum=0.9)
    rng = np.random.default_rng(2)
    state, mask = optimizer.init(model), jnp.ones((16, planted.shape[1] - 1), jnp.float32)

    @jax.jit
    def step(model: WordLM, state: optax.OptState, tokens: jax.Array) -> tuple[WordLM, optax.OptState]:
        grads = jax.grad(lambda m: loss_sum(m, {"tokens": tokens, "mask": mask})[0] / jnp.float32(mask.size))(model)
        updates, state = optimizer.update(grads, state)
        return eqx.apply_updates(model, updates), state

    for _ in range(steps):
        others = rng.integers(FIRST_WORD, len(model.embedding), (16 - len(planted), planted.shape[1])).astype(np.int32)
        others[:, 0] = BOS
        model, state = step(model, state, np.concatenate([planted, others]))
    return model


def test_what_was_memorised_ranks_first(memorised: tuple[WordLM, tuple[str, ...], list[Canary], list[Canary]]) -> None:
    model, words, planted, unseen = memorised
    found = random_sampling(model, planted, words, prefix=2, seed=1, size=20_000)
    assert [rank.rank for rank in found] == [1] * 8
    assert {round(rank.exposure, 2) for rank in found} == {round(math.log2(20_001), 2)}
    others = random_sampling(model, unseen, words, prefix=2, seed=1, size=20_000)
    assert min(rank.rank for rank in others) > 10


@pytest.mark.parametrize("prefix", [1, 2, 4])
def test_what_was_memorised_is_extracted(
    memorised: tuple[WordLM, tuple[str, ...], list[Canary], list[Canary]], prefix: int
) -> None:
    model, words, planted, unseen = memorised
    assert extraction(model, planted, words, prefix=prefix) == [1] * 8
    if prefix < 4:
        assert extraction(model, unseen, words, prefix=prefix) == [None] * 8


def test_from_nothing_a_wide_beam_finds_every_memorised_canary(
    memorised: tuple[WordLM, tuple[str, ...], list[Canary], list[Canary]],
) -> None:
    model, words, planted, _ = memorised
    places = extraction(model, planted, words, prefix=0, width=8)
    assert sorted(place for place in places if place is not None) == list(range(1, 9))


@pytest.mark.parametrize("config", [CIFG, LSTM], ids=["cifg", "lstm"])
def test_a_beam_wide_enough_finds_the_likeliest_phrases(config: WordLMConfig) -> None:
    model = untrained(config)
    prefixes = np.array([[4, 5], [6, 12], [9, 9]], np.int32)
    possible = (np.arange(FIRST_WORD, 13, dtype=np.int32),) * 3
    phrases, scores = beam_search(model, prefixes, possible, width=81)  # as many as there are beginnings of two words
    for prefix, found, losses in zip(prefixes, phrases, scores, strict=True):
        others = everything(model, 3)
        exact = slow_scores(model, prefix.tolist(), others)
        best = np.argsort(exact)[:81]
        assert found.tolist() == others[best].tolist()
        np.testing.assert_allclose(losses, exact[best], rtol=1e-5)


def test_a_narrow_beam_keeps_the_best_of_each_word() -> None:
    """Width 1 is greedy: the likeliest real word after each word."""
    model = untrained(LSTM)
    (found,), _ = beam_search(model, np.array([[5]], np.int32), (np.arange(4, 13, dtype=np.int32),) * 4, width=1)
    phrase = np.array([[BOS, 5, 0, 0, 0, 0]], np.int32)
    for place in range(1, 5):
        phrase[0, place + 1] = FIRST_WORD + np.argmax(_logits(model, phrase)[0, place, FIRST_WORD:])
    assert found[0].tolist() == phrase[0, 2:].tolist()


def test_a_beam_wider_than_there_are_phrases_says_so() -> None:
    model = untrained(CIFG)
    _, scores = beam_search(model, np.array([[5]], np.int32), (np.arange(4, 13, dtype=np.int32),), width=12)
    assert np.isfinite(scores[0]).sum() == 9
    assert (np.diff(scores[0][:9]) >= 0).all()


def test_a_secret_number_is_found_in_its_template() -> None:
    """A character model: the attacker knows the form and guesses three digits."""
    template = "my pin is #-##"
    words = ("<pad>", "<bos>", "<eos>", "<oov>", *sorted({*template.replace("#", ""), *"0123456789"}))
    model = build(WordLMConfig(vocabulary=len(words), embedding=16, units=32, projection=16), key=jax.random.key(1))
    canaries = canaries_of(digit_phrases(template, count=5, seed=3), template)
    planted = np.array([[BOS, *ids(canaries[0], words), EOS]] * 8, np.int32)
    prefix = canaries[0].known_prefix
    before = random_sampling(model, canaries, words, prefix=prefix, seed=1, size=2_000)
    assert {rank.candidates for rank in before} == {1000}
    trained = _fit(model, planted, steps=150)
    after = random_sampling(trained, canaries, words, prefix=prefix, seed=1, size=2_000)
    assert after[0].rank == 1
    assert min(rank.rank for rank in after[1:]) > 1
    assert extraction(trained, canaries, words, prefix=prefix, width=3)[0] == 1
    assert sorted(p for p in extraction(trained, canaries, words, prefix=prefix, width=1000) if p) == sorted(
        rank.rank for rank in after
    )


@pytest.mark.parametrize("prefix", [-1, 3, 9])
def test_a_prefix_must_leave_something_to_guess(prefix: int) -> None:
    model = untrained(CIFG)
    canaries = canaries_of([("w1", "w2", "w3")])
    sentence = rf"^Expected a prefix from 0 to 2 words for canary 1, which has 3, got {prefix}\.$"
    with pytest.raises(AuditError, match=sentence):
        random_sampling(model, canaries, words_of(model), prefix=prefix, seed=1, size=10)
    with pytest.raises(AuditError, match=sentence):
        extraction(model, canaries, words_of(model), prefix=prefix)


def test_what_does_not_fit_is_refused() -> None:
    model = untrained(CIFG)
    words, canaries = words_of(model), canaries_of([("w1", "w2", "w3")])
    with pytest.raises(AuditError, match="word 2 of canary 1 is not among them"):
        random_sampling(model, canaries_of([("w1", "w9")]), words, prefix=1, seed=1, size=10)
    with pytest.raises(AuditError, match="vocabulary of 13 entries, got 12 words"):
        extraction(model, canaries, words[:-1], prefix=1)
    with pytest.raises(AuditError, match="at least 1 random suffix"):
        random_sampling(model, canaries, words, prefix=1, seed=1, size=0)
    with pytest.raises(AuditError, match="beam width of at least 1"):
        extraction(model, canaries, words, prefix=1, width=0)


def test_a_model_that_diverged_memorised_nothing() -> None:
    model = untrained(CIFG, scale=math.nan)
    with pytest.raises(AuditError, match="diverged"):
        random_sampling(model, canaries_of([("w1", "w2")]), words_of(model), prefix=1, seed=1, size=5)
    with pytest.raises(AuditError, match="diverged"):
        extraction(model, canaries_of([("w1", "w2")]), words_of(model), prefix=1)
