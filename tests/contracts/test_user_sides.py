"""What every users' side of the gate promises, simulated or on devices: the same sum of the same users, within its bounds.

Each user has one word, and their work's update is a row of TABLE, so that all sides can be compared with the formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.fleet.device.clipping import contribution_of
from tacit.fleet.rounds.partial_sums import PartialSum
from tacit.fleet.rounds.program import DeviceUsers
from tacit.fleet.wire.task import DeviceTask
from tacit.learning.batches import TextBatches
from tacit.learning.loop import UserSide
from tacit.privacy.gate.sums import HEADROOM, BoundedSum, ClipThresholds
from tacit.privacy.noise.mechanisms import NoNoise
from tacit.privacy.plan import PrivacyPlan
from tacit.recipe.engine import Ray
from tacit.runs.gate_audit.layout import Layout
from tacit.runs.gate_audit.record import Design
from tacit.simulation.batched import BatchedUsers
from tacit.simulation.gate_audit import AuditedGate
from tacit.simulation.placement import Spread, suitable_spread
from tacit.simulation.ray.users import RayUsers
from tests.support.fleet.device_task import task
from tests.support.gate_sums import SIZE, TEMPLATE, RoundOfUsers, admit_rows, flat, secure_gates, secure_sums
from tests.support.implementations import implementations
from tests.support.inline_pool import InlinePool
from tests.support.list_users import ListUsers

NORMS = ClipThresholds(0.5, 0.3)
# A user's word: nothing, a short update, one near the clip norm, a long one, one that is not finite, one far too long.
SHORT, NEAR, LONG, NOT_FINITE, FAR = range(4, 9)
TABLE = np.random.default_rng(0).standard_normal((9, SIZE)).astype(np.float32)
TABLE /= np.linalg.norm(TABLE, axis=1, keepdims=True)
TABLE *= np.array([0, 0, 0, 0, 0.2, 0.5, 30.0, 1.0, 1e13], np.float32)[:, None]
TABLE[NOT_FINITE, 3] = np.nan
PLAN = PrivacyPlan(
    mechanism="none",
    population=100,
    cohort=6,
    clip_norm=NORMS.clip,
    delta=1e-4,
    estimator="clipped",
    example_cap=4.0,
    total_weight=50.0,
)
WEIGHT = (
    0.5  # of a user with one word: a word and the end of the sentence are two predictions, and four have full weight
)
EVERYBODY = (SHORT, NEAR, LONG, NOT_FINITE, FAR, None)
Words = Sequence[int | None]


def looked_up(model: Any, batches: Any, steps: Any, clip_norm: Any) -> Any:
    """A user's work: the row of their word; zeros for a user without one."""
    row = jnp.asarray(TABLE)[batches[0, 0, 1]]
    return {"a": row[:6].reshape(3, 2), "b": row[6:]}


@dataclass(frozen=True)
class Round:
    """One round of a simulated cohort, as the engine takes it."""

    chunks: Any
    users: np.ndarray
    entropy: Any
    round: int = 1
    attempt: int = 0


@cache
def batched(secure: bool = False) -> BatchedUsers:
    spread = Spread(suitable_spread(1, 1).devices, chunk=4, lanes=2)
    shape = TextBatches("sentences", 2, 1, 1)
    return BatchedUsers(ListUsers([]), looked_up, PLAN, shape, spread, secure_sums() if secure else None)


@cache
def in_pieces(secure: bool = False) -> RayUsers:
    """Trained by two workers, which are in this process."""
    shape, settings = TextBatches("sentences", 2, 1, 1), Ray(pieces=3)
    return RayUsers(
        ListUsers([]),
        looked_up,
        PLAN,
        shape,
        settings=settings,
        parameters=SIZE,
        chunk=2,
        secure=secure_sums() if secure else None,
        pool=InlinePool(2),
    )


def by_workers(words: Words, *, secure: bool = False) -> BoundedSum:
    engine = in_pieces(secure)
    engine.users = ListUsers([[] if word is None else [[word]] for word in words])
    engine._opened = False  # the workers get these users
    engine.open()
    numbers = np.arange(len(words))
    cohort = Round(engine.prepare(numbers), numbers, RoundOfUsers(numbers).entropy)
    return engine.collect(TEMPLATE, cohort, NORMS)[0]


def simulated(words: Words, *, secure: bool = False, side: Any = None) -> BoundedSum:
    engine = batched(secure)
    engine.users = ListUsers([[] if word is None else [[word]] for word in words])
    numbers = np.arange(len(words))
    cohort = Round(engine.prepare(numbers), numbers, RoundOfUsers(numbers).entropy)
    return (engine if side is None else side).collect(TEMPLATE, cohort, NORMS)[0]


def audited(words: Words) -> BoundedSum:
    """A round between two with canaries."""
    multipliers = {"update": 0.0, "weight": 0.0, "within": 0.0}
    layout = replace(Layout.of([6, 4], ["weight", "within"], rounds=8, canaries=2, per_layer=False), every=2)
    assert not layout.has_canaries(Round.round)
    side = AuditedGate(batched(), NoNoise(multipliers), Design(layout, multipliers), None)  # type: ignore[arg-type]
    return simulated(words, side=side)


@dataclass(frozen=True)
class DeviceRound:
    """A round's sum as it comes from devices: plain, or masked."""

    users: np.ndarray
    plain: PartialSum | None = None
    masked: Any = None


def on_devices(words: Words) -> BoundedSum:
    """Every device clips its own update, and the process that adds up checks it."""
    terms: DeviceTask = task(update_shapes=((3, 2), (4,)), example_cap=PLAN.example_cap, clipping="flat")
    total = PartialSum(NORMS.clip, terms.update_shapes, False)
    for device, word in enumerate(words):
        row = TABLE[0 if word is None else word]
        predictions = 0 if word is None else 2
        limits: Any = {"clip_norm": NORMS.clip, "threshold": NORMS.threshold}
        mine = contribution_of([row[:6], row[6:]], predictions, terms, **limits)
        total.admit(device, mine.update.astype(np.float32), mine.weight, mine.within)
    return DeviceUsers(PLAN, None).collect(TEMPLATE, DeviceRound(np.arange(len(words)), total), NORMS)[0]  # type: ignore[arg-type]


@dataclass(frozen=True)
class Unmasked:
    """A masked sum whose masks are gone."""

    words: Any
    signs_seed: bytes

    def unmasked(self) -> Any:
        return self.words


def masked_on_devices(words: Words) -> BoundedSum:
    (gate,) = secure_gates(NORMS)
    rows = TABLE[[0 if word is None else word for word in words]]
    admit_rows(gate, rows, np.array([0.0 if word is None else WEIGHT for word in words], np.float32))
    numbers = np.arange(len(words))
    cohort = DeviceRound(numbers, masked=Unmasked(gate.integers(), RoundOfUsers(numbers).entropy("rotation")))
    return DeviceUsers(PLAN, secure_sums()).collect(TEMPLATE, cohort, NORMS)[0]  # type: ignore[arg-type]


IMPLEMENTATIONS: dict[str, tuple[type, Callable[[Words], BoundedSum], float]] = {
    "simulated": (BatchedUsers, simulated, 1e-6),
    "simulated, secure": (BatchedUsers, lambda words: simulated(words, secure=True), 1e-5),
    "simulated, audited": (AuditedGate, audited, 1e-6),
    "workers": (RayUsers, by_workers, 1e-6),
    "workers, secure": (RayUsers, lambda words: by_workers(words, secure=True), 1e-5),
    "devices": (DeviceUsers, on_devices, 1e-6),
    "devices, secure": (DeviceUsers, masked_on_devices, 1e-5),
}


@pytest.mark.parametrize(("collect", "tolerance"), [each[1:] for each in IMPLEMENTATIONS.values()], ids=IMPLEMENTATIONS)
class TestUserSides:
    """One suite for all of them."""

    def test_the_sum_is_that_of_clipped_and_weighed_updates(
        self, collect: Callable[[Words], BoundedSum], tolerance: float
    ) -> None:
        """A user whose update is not finite, and a user without data, count as nobody."""
        found = collect(EVERYBODY)
        rows = TABLE[[SHORT, NEAR, LONG]].astype(np.float64)
        rows *= np.minimum(1, NORMS.clip / np.linalg.norm(rows, axis=1, keepdims=True))
        np.testing.assert_allclose(flat(found), WEIGHT * rows.sum(axis=0) * HEADROOM, atol=tolerance)
        assert float(found.blocks["weight"].total) == pytest.approx(3 * WEIGHT * HEADROOM, abs=tolerance)
        assert float(found.blocks["within"].total) == pytest.approx((0.5 - 0.5 - 0.5) * HEADROOM, abs=tolerance)

    def test_no_user_moves_a_block_by_more_than_its_bound(
        self, collect: Callable[[Words], BoundedSum], tolerance: float
    ) -> None:
        whole = collect(EVERYBODY)
        assert (whole.blocks["weight"].bound, whole.blocks["within"].bound) == (1.0, 0.5)
        assert whole.blocks["update"].bound == pytest.approx(NORMS.clip, rel=1e-3)
        for user in range(len(EVERYBODY)):
            # Absent, not removed: secure sums round by place.
            rest = collect([None if number == user else word for number, word in enumerate(EVERYBODY)])
            assert np.linalg.norm(flat(whole) - flat(rest)) <= whole.blocks["update"].bound
            for name in ("weight", "within"):
                moved = abs(float(whole.blocks[name].total) - float(rest.blocks[name].total))
                assert moved <= whole.blocks[name].bound

    def test_the_order_of_users_does_not_matter(self, collect: Callable[[Words], BoundedSum], tolerance: float) -> None:
        np.testing.assert_allclose(flat(collect(EVERYBODY)), flat(collect(EVERYBODY[::-1])), atol=2 * tolerance)

    def test_nobody_leaves_nothing(self, collect: Callable[[Words], BoundedSum], tolerance: float) -> None:
        for nobody in ([], [None, None]):
            found = collect(nobody)
            assert not flat(found).any()
            assert float(found.blocks["weight"].total) == float(found.blocks["within"].total) == 0

    def test_the_sum_is_float64_of_the_models_shapes(
        self, collect: Callable[[Words], BoundedSum], tolerance: float
    ) -> None:
        found = collect(EVERYBODY).blocks["update"].total
        assert jax.tree.map(jnp.shape, found) == jax.tree.map(jnp.shape, TEMPLATE)
        assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {np.dtype("float64")}


def test_no_users_side_is_forgotten() -> None:
    other = {"_FleetCollector"}  # of metrics
    assert {each[0].__name__ for each in IMPLEMENTATIONS.values()} == implementations(UserSide, other_than=other)
