"""Numbers in a known form are ranked by a character model."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from tacit.audit.char_secret_sharer import filling_ranks
from tacit.data.canaries.plan import Canary, Sharers, digit_phrases
from tacit.errors import AuditError
from tacit.models.char_lm import CharLM, CharLMConfig, NextSymbol, build, encode_words, log_likelihoods

SMALL = CharLMConfig(layers=2, embedding=12, units=24, projection=12)
SHARED = Sharers(user_probability=0.1, example_probability=0.5)


def canaries_of(template: str, count: int, seed: int = 1) -> list[Canary]:
    phrases = digit_phrases(template, count=count, seed=seed)
    return [Canary(units=phrase, template=template, sharing=SHARED) for phrase in phrases]


def untrained(seed: int = 0) -> CharLM:
    """With larger weights than usual, so that fillings differ in their probability."""
    return jax.tree.map(lambda a: a * jnp.float32(3), build(SMALL, key=jax.random.key(seed)))


def trained_on(texts: list[str]) -> CharLM:
    """Train until hardly any other text is likely. Adam, because plain steps that are long enough are nearly unstable."""
    optimizer, rows = optax.adam(0.02), jnp.asarray(encode_words(texts, 32))

    def mean_loss(model: CharLM) -> jax.Array:
        total, count = NextSymbol().loss_sum(model, rows)
        return total / count

    def step(_: int, state: tuple[CharLM, optax.OptState]) -> tuple[CharLM, optax.OptState]:
        model, moments = state
        with jax.numpy_dtype_promotion("standard"):
            updates, moments = optimizer.update(jax.grad(mean_loss)(model), moments, model)
        return optax.apply_updates(model, updates), moments

    model = build(SMALL, key=jax.random.key(1))
    return jax.jit(lambda model: jax.lax.fori_loop(0, 200, step, (model, optimizer.init(model)))[0])(model)


@pytest.mark.slow
def test_a_memorised_number_has_rank_one() -> None:
    typed, *others = canaries_of("my number is ###-##-####", 12)
    model = trained_on([typed.text])
    found = filling_ranks(model, [typed, *others], seed=2, size=5000)
    assert found[0].rank == 1
    assert found[0].exposure == pytest.approx(np.log2(5001), abs=1e-3)
    assert found[0].log_perplexity < 1
    assert min(rank.rank for rank in found[1:]) > 10


def test_ranks_of_an_untrained_model_are_uniform() -> None:
    """A canary is one of all 1,000 fillings at random; Kolmogorov-Smirnov alarms falsely once in ten million."""
    canaries = canaries_of("pin ###", 300, seed=5)
    found = filling_ranks(untrained(), canaries, seed=6, size=1000)
    assert {rank.candidates for rank in found} == {1000}
    assert stats.kstest([rank.rank / 1000 for rank in found], "uniform").pvalue > 1e-7


@pytest.mark.parametrize(
    "template",
    [
        pytest.param("née le ##.#", marks=pytest.mark.slow, id="after bytes that are no letters"),
        pytest.param("##", id="nothing known"),
    ],
)
def test_the_rank_is_that_of_brute_force(template: str) -> None:
    model, canaries = untrained(1), canaries_of(template, 8)
    blanks = template.count("#")
    texts = [template.replace("#", "{}").format(*f"{number:0{blanks}d}") for number in range(10**blanks)]
    known = template[: template.index("#")]
    # Of rows without their end: what the model makes of a word's last byte, not of its being the last.
    rows, beginning = encode_words(texts, 16), encode_words([known], 16)
    rows[rows == 2], beginning[beginning == 2] = 0, 0
    scores = np.asarray(log_likelihoods(model, beginning) - log_likelihoods(model, rows))
    for canary, rank in zip(canaries, filling_ranks(model, canaries, seed=1), strict=True):
        mine = scores[texts.index(canary.text)]
        assert rank.rank == (scores <= mine).sum()  # itself is among them
        assert rank.candidates == len(texts)
        assert rank.log_perplexity == pytest.approx(mine, abs=1e-3)


def test_templates_are_ranked_apart_and_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = untrained(2)
    pins, codes = canaries_of("pin ###", 3), canaries_of("code #-##", 3)
    mixed = [canary for pair in zip(pins, codes, strict=True) for canary in pair]
    apart = filling_ranks(model, pins, seed=1), filling_ranks(model, codes, seed=1)
    monkeypatch.setattr("tacit.audit.char_secret_sharer._CHUNK", 77)
    found = filling_ranks(model, mixed, seed=1)
    assert [rank.rank for rank in found[::2]] == [rank.rank for rank in apart[0]]
    assert [rank.rank for rank in found[1::2]] == [rank.rank for rank in apart[1]]


def test_mistakes_are_told_without_the_secret() -> None:
    pin, *_ = canaries_of("pin ###", 1)
    words = Canary(units=("sea", "of", "tin"), sharing=SHARED)
    with pytest.raises(AuditError, match="canary 2 consists of words") as caught:
        filling_ranks(untrained(), [pin, words], seed=1)
    assert "tin" not in str(caught.value)
    with pytest.raises(AuditError, match="at least 1 random filling"):
        filling_ranks(untrained(), [pin], seed=1, size=0)
    broken = eqx.tree_at(lambda model: model.output_bias, untrained(), jnp.full((258,), jnp.nan, jnp.float32))
    with pytest.raises(AuditError, match="diverged"):
        filling_ranks(broken, [pin], seed=1)
