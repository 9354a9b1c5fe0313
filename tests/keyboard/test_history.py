"""A user's history: the stated mixture, which is a distribution, and no effect for a new user."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.keyboard.history import WithHistory
from tacit.keyboard.ngram import Katz, train_katz

BOS, EOS, V = 1, 2, 9


@pytest.fixture(scope="module")
def base() -> Katz:
    words = np.array([4, 5, 6, 4, 5, 7, 8, 3])
    return train_katz(
        words,
        np.array([0, 3, 8]),
        order=2,
        vocabulary=V,
        bos=BOS,
        eos=EOS,
        never=(0, BOS),
        provenance="a test",
        is_public=True,
    )


def read(model: WithHistory, rows: list[list[int]]) -> tuple[np.ndarray, ...]:
    state = model.begin(len(rows))
    for tokens in np.array(rows).T:
        state = model.read(state, tokens)
    return state


def test_the_mixture_is_the_formula(base: Katz) -> None:
    model = WithHistory(base, BOS, weight=0.4, bigram_share=0.25, half_way=3.0)
    typed = [BOS, 4, 5, 4, 6, BOS, 4]  # words 4 5 4 6 4; 4 was followed by 5 and by 6
    found = np.exp(model.log_probabilities(read(model, [typed]))[0].astype(np.float64))
    own = np.zeros(V)
    own[[4, 5, 6]] = 0.75 * np.array([3, 1, 1]) / 5
    own[[5, 6]] += 0.25 / 2
    weight = 0.4 * 5 / (5 + 3)
    state = base.read(base.begin(1), np.array([4]))
    expected = (1 - weight) * np.exp(base.log_probabilities(state)[0]) + weight * own
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found.sum() == pytest.approx(1, abs=1e-6)


def test_without_history_it_is_the_base_and_old_tokens_are_forgotten(base: Katz) -> None:
    model = WithHistory(base, BOS, memory=3)
    alone = base.log_probabilities(base.read(base.begin(1), np.array([BOS])))
    np.testing.assert_array_equal(model.log_probabilities(read(model, [[BOS]])), alone)
    remembered, forgotten = read(model, [[8, BOS, 4, 5]]), read(model, [[6, BOS, 4, 5]])
    np.testing.assert_array_equal(model.log_probabilities(remembered), model.log_probabilities(forgotten))
    longer = WithHistory(base, BOS, memory=4)
    assert longer.log_probabilities(read(longer, [[8, BOS, 4, 5]]))[0, 8] > model.log_probabilities(remembered)[0, 8]
