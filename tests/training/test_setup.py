"""A setup of one's own: any model, any loss, any optimizer, with the same gate and ledger."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tacit
from tacit.learning.batches import TextBatches
from tacit.learning.next_word import NextWord, prediction_mask
from tacit.learning.state import load_model
from tacit.learning.tasks import mean_metrics
from tacit.learning.work import FedAvg, FedSGD, LocalWork
from tacit.models import transformer
from tacit.models.word_lm import parameter_count
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.reasons import Reason, Why
from tacit.runs.driver import begin
from tacit.runs.folder import RunFolder
from tacit.runs.journal import Schedule
from tacit.simulation.training import program_of
from tacit.training.datasets import Dataset, open_dataset
from tacit.training.setup import TrainingSetup
from tests.support.run_arrays import final_arrays
from tests.support.tiny_recipe import tiny

ROUNDS = 12
# So many made-up people stand for a large population, so that a little noise has a price that can be stated.
PLAN = PrivacyPlan(population=400, cohort=40, clip_norm=1.0, noise_multiplier=0.3, delta=1e-4)


def bigrams(model: dict[str, Any], tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The next word's frequency, and what the last word adds to it."""
    mask, targets = prediction_mask(tokens), tokens[:, 1:, None]
    logits = model["words"] + jnp.einsum(
        "rld,dv->rlv", model["last"][tokens[:, :-1]], model["next"], precision="highest"
    )
    own = jnp.take_along_axis(logits, targets, axis=-1)[..., 0]
    return jnp.sum((jax.nn.logsumexp(logits, axis=-1) - own) * mask), jnp.sum(mask)


@cache
def dataset() -> Dataset:
    return open_dataset(tiny())


def dict_of_arrays() -> dict[str, Any]:
    size = len(dataset().words)
    keys = jax.random.split(jax.random.key(0))
    return {
        "words": jnp.zeros(size),
        "last": jax.random.normal(keys[0], (size, 4)),
        "next": jax.random.normal(keys[1], (4, size)) * 0.1,
        "name": "bigrams",
    }


def small_transformer() -> transformer.Transformer:
    config = transformer.TransformerConfig(len(dataset().words), width=8, heads=2, layers=1, hidden=8)
    return transformer.build(config, key=jax.random.key(1))


CASES: dict[str, Any] = {
    "a dict of arrays": (dict_of_arrays, bigrams, FedSGD(learning_rate=4.0), "last", optax.sgd(1.0, momentum=0.9)),
    "a transformer": (small_transformer, NextWord(), FedAvg(learning_rate=1.0), None, optax.adam(0.02)),
}


@pytest.mark.parametrize("case", ["a dict of arrays", pytest.param("a transformer", marks=pytest.mark.slow)])
def test_a_model_of_ones_own_learns_behind_the_gate(case: str, tmp_path: Path) -> None:
    made, task, work, frozen, optimizer = CASES[case]
    model = made()
    bound = LocalWork(work, task, lambda path, leaf: path != frozen)
    rows = dataset().held_out
    setup = TrainingSetup.assemble(
        plan=PLAN,
        schedule=Schedule(ROUNDS, ROUNDS, ROUNDS),
        model=model,
        work=bound,
        optimizer=optimizer,
        strategy=None,
        settings=f"# {case}\n",
        seed=3,
        dataset=dataset(),
        store=None,
        batches=TextBatches("sentences", 6, bound.batch_size, 1),
        evaluate=lambda model: mean_metrics(bound.task, model, [rows[None]]),
        summarise=lambda state, opened, spent: {"loss": mean_metrics(bound.task, state.model, [rows[None]])["loss"]},
        reasons_not_private=(Reason(Why.SEEDED),),
    )
    folder = RunFolder.create(tmp_path / "run", setup.settings, vocabulary=dataset().words)
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam mixes ints and floats
        summary = begin(program_of(setup, folder), folder, tacit.Callback())

    assert summary["loss"] < mean_metrics(bound.task, model, [rows[None]])["loss"] - 0.1
    opened = read_ledger(folder.ledger_path).opened
    assert opened.release.coordinates == parameter_count(model) - (0 if frozen is None else model[frozen].size)
    trained = load_model(model, final_arrays(tmp_path / "run"))
    if frozen is not None:
        np.testing.assert_array_equal(trained[frozen], model[frozen])
        assert trained["name"] == "bigrams"
