"""A few users' vectors through a gate: the plain one, or the one that sums integers for secure aggregation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from tacit.learning.secure_sums import SecureSums
from tacit.privacy.gate.clipping import ClipStyle
from tacit.privacy.gate.sums import BoundedSum, ClipThresholds, Contributions, Diagnostics, Gate
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.plan import PrivacyPlan
from tacit.simulation.secure_gate import SecureGate, open_round

TEMPLATE = {"a": jnp.zeros((3, 2), jnp.float32), "b": jnp.zeros(4, jnp.float32)}
SIZE = 10
# Makes so many gates of one round.
BuildGates = Callable[..., list[Any]]


def plain_gates(
    norms: ClipThresholds, count: int = 1, *, style: ClipStyle = "flat", weighted: bool = True
) -> list[Any]:
    return [Gate(TEMPLATE, norms, style=style, weighted=weighted) for _ in range(count)]


@dataclass(frozen=True)
class RoundOfUsers:
    """The users of a round with secure sums, whose draws are always the same."""

    users: np.ndarray
    entropy: Callable[[str], bytes] = field(
        default=lambda purpose: Randomness.from_seed(1).derive(purpose, round=0, attempt=0, size=32)
    )


def secure_sums(cohort: int = 6, bits: int = 26) -> SecureSums:
    fields: dict[str, Any] = {"sampling": "check_in", "min_separation": 1, "max_participation": 4}
    plan = PrivacyPlan(
        mechanism="none", population=100, cohort=cohort, clip_norm=0.5, delta=1e-4, secagg={"bits": bits}, **fields
    )
    found = SecureSums.of_plan(plan, SIZE)
    assert found is not None
    return found


def secure_gates(
    norms: ClipThresholds, count: int = 1, *, style: ClipStyle = "flat", weighted: bool = True
) -> list[Any]:
    sums = secure_sums()
    round = open_round(sums, RoundOfUsers(np.arange(sums.cohort)))
    return [SecureGate(TEMPLATE, norms, round, style=style, weighted=weighted) for _ in range(count)]


def admit_rows(gate: Any, rows: np.ndarray, weights: np.ndarray, present: np.ndarray | None = None) -> Diagnostics:
    """Let users in whose updates are these rows [users, 10]."""
    updates = {"a": jnp.asarray(rows[:, :6].reshape(-1, 3, 2)), "b": jnp.asarray(rows[:, 6:])}
    there = np.ones(len(rows), bool) if present is None else present
    found: Diagnostics = gate.admit(Contributions(updates, jnp.asarray(weights), jnp.asarray(there)))
    return found


def admit(values: np.ndarray, weights: np.ndarray, *, clip_norm=1.0, style="flat", weighted=True) -> BoundedSum:
    """The sum of these users through a plain gate."""
    (gate,) = plain_gates(ClipThresholds(clip_norm), style=style, weighted=weighted)
    admit_rows(gate, values, weights)
    return gate.close()


def flat(bounded: BoundedSum) -> np.ndarray:
    """The sum of updates as one vector."""
    total = bounded.blocks["update"].total
    return np.concatenate([np.asarray(total["a"]).ravel(), np.asarray(total["b"])])


def require_counted_as_zero(bad: float, build: BuildGates = plain_gates, *, as_weight: bool = False) -> None:
    """One of two users sends this number in their update, or as their weight: the sum is the same as if they were absent."""
    found = []
    for there in (True, False):
        rows, weights = np.ones((2, SIZE), np.float32), np.ones(2, np.float32)
        if there and as_weight:
            weights[1] = bad
        elif there:
            rows[1, 4] = bad
        (gate,) = build(ClipThresholds(100.0, 50.0))
        admit_rows(gate, rows, weights, np.array([True, there]))
        found.append(gate.close())
    np.testing.assert_array_equal(flat(found[0]), flat(found[1]))
    assert (flat(found[1]) > 0).all()
    for name in ("weight", "within"):
        assert float(found[0].blocks[name].total) == float(found[1].blocks[name].total) != 0
