"""A neural model read word by word says what it says when it reads a whole row."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from tacit.data.users import BOS
from tacit.learning.stepwise import Neural, select
from tacit.models.word_lm import build, preset


@pytest.mark.parametrize("name", ["tiny", "dp-fedavg"])
def test_reading_by_word_equals_reading_at_once(name: str) -> None:
    config = replace(preset(name), vocabulary=40, units=9)
    model = build(config, key=jax.random.key(3))
    stepwise = Neural(model)
    assert stepwise.vocabulary == 40
    rows = np.random.default_rng(0).integers(4, 40, (3, 6)).astype(np.int32)
    rows[:, 0] = BOS
    state = stepwise.begin(3)
    state = stepwise.read(state, np.array([9, 9, 9]))  # another sentence before: a bos forgets it
    for t in range(6):
        state = stepwise.read(state, rows[:, t])
    found = stepwise.log_probabilities(state)
    logits = np.asarray(jax.vmap(model)(rows))[:, -1]
    expected = logits - np.log(np.exp(logits.astype(np.float64)).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_allclose(stepwise.log_probabilities(select(state, np.array([2, 2])))[1], found[2], atol=1e-6)
