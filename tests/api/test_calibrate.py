"""`tacit.calibrate`: a run with the plan that it returns costs what was asked for, by the run's own ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import optax
import pytest

import tacit
from tacit.errors import RecipeError

ROUNDS, EPSILON = 3, 2.0
SETTING = {"population": 60, "cohort": 20, "clip_norm": 1.0, "delta": 1e-3}
CHECK_IN = {"sampling": "check_in", "min_separation": 0, "max_participation": 2}


def square(model: Any, tokens: Any) -> Any:
    return jnp.sum(jnp.square(model)) * jnp.float32(tokens.shape[0]), tokens.shape[0]


@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"sampling": "fixed"},
        {"adaptive": {"quantile": 0.5, "count_noise": 20.0}},
        {"estimator": "clipped"},
        CHECK_IN,
        {**CHECK_IN, "mechanism": "tree", "restarts": (1,)},
    ],
    ids=["poisson", "fixed", "adaptive", "clipped", "check_in", "tree"],
)
def test_a_run_costs_what_was_asked_for(plan: dict[str, Any], tmp_path: Path) -> None:
    privacy = tacit.calibrate(epsilon=EPSILON, rounds=ROUNDS, **SETTING, **plan)
    run = tacit.train(
        jnp.ones(3),
        square,
        tacit.users({i: [[4, 5]] for i in range(100)}, key=bytes(32)),
        held_out=2,
        work=tacit.FedSGD(),
        privacy=privacy,
        server=optax.sgd(1.0),
        rounds=ROUNDS,
        out=tmp_path / "run",
        gate_audit=False,
    )
    assert 0.98 * EPSILON <= run.cost().epsilon <= EPSILON


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"noise_multiplier": 1.0}, "noise_multiplier is not allowed here"),
        ({"epsilon": 0.0}, "Expected epsilon to be a number above 0, got 0.0."),
        ({"rounds": 0}, "Expected rounds to be a whole number of at least 1, got 0."),
        ({"mechanism": "tree", **CHECK_IN, "restarts": (7,)}, "Expected privacy.restarts within the 3 rounds"),
        ({"mechanism": "nowhere:Unknown"}, "got 'nowhere:Unknown'"),
    ],
)
def test_mistakes_are_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        tacit.calibrate(**{"epsilon": EPSILON, "rounds": ROUNDS, **SETTING, **settings})
