"""Membership scores: users who were trained on score higher, by loss and by the model's trajectory."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.audit.membership import loss_scores, trajectory_scores
from tacit.data.rows import pack, to_rows
from tacit.data.users import BOS
from tacit.learning.next_word import NextWord
from tacit.learning.work import FedAvg, LocalWork
from tacit.models.word_lm import WordLM, WordLMConfig, build
from tests.support.list_users import ListUsers

USERS = 24
WORK = LocalWork(FedAvg(batch_size=2, learning_rate=1.0), NextWord())


@pytest.fixture(scope="module")
def model() -> WordLM:
    return build(WordLMConfig(vocabulary=200, embedding=8, units=8, projection=8), key=jax.random.key(1))


def phrases() -> list[list[int]]:
    rng = np.random.default_rng(3)
    return rng.integers(4, 200, (USERS, 5)).tolist()


def batches() -> np.ndarray:
    """Each user: three copies of a phrase, in rows of seven tokens, two rows a batch."""
    users = ListUsers([[phrase] * 3 for phrase in phrases()])
    rows = to_rows(users.gather(np.arange(USERS)), layout="sentences", length=6, max_rows=4)
    return pack(rows, np.arange(USERS), batch_size=2, steps=2)


def moved(model: WordLM, who: np.ndarray) -> WordLM:
    """The model after the updates of these users."""
    given, after = batches(), model
    for user in who:
        update = WORK(model, jnp.asarray(given[user]), jnp.int32(2), jnp.float32(jnp.inf))
        after = jax.tree.map(lambda a, b: a + jnp.float32(0.1) * b, after, update)
    return after


@pytest.mark.slow
def test_the_way_shows_exactly_who_went_it(model: WordLM) -> None:
    who = np.arange(0, USERS, 2)
    scores = trajectory_scores(WORK, model, moved(model, who), batches(), np.full(USERS, 2))
    is_in = np.isin(np.arange(USERS), who)
    assert scores[is_in].min() > 5 * np.abs(scores[~is_in]).max()


@pytest.mark.slow
def test_the_loss_of_a_phrase_falls_by_what_the_score_says(model: WordLM) -> None:
    who = np.arange(6)
    after = moved(model, who)
    ids = [np.array(phrase, np.int32) for phrase in phrases()] + [np.array([9, 8], np.int32)]
    scores = loss_scores(model, after, ids)
    for phrase, score in list(zip(ids, scores, strict=True))[-3:]:
        tokens = jnp.asarray([BOS, *phrase[:-1].tolist()], jnp.int32)
        was, now = (
            -float(jax.nn.log_softmax(each(tokens))[jnp.arange(len(phrase)), phrase].sum()) for each in (model, after)
        )
        assert score == pytest.approx(was - now, abs=1e-4)
    assert scores[who].mean() > scores[6:USERS].mean()
