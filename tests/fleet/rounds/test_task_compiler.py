"""A prepared task is what the simulation does to one user, as bytes that do not change."""

from __future__ import annotations

import dataclasses
import json
import math

import jax
import jax.export
import numpy as np
import pytest

from tacit.data.users import FIRST_WORD, OOV
from tacit.errors import FleetError, RecipeError
from tacit.fleet.device.stated_noise import rho_of
from tacit.fleet.rounds import task_compiler
from tacit.fleet.wire.blobs import packed_leaves, sha256_of
from tacit.fleet.wire.task import DeviceTask, NoiseTerms
from tacit.learning.next_word import evaluate
from tests.support.fleet.worlds import setup


def test_blobs_are_named_by_their_hash_and_the_task_names_them():
    prepared = task_compiler.prepare(setup(), timer_s=60.0)
    assert all(sha256_of(blob) == name for name, blob in prepared.blobs.items())
    assert {prepared.task.plan, prepared.task.vocabulary, prepared.name} == set(prepared.blobs)
    assert DeviceTask.model_validate_json(prepared.blobs[prepared.name]) == prepared.task


def test_the_task_says_what_the_recipe_says():
    made = setup(privacy={"clipping": "per_layer", "example_cap": 20.0, "total_weight": 6.0})
    task = task_compiler.prepare(made, timer_s=60.0).task
    assert (task.name, task.kind, task.clipping, task.example_cap) == ("small", "train", "per_layer", 20.0)
    assert (task.min_separation, task.max_participation, task.timer_s, task.report_goal) == (1, 3, 60.0, 4)
    assert (task.layout, task.length, task.batch_size, task.steps) == ("windows", 4, 2, 3)
    assert task.model_shapes == task.update_shapes == tuple(leaf.shape for leaf in jax.tree.leaves(made.start.model))


def test_the_same_recipe_gives_the_same_bytes_without_a_word_about_this_machine():
    made, again = task_compiler.prepare(setup(), timer_s=60.0), task_compiler.prepare(setup(), timer_s=60.0)
    assert made == again
    assert b".py" not in made.blobs[made.task.plan]
    assert jax.config.jax_traceback_in_locations_limit != 0  # as it was before


def test_a_plan_runs_where_it_was_not_made_for_alone():
    prepared = task_compiler.prepare(setup(), timer_s=60.0)
    assert set(jax.export.deserialize(bytearray(prepared.blobs[prepared.task.plan])).platforms) == {
        "cpu",
        "cuda",
        "tpu",
    }


def test_the_kernels_of_the_servers_processor_are_not_in_the_plan(monkeypatch):
    made = setup(model={"embedding": 16, "projection": 16}, engine={"precision": "bf16"})
    monkeypatch.setattr("tacit.models.layers.output_kernel.available", lambda: True)
    prepared = task_compiler.prepare(made, timer_s=60.0)
    plan = jax.export.deserialize(bytearray(prepared.blobs[prepared.task.plan]))
    assert "custom_call" not in plan.mlir_module()


def test_secure_aggregation_is_described_as_the_simulation_encodes():
    made = setup(
        privacy={
            "secagg": {"bits": 16},
            "clip_norm": 0.3,
            "estimator": "clipped",
            "example_cap": 9.0,
            "total_weight": 6.0,
        }
    )
    terms, encoding = task_compiler.prepare(made, timer_s=0.0).task.secagg, made.secure.encoding
    assert terms is not None
    assert terms.weighted
    for name in ("dimension", "scale", "element_clip", "bits", "block", "rounding_failure"):
        assert getattr(terms, name) == getattr(encoding, name)


NOISY = {"noise_multiplier": 2.0, "delta": 1e-2}


def test_a_task_states_the_noise_from_which_a_device_computes_what_the_plan_costs():
    made = setup(privacy={**NOISY, "mechanism": "gaussian", "adaptive": {"count_noise": 2.0}})
    found = task_compiler._noise(made)
    assert found == NoiseTerms(mechanism="gaussian", multiplier=made.plan.combined_noise_multiplier)
    assert found.multiplier == pytest.approx(2.0)
    assert found.multiplier < made.plan.noise_multipliers["update"]  # the bits are released as well
    assert rho_of(found, 3) == pytest.approx(3 / 2 / 2.0**2)
    made = setup(privacy={**NOISY, "mechanism": "tree"}, run={"rounds": 6})
    found = task_compiler._noise(made)
    exact = [made.strategy.sensitivity(6, made.plan.gap, times).squared for times in (1, 2, 3)]
    assert found.moved_squared == tuple(exact)
    assert exact[0] > 1
    assert rho_of(found, 2) == pytest.approx(exact[1] / 2 / 2.0**2)


def test_a_task_states_no_noise_where_the_server_adds_none():
    assert task_compiler._noise(setup()).multiplier == 0
    devices_add_it = {**NOISY, "mechanism": "discrete", "secagg": {"bits": 24, "scheme": "device_noise"}}
    assert task_compiler._noise(setup(privacy=devices_add_it)) is None


def test_devices_that_come_when_they_can_are_no_sample():
    base = setup()
    plan = base.recipe.privacy.model_copy(update={"sampling": "fixed", "min_separation": None})
    sampled = dataclasses.replace(base, recipe=base.recipe.model_copy(update={"privacy": plan}))
    with pytest.raises(RecipeError, match="check_in"):
        task_compiler.prepare(sampled, timer_s=0.0)


def test_a_cap_that_no_device_can_hold_is_refused(monkeypatch):
    """A compiled plan has one shape for all devices, so on a fleet padding goes up to the cap."""
    made = setup()
    size = 4 * made.batches.steps * made.batches.batch_size * (made.batches.length + 1)
    monkeypatch.setattr(task_compiler, "MOST_BATCH_BYTES", size)
    task_compiler.prepare(made, timer_s=0.0)
    monkeypatch.setattr(task_compiler, "MOST_BATCH_BYTES", size - 1)
    with pytest.raises(RecipeError, match=r"data\.tokens_per_user for which a device's padded batches take at most"):
        task_compiler.prepare(made, timer_s=0.0)


def test_a_checkpoint_comes_back_as_it_was():
    model = setup().start.model
    shapes = [leaf.shape for leaf in jax.tree.leaves(model)]
    found = task_compiler.leaves_of(task_compiler.checkpoint_bytes(model), shapes)
    for ours, theirs in zip(found, jax.tree.leaves(model), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def of_bfloat16(shape: tuple[int, ...]) -> bytes:
    """A checkpoint of numbers that NumPy does not know."""
    size = 2 * math.prod(shape)
    head = json.dumps({"0000": {"dtype": "BF16", "shape": shape, "data_offsets": [0, size]}}).encode()
    return len(head).to_bytes(8, "little") + head + bytes(size)


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\xff" * 40,
        packed_leaves([np.zeros(3, np.float32)]),
        packed_leaves([np.zeros((2, 3), np.float32), np.zeros(1, np.float32)]),
        packed_leaves([np.full((2, 3), np.nan, np.float32)]),
        of_bfloat16((2, 3)),
    ],
    ids=["empty", "not safetensors", "another shape", "one array more", "not finite", "unknown numbers"],
)
def test_other_checkpoints_are_refused(blob):
    with pytest.raises(FleetError, match="a checkpoint"):
        task_compiler.leaves_of(blob, [(2, 3)])


def test_an_evaluation_is_a_bounded_vector_that_says_what_the_scores_say():
    made = setup()
    prepared = task_compiler.prepare_evaluation(made, timer_s=0.0)
    task, rows = prepared.task, made.dataset.held_out[:6]
    assert task.kind == "evaluate"
    assert task.update_shapes == ((2,),)
    plan = jax.export.deserialize(bytearray(prepared.blobs[task.plan]))
    batches = rows.reshape(task.steps, task.batch_size, task.length + 1)
    (vector,) = plan.call(tuple(jax.tree.leaves(made.start.model)), batches, np.int32(3), np.float32(1))
    assert np.linalg.norm(vector) <= 1
    scores, found = evaluate(made.start.model, rows), task_compiler.metrics_of(np.asarray(vector, np.float64))
    assert found["top1"] == pytest.approx(scores.top1, abs=1e-6)
    assert found["loss"] == pytest.approx(math.log(scores.perplexity), rel=1e-5)


def test_an_evaluation_ranks_words_among_words_as_a_keyboard_does():
    made = setup()
    prepared = task_compiler.prepare_evaluation(made, timer_s=0.0)
    task = prepared.task
    plan = jax.export.deserialize(bytearray(prepared.blobs[task.plan]))
    nothing = jax.tree.map(np.zeros_like, made.start.model)  # equal logits: padding is first, and A the first word
    rows = np.full((task.steps * task.batch_size, task.length + 1), FIRST_WORD, np.int32)
    rows[:, 1:3] = OOV, FIRST_WORD + 1
    batches = rows.reshape(task.steps, task.batch_size, task.length + 1)
    (vector,) = plan.call(tuple(jax.tree.leaves(nothing)), batches, np.int32(3), np.float32(1))
    scores = evaluate(nothing, rows)
    assert (scores.top1, scores.papers_top1) == (0.5, 0.0)
    assert task_compiler.metrics_of(np.asarray(vector, np.float64))["top1"] == pytest.approx(0.5, abs=1e-6)


def test_an_evaluation_of_a_model_that_is_badly_wrong_is_still_bounded():
    made = setup()
    task = task_compiler.prepare_evaluation(made, timer_s=0.0)
    plan = jax.export.deserialize(bytearray(task.blobs[task.task.plan]))
    wrong = tuple(leaf * np.float32(1e4) for leaf in jax.tree.leaves(made.start.model))
    batches = made.dataset.held_out[:6].reshape(3, 2, 5)
    (vector,) = plan.call(wrong, batches, np.int32(3), np.float32(1))
    assert np.linalg.norm(vector) <= 1
    assert task_compiler.metrics_of(np.asarray(vector, np.float64))["loss"] == pytest.approx(
        task_compiler.LOSS_CAP, rel=1e-5
    )
