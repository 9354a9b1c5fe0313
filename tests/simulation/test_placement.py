"""Every core is a JAX device; where an earlier call of JAX has prevented this, training says so and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
# Pretends that the machine has three cores, whatever it has.
CORES = "import os; os.sched_getaffinity = lambda process: {0, 1, 2}\n"
SPREAD = "from tacit.simulation.placement import suitable_spread; print(len(suitable_spread(100, 10).devices))\n"
EARLY = "import jax.numpy as jnp; jnp.zeros(3) + 1\n"
USE = "import tacit; tacit.use_every_core()\n"


def ran(code: str, **settings: str) -> tuple[int, str]:
    """How many devices a new process trains on, and what it wrote on stderr."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("JAX_NUM_CPU_DEVICES", "XLA_FLAGS")
    }
    done = subprocess.run(
        [sys.executable, "-c", CORES + code],
        env={**environment, "JAX_PLATFORMS": "cpu", **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout), done.stderr


def test_every_core_is_used() -> None:
    assert ran(USE + SPREAD) == (3, "")
    assert ran(USE + EARLY + SPREAD) == (3, "")


def test_an_earlier_call_of_jax_is_told_with_what_to_do() -> None:
    devices, said = ran(EARLY + USE + SPREAD)
    assert devices == 1
    assert "RuntimeWarning: Training has 1 CPU device(s) for 3 cores, because this program used JAX before" in said
    assert "Call tacit.use_every_core() before anything else that uses JAX" in said
    assert "JAX_NUM_CPU_DEVICES=3" in said


@pytest.mark.parametrize(
    "settings",
    [{"JAX_NUM_CPU_DEVICES": "2"}, {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}],
    ids=["jax", "xla"],
)
def test_a_number_that_the_person_chose_stays(settings: dict[str, str]) -> None:
    assert ran(USE + SPREAD, **settings) == (2, "")
    assert ran(EARLY + USE + SPREAD, **settings) == (2, "")


def test_xlas_slow_loops_are_avoided_unless_the_person_chose_such_options() -> None:
    code = USE + "import os; print(os.environ['XLA_FLAGS'].count('xla_cpu_disable_tiled_emitter'))\n"
    assert ran(code) == (1, "")
    assert ran(code, XLA_FLAGS="--xla_cpu_enable_fast_math=false") == (1, "")
    assert ran(USE + code) == (1, "")
    assert ran(code, XLA_FLAGS="--xla_backend_extra_options=xla_cpu_disable_loop_unrolling") == (0, "")


def test_a_call_with_a_model_of_ones_own_is_told(tmp_path: Path) -> None:
    code = f"""
import jax.numpy as jnp, optax, tacit
people = tacit.users({{i: ["a b"] for i in range(40)}}, vocabulary=["a", "b"], held_out=0.2)
def loss(table, tokens):
    return jnp.sum(table[tokens[:, :-1]] ** 2) * 0.1, jnp.float32(tokens.size)
plan = tacit.PrivacyPlan(population=40, cohort=8, clip_norm=1.0, noise_multiplier=2.0, delta=1e-3)
run = tacit.train(jnp.zeros((6, 6)), loss, people, held_out=2, work=tacit.FedAvg(learning_rate=0.1), privacy=plan,
    server=optax.sgd(1.0), rounds=1, out={str(tmp_path / "run")!r})
print(run.summary["rounds"])
"""
    done, said = ran(code)
    assert done == 1
    assert said.count("RuntimeWarning: Training has 1 CPU device(s) for 3 cores") == 1
    assert "Warning" not in ran(USE + code.replace('"run"', '"again"').replace("/run'", "/again'"))[1]
