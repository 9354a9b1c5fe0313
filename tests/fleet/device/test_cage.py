"""A plan that loops, takes memory or breaks its process costs the device a round, and nothing else."""

from __future__ import annotations

import os
import random
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import FleetError
from tacit.fleet.device import cage
from tacit.fleet.device.cage import Cage, CageLimits, close_all, run_in_cage
from tacit.fleet.device.cage_worker import JOB, LENGTH
from tacit.fleet.device.compiled_plans import run_plan
from tacit.fleet.device.confinement import CLOSED, LIMITS
from tacit.fleet.device.examples import Batches
from tacit.fleet.rounds import task_compiler
from tacit.fleet.wire.blobs import sha256_of
from tacit.training.letter_discovery import LettersSetup
from tests.support.fleet.crowd import PATIENCE_S, fleet_recipe
from tests.support.fleet.device_task import task
from tests.support.fleet.plans import honest_plan, plan_of
from tests.support.fleet.worlds import setup

BATCHES = Batches(np.ones((3, 2, 5), np.int32), 2, 9)
MODEL = [np.array([1.0, 2.0], np.float32)]
pytestmark = pytest.mark.process
LIMIT = CageLimits(seconds=PATIENCE_S, memory_bytes=1 << 30)


@pytest.fixture(autouse=True)
def none_left():
    yield
    close_all()


def letters_setup():
    letters = {"alphabet": "abcdefghijklmnop", "longest": 4, "coordinates": 4096, "words_per_user": 2}
    return LettersSetup.build(
        fleet_recipe(name="words", letters=letters, privacy={"clip_norm": 1.0, "min_separation": 0})
    )


def run(plan, limits=LIMIT, seconds=PATIENCE_S):
    return run_in_cage(plan, task(plan=sha256_of(plan)), MODEL, BATCHES, clip_norm=0.5, limits=limits, seconds=seconds)


def test_a_caged_plan_gives_what_it_gives_outside_and_stays_warm(monkeypatch):
    plan = honest_plan()
    expected = run_plan(plan, task(), MODEL, BATCHES, clip_norm=0.5)
    np.testing.assert_array_equal(run(plan), expected)
    monkeypatch.setattr(cage, "Cage", None)  # a second one cannot be made
    np.testing.assert_array_equal(run(plan), expected)


@pytest.mark.parametrize("kind", ["train", "evaluate", "discover"])
def test_real_plans_compute_in_a_cage_what_they_compute_outside(kind):
    """Libraries that cannot look at the processor any more would compute otherwise, or not at all."""
    if kind == "discover":
        prepared = task_compiler.prepare_discovery(letters_setup(), timer_s=0.0)
        model = jax.tree.leaves(letters_setup().start.model.tree)
    else:
        prepare = task_compiler.prepare if kind == "train" else task_compiler.prepare_evaluation
        prepared, model = prepare(setup(), timer_s=0.0), jax.tree.leaves(setup().start.model)
    wanted, leaves = prepared.task, [np.asarray(leaf, np.float32) for leaf in model]
    rows = (wanted.steps, wanted.batch_size, wanted.length + 1)
    batches = Batches(np.random.default_rng(3).integers(0, 9, rows).astype(np.int32), wanted.steps, 9)
    plan = prepared.blobs[wanted.plan]
    found = run_in_cage(plan, wanted, leaves, batches, clip_norm=0.5, limits=LIMIT, seconds=PATIENCE_S)
    expected = run_plan(plan, wanted, leaves, batches, clip_norm=0.5)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    assert kind == "discover" or any(np.abs(leaf).max() > 0 for leaf in expected)  # these rows spell no word


def endless(model, batches, steps, clip):
    return (jax.lax.while_loop(lambda v: v[0] > 0, lambda v: v * 1.0 + 1.0, jnp.abs(model[0]) + 1.0),)


def framed_job():
    content = JOB.pack(BATCHES.steps, 0.5) + MODEL[0].tobytes() + BATCHES.tokens.tobytes()
    return LENGTH.pack(len(content)) + content


def test_an_endless_loop_is_ended():
    with pytest.raises(FleetError, match="ran longer than 2 s and was ended"):
        run(plan_of(endless), seconds=2.0)
    np.testing.assert_array_equal(run(honest_plan())[0].shape, (2,))


def test_a_plan_that_takes_memory_ends_itself_alone():
    def greedy(model, batches, steps, clip):
        large = jnp.ones((1 << 15, 1 << 15), jnp.float32) * model[0][0]
        return (model[0] + (large @ large).sum(),)

    with pytest.raises(FleetError, match=r"The plan (failed|ended its process|needs more memory)"):
        run(plan_of(greedy))


@pytest.mark.slow
def test_mutated_plans_never_reach_the_device_itself():
    """Of 245 plans with a changed byte, one took 15 GB and one corrupted memory. The count can be set by CHANGED_PLANS."""
    draw, plan, outcomes = random.Random(7), honest_plan(), dict[str, int]()
    small = CageLimits(seconds=8.0, memory_bytes=512 << 20)
    count = int(os.environ.get("CHANGED_PLANS", "6"))
    for _ in range(count):
        changed = bytearray(plan)
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        try:
            (update,) = run(bytes(changed), small, 8.0)
            assert update.shape == (2,)
            said = "an update"
        except FleetError as error:
            said = error.sentence.split("(")[0]
        outcomes[said] = outcomes.get(said, 0) + 1
    print(outcomes)  # with -s: what became of them
    assert len(outcomes) >= 2
    assert sum(outcomes.values()) == count


def test_an_owner_who_asks_for_a_closed_cage_gets_one_or_nothing(monkeypatch):
    closed = CageLimits(seconds=60.0, memory_bytes=1 << 30, closed=True)
    if sys.platform == "linux":
        made = Cage(honest_plan(), task(), closed)
        assert {LIMITS, CLOSED} <= set(made.given_up)
        made.close()
    monkeypatch.setattr(Cage, "_exchange", lambda self, message, **limits: b'["limits"]')
    with pytest.raises(FleetError, match="a cage without files and network"):
        Cage(honest_plan(), task(), closed)


def test_a_worker_that_answers_something_else_is_not_believed(monkeypatch):
    made = Cage(honest_plan(), task(), LIMIT)
    for answer in (b"", b"\2", b"\0" + bytes(7), b"\0" + bytes(9)):
        monkeypatch.setattr(Cage, "_exchange", lambda self, message, answer=answer, **limits: answer)
        with pytest.raises(FleetError, match="something else than the task's update"):
            made.run(MODEL, BATCHES, clip_norm=0.5, seconds=1.0)
        assert not made.is_open


def test_a_sentence_of_a_worker_is_one_line(monkeypatch):
    made = Cage(honest_plan(), task(), LIMIT)
    monkeypatch.setattr(Cage, "_exchange", lambda self, message, **limits: b"\1one\ntwo\x1b[2J")
    with pytest.raises(FleetError) as caught:
        made.run(MODEL, BATCHES, clip_norm=0.5, seconds=1.0)
    assert caught.value.sentence == "onetwo[2J"
    made.close()


def test_a_plan_inherits_no_secret_of_the_environment(monkeypatch):
    monkeypatch.setenv("TACIT_TOKEN", "a secret")
    made = Cage(honest_plan(), task(), LIMIT)
    if sys.platform == "linux":
        with open(f"/proc/{made._worker.pid}/environ", "rb") as file:
            assert b"a secret" not in file.read()
        opened = {os.readlink(f"/proc/{made._worker.pid}/fd/{n}") for n in os.listdir(f"/proc/{made._worker.pid}/fd")}
        assert all(name.startswith(("pipe:", "/dev/null", "anon_inode:")) for name in opened)
    made.close()


def test_a_worker_whose_device_is_killed_ends_in_the_middle_of_a_plan():
    """Its pipe ends as it does when the device's process is gone."""
    plan = plan_of(endless)
    made = Cage(plan, task(), LIMIT)
    with pytest.raises(FleetError, match=r"ran longer than 0\.5 s"):
        made._exchange(made._unsent + framed_job(), most=100, seconds=0.5)
    assert made.is_open
    made._worker.stdin.close()
    assert made._worker.wait(timeout=600) == 0
    made.close()
