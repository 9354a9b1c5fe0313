"""`tacit.canaries`: a plan for these users and no others, which `train` plants and `Run.audit` attacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import optax
import pytest

import tacit
from tacit.data.canaries.plan import load_plan
from tacit.errors import AuditError

WORDS = ["see", "you", "soon", "on", "my", "way"]


def people() -> tacit.MemoryUsers:
    return tacit.users({i: ["see you soon"] for i in range(40)}, vocabulary=WORDS)


def trained(users: Any, plan: tacit.CanaryPlan, out: Path) -> tacit.Run:
    def loss(table: Any, tokens: Any) -> Any:
        asked = (tokens[:, 1:] > 1).astype(jnp.float32)
        losses = optax.softmax_cross_entropy_with_integer_labels(table[tokens[:, :-1]], tokens[:, 1:])
        return jnp.sum(losses * asked), jnp.sum(asked)

    return tacit.train(
        jnp.zeros((10, 10)),
        loss,
        users,
        held_out=1,
        work=tacit.FedSGD(),
        privacy=tacit.PrivacyPlan(population=40, cohort=10, clip_norm=1.0, noise_multiplier=4.0, delta=1e-3),
        server=optax.sgd(1.0),
        rounds=2,
        out=out,
        canaries=plan,
        gate_audit=False,
    )


def test_planted_users_are_attacked(tmp_path: Path) -> None:
    users = people()
    plan = tacit.canaries(users, coins=12, copies=2, device_rate=0.25)
    outcome = trained(users, plan, tmp_path / "run").audit()
    assert {bound.canaries for bound in outcome.bounds.values()} == {12}
    assert outcome.proven is not None
    assert outcome.verdict in ("passed", "could_not_fail")


def test_a_plan_is_for_one_population(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="Expected a canary plan for"):
        trained(people(), tacit.canaries(people(), coins=3), tmp_path / "run")


def test_a_plan_is_secret_unless_seeded_and_is_saved_for_its_owner(tmp_path: Path) -> None:
    users = people()
    assert tacit.canaries(users, coins=9, seed=1) == tacit.canaries(users, coins=9, seed=1)
    assert tacit.canaries(users, coins=9) != tacit.canaries(users, coins=9)
    plan = tacit.canaries(users, coins=9)
    plan.save(str(tmp_path / "plan.json"))
    assert load_plan(tmp_path / "plan.json") == plan
    assert (tmp_path / "plan.json").stat().st_mode & 0o077 == 0


def test_users_without_words_have_no_canaries() -> None:
    with pytest.raises(AuditError, match="with a vocabulary"):
        tacit.canaries(tacit.users({1: [[4, 5]]}), coins=3)
