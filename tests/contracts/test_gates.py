"""What every gate of a simulation promises: nobody moves a block by more than its bound, however users are let in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.privacy.gate.sums import HEADROOM, BoundedSum, ClipThresholds, Gate
from tacit.simulation.secure_gate import SecureGate
from tests.support.gate_sums import (
    SIZE,
    BuildGates,
    admit_rows,
    flat,
    plain_gates,
    require_counted_as_zero,
    secure_gates,
)
from tests.support.implementations import implementations

# Each gate, and how far rounding may move a sum of six users.
IMPLEMENTATIONS: dict[type, tuple[BuildGates, float]] = {Gate: (plain_gates, 1e-9), SecureGate: (secure_gates, 1e-5)}
NORMS = ClipThresholds(0.5, 0.3)
USERS = 6


def rows_of(seed: int = 0) -> np.ndarray:
    """Six updates: of a millionth of the clip norm, of half of it, a little and much above it, all in one entry, and zero."""
    rows = np.random.default_rng(seed).standard_normal((USERS, SIZE))
    rows[4] = np.eye(SIZE)[3]
    lengths = np.array([5e-7, 0.25, 0.51, 1e4, 1e9, 0.0])
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True) * lengths[:, None]).astype(np.float32)


WEIGHTS = np.array([1.0, 0.25, 1.0, 0.6, 1.0, 1.0], np.float32)


def clipped(row: np.ndarray, style: str) -> np.ndarray:
    """The update, clipped by the formula."""
    pieces = [row] if style == "flat" else [row[:6], row[6:]]
    bound = NORMS.clip / np.sqrt(len(pieces))
    lengths = [np.linalg.norm(piece.astype(np.float64)) for piece in pieces]
    return np.concatenate(
        [piece * min(1.0, bound / length) if length else piece for piece, length in zip(pieces, lengths, strict=True)]
    )


@pytest.mark.parametrize(
    ("build", "tolerance"), IMPLEMENTATIONS.values(), ids=[each.__name__ for each in IMPLEMENTATIONS]
)
class TestGates:
    """One suite for all gates."""

    def sum_of(
        self, build: BuildGates, rows: np.ndarray, weights: np.ndarray, present: Any = None, **style: Any
    ) -> BoundedSum:
        (gate,) = build(NORMS, **style)
        admit_rows(gate, rows, weights, present)
        return gate.close()

    @pytest.mark.parametrize("style", ["flat", "per_layer"])
    def test_the_sum_is_that_of_clipped_and_weighed_updates(
        self, build: BuildGates, tolerance: float, style: str
    ) -> None:
        rows = rows_of()
        found = self.sum_of(build, rows, WEIGHTS, style=style)
        expected = sum(weight * clipped(row, style) for row, weight in zip(rows, WEIGHTS, strict=True)) * HEADROOM
        np.testing.assert_allclose(flat(found), expected, atol=tolerance)
        assert float(found.blocks["weight"].total) == pytest.approx(WEIGHTS.sum() * HEADROOM, abs=tolerance)
        within = np.where(np.linalg.norm(rows.astype(np.float64), axis=1) <= NORMS.threshold, 0.5, -0.5)
        assert float(found.blocks["within"].total) == pytest.approx(within.sum() * HEADROOM, abs=1e-12)

    @pytest.mark.parametrize("style", ["flat", "per_layer"])
    def test_no_user_moves_a_block_by_more_than_its_bound(
        self, build: BuildGates, tolerance: float, style: str
    ) -> None:
        """Neither by a long update nor by a weight outside of 0 to 1."""
        rows, weights = rows_of(), np.array([1.0, -3.0, 1.0, 7.0, 1.0, 1.0], np.float32)
        whole = self.sum_of(build, rows, weights, style=style)
        for user in range(USERS):
            rest = self.sum_of(build, rows, weights, np.arange(USERS) != user, style=style)
            assert np.linalg.norm(flat(whole) - flat(rest)) <= whole.blocks["update"].bound
            for name in ("weight", "within"):
                moved = abs(float(whole.blocks[name].total) - float(rest.blocks[name].total))
                assert moved <= whole.blocks[name].bound
        assert whole.blocks["update"].bound == pytest.approx(NORMS.clip, rel=1e-3)
        assert (whole.blocks["weight"].bound, whole.blocks["within"].bound) == (1.0, 0.5)

    def test_the_blocks_are_those_that_were_asked_for(self, build: BuildGates, tolerance: float) -> None:
        for norms, weighted, names in (
            (ClipThresholds(0.5), False, {"update"}),
            (ClipThresholds(0.5), True, {"update", "weight"}),
            (NORMS, False, {"update", "within"}),
        ):
            (gate,) = build(norms, weighted=weighted)
            assert set(gate.close().blocks) == names

    def test_nobody_leaves_nothing(self, build: BuildGates, tolerance: float) -> None:
        (gate,) = build(NORMS)
        found = gate.close()
        assert not flat(found).any()
        assert float(found.blocks["weight"].total) == float(found.blocks["within"].total) == 0

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e13])
    def test_an_update_that_is_not_finite_or_far_too_long_counts_as_zero(
        self, build: BuildGates, tolerance: float, bad: float
    ) -> None:
        require_counted_as_zero(bad, build)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_a_weight_that_is_not_finite_counts_as_zero(self, build: BuildGates, tolerance: float, bad: float) -> None:
        require_counted_as_zero(bad, build, as_weight=True)

    def test_a_user_without_weight_gives_no_bit(self, build: BuildGates, tolerance: float) -> None:
        found = self.sum_of(build, rows_of(), np.zeros(USERS, np.float32))
        assert not flat(found).any()
        assert float(found.blocks["within"].total) == 0

    def test_several_gates_and_several_calls_add_up_to_one(self, build: BuildGates, tolerance: float) -> None:
        rows = rows_of()
        whole = self.sum_of(build, rows, WEIGHTS)
        gates = build(NORMS, 2)
        for gate, part in zip((*gates, gates[0]), (slice(0, 2), slice(2, 3), slice(3, 6)), strict=True):
            admit_rows(gate, rows[part], WEIGHTS[part])
        gates[0].merge(gates[1])
        found = gates[0].close()
        np.testing.assert_allclose(flat(found), flat(whole), atol=1e-12)
        for name in ("weight", "within"):
            assert float(found.blocks[name].total) == pytest.approx(float(whole.blocks[name].total), abs=1e-12)

    def test_diagnostics_are_of_each_user_before_clipping(self, build: BuildGates, tolerance: float) -> None:
        rows, present = rows_of(), np.arange(USERS) != 3
        (gate,) = build(NORMS)
        found = admit_rows(gate, rows, WEIGHTS, present)
        np.testing.assert_allclose(found.norms, np.linalg.norm(rows.astype(np.float64), axis=1), rtol=1e-6)
        assert np.asarray(found.clipped).tolist() == [False, False, True, False, True, False]
        assert np.asarray(found.present).tolist() == present.tolist()


def test_no_gate_is_forgotten() -> None:
    assert {each.__name__ for each in IMPLEMENTATIONS} == implementations(Gate)
