"""Later runs with equal work of Tacit's own share what was compiled; work of anybody else's is compiled for each run."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from tacit.learning.batches import TextBatches
from tacit.learning.next_word import NextWord
from tacit.learning.work import FedAvg, LocalWork
from tacit.models.word_lm import WordLM, WordLMConfig, build
from tacit.privacy.gate.sums import ClipThresholds
from tacit.privacy.plan import PrivacyPlan
from tacit.simulation.batched import BatchedUsers
from tacit.simulation.cohorts import SimulatedCohort
from tacit.simulation.placement import Spread, suitable_spread
from tests.support.list_users import ListUsers

PLAN = PrivacyPlan(mechanism="none", population=10, cohort=2, clip_norm=0.5)
SLOPE = {"of the loss": 1.0}


def loss(model: Any, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
    total, count = NextWord().loss_sum(model, tokens)
    return total * SLOPE["of the loss"], count


class OwnModel(WordLM):
    """A model that is not Tacit's own."""


@pytest.fixture(scope="module")
def model() -> WordLM:
    return build(
        WordLMConfig(vocabulary=7, embedding=2, units=2, projection=2, output_bias=True), key=jax.random.key(1)
    )


def engine(work: LocalWork, lanes: int = 1) -> BatchedUsers:
    spread = Spread(suitable_spread(1, 1).devices[:1], chunk=2, lanes=lanes)
    return BatchedUsers(ListUsers([[[4, 5]], [[5, 6]]]), work, PLAN, TextBatches("windows", 2, 2, 1), spread)


def update(work: LocalWork, model: Any) -> np.ndarray:
    users = engine(work)
    cohort = SimulatedCohort(0, 0, np.arange(2), "", users.prepare(np.arange(2)), None)  # type: ignore[arg-type]
    bounded, _ = users.collect(model, cohort, ClipThresholds(0.5))
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(bounded.blocks["update"].total)])


def test_equal_work_is_compiled_once(model: WordLM) -> None:
    one, again = (engine(LocalWork(FedAvg(learning_rate=0.3), NextWord()))._compiled(model) for _ in range(2))
    assert one is again
    assert one is not engine(LocalWork(FedAvg(learning_rate=0.4), NextWord()))._compiled(model)
    assert one is not engine(LocalWork(FedAvg(learning_rate=0.3), NextWord()), lanes=2)._compiled(model)


def test_other_work_takes_other_steps(model: WordLM) -> None:
    small, large, again = (
        update(LocalWork(FedAvg(learning_rate=rate), NextWord()), model) for rate in (1e-3, 2e-3, 1e-3)
    )
    np.testing.assert_allclose(large, 2 * small, rtol=1e-2, atol=1e-6)
    np.testing.assert_array_equal(again, small)


def test_a_loss_whose_constants_changed_is_compiled_again(model: WordLM) -> None:
    work = LocalWork(FedAvg(learning_rate=1e-3), loss)
    before = update(work, model)
    SLOPE["of the loss"] = 2.0
    np.testing.assert_allclose(update(work, model), 2 * before, rtol=1e-2, atol=1e-6)


def test_a_filter_of_leaves_is_asked_again_in_each_run(model: WordLM) -> None:
    one, again = (engine(LocalWork(FedAvg(learning_rate=0.3), NextWord(), _bias))._compiled(model) for _ in range(2))
    assert one is not again


def _bias(path: str, leaf: Any) -> bool:
    return "bias" in path


def test_another_model_is_compiled_for_each_run(model: WordLM) -> None:
    own = OwnModel(**vars(model))
    one, again = (engine(LocalWork(FedAvg(learning_rate=0.3), NextWord()))._compiled(own) for _ in range(2))
    assert one is not again
