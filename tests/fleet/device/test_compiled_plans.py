"""A plan that is not a pure function of the task's own shapes is not run."""

from __future__ import annotations

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import FleetError
from tacit.fleet.device.compiled_plans import run_plan
from tacit.fleet.device.examples import Batches
from tests.support.fleet.device_task import task
from tests.support.fleet.plans import honest
from tests.support.fleet.plans import plan_of as plan

BATCHES = Batches(np.ones((3, 2, 5), np.int32), 2, 9)
MODEL = [np.array([1.0, 2.0], np.float32)]


def run(blob, **changes):
    return run_plan(blob, task(**changes), MODEL, BATCHES, clip_norm=0.5)


def test_an_honest_plan_runs():
    np.testing.assert_allclose(run(plan(honest))[0], [4.5, 6.5])


def test_no_clip_is_a_huge_number_to_the_plan():
    (found,) = run_plan(plan(lambda m, b, s, c: (m[0] + c,)), task(), MODEL, BATCHES, clip_norm=1e300)
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    "blob",
    [
        plan(honest, model=(3,)),
        plan(honest, rows=(3, 2, 6)),
        plan(lambda m, b, s, c: (m[0], m[0])),
        plan(lambda m, b, s, c: (m[0].astype(jnp.float16),)),
        plan(lambda m, b, s, c: (jnp.stack([m[0]] * 2),)),
    ],
    ids=["another model", "other batches", "two updates", "another precision", "a longer update"],
)
def test_plans_of_other_shapes_are_refused(blob):
    with pytest.raises(FleetError, match="the task's shapes"):
        run(blob)


@pytest.mark.parametrize("blob", [b"", b"plan", plan(honest)[:-40], plan(honest)[:200]])
def test_bytes_that_are_no_plan_are_refused(blob):
    with pytest.raises(FleetError, match="not exported StableHLO"):
        run(blob)


def test_a_plan_that_calls_other_code_is_refused():
    calls_out = plan(
        lambda m, b, s, c: (jnp.linalg.qr(jnp.stack([m[0], m[0]]))[0][0] + c,),
        disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("lapack_sgeqrf_ffi")],
    )
    with pytest.raises(FleetError, match="calls code outside StableHLO"):
        run(calls_out)


def test_a_plan_for_another_processor_is_refused():
    with pytest.raises(FleetError, match="Expected a plan for cpu"):
        run(plan(honest, platforms=("tpu",)))
