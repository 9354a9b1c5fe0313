"""What a device computes from its own text is what the simulation computes for the same user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

from tacit.data.vocabulary import load_vocabulary
from tacit.fleet.device.clipping import contribution_of
from tacit.fleet.device.compiled_plans import run_plan
from tacit.fleet.device.examples import batches_of
from tacit.fleet.rounds import task_compiler
from tacit.fleet.rounds.partial_sums import PartialSum
from tacit.fleet.wire.blobs import leaves_of
from tacit.privacy.gate.sums import ClipThresholds
from tacit.simulation.training import engine_of
from tests.support.fleet.worlds import sentences_of, setup

CASES = {
    "flat": {},
    "clip each step, per layer": {"work": {"clip_every_step": True}, "privacy": {"clipping": "per_layer"}},
    "weighed": {"privacy": {"example_cap": 40.0, "total_weight": 6.0, "estimator": "clipped", "clip_norm": 5.0}},
    "sentences": {"data": {"layout": "sentences", "tokens_per_user": 40}, "work": {"kind": "fedsgd"}},
}


@dataclass(frozen=True)
class Cohort:
    round: int
    chunks: Any


@pytest.mark.parametrize(
    "case", [case if case == "flat" else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_a_devices_report_is_the_simulations_update(case, tmp_path):
    made = setup(**CASES[case])
    prepared, users = task_compiler.prepare(made, timer_s=0.0), np.array([0, 3, 7])
    task, clip = prepared.task, made.recipe.privacy.clip_norm
    threshold = 0.5 * clip
    (tmp_path / "words").write_bytes(prepared.blobs[task.vocabulary])
    words = load_vocabulary(tmp_path / "words")
    model = leaves_of(task_compiler.checkpoint_bytes(made.start.model), task.model_shapes)

    sums = PartialSum(clip, task.update_shapes, per_layer=task.clipping == "per_layer")
    for user in users:
        batches = batches_of(sentences_of(made, int(user)), words, task)
        update = run_plan(prepared.blobs[task.plan], task, model, batches, clip_norm=clip)
        found = contribution_of(update, batches.predictions, task, clip_norm=clip, threshold=threshold)
        sums.admit(int(user), found.update.astype(np.float32), found.weight, found.within)

    engine = engine_of(made)
    simulated, _ = engine.collect(
        made.start.model, Cohort(0, engine.prepare(users)), ClipThresholds(clip, threshold if case == "flat" else None)
    )
    expected = np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(simulated.blocks["update"].total)])
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(sums.update, expected, atol=2e-5 * float(np.abs(expected).max()))
    if "weight" in simulated.blocks:
        assert sums.weight == pytest.approx(float(simulated.blocks["weight"].total), rel=1e-12)
    if "within" in simulated.blocks:
        assert sums.bits == pytest.approx(float(simulated.blocks["within"].total), rel=1e-12)
