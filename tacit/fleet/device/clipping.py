"""Clip, weight and bit: what `tacit.privacy.gate.sums` does to a simulated user's update, as a device's own code, in float64.

π(Δ, S) = Δ · min(1, S/‖Δ‖), over all arrays together ("flat") or over each with S/√m ("per_layer"). The bit of adaptive
clipping compares the norm before clipping.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.fleet.wire.messages import Task
from tacit.privacy.gate.rounding import LARGEST_NORM


@dataclass(frozen=True)
class Contribution:
    """What a device gives to a round: its update, flat and clipped but not weighed; its weight; +1 or -1, or 0 for no bit."""

    update: NDArray[np.float64]
    weight: float
    within: int


def contribution_of(
    update: Sequence[NDArray[np.float32]], predictions: int, task: Task, *, clip_norm: float, threshold: float | None
) -> Contribution:
    """An update that is not finite, or above `LARGEST_NORM`, counts as nothing, as in simulation.

    The device takes part all the same: to stay away would let what its user wrote decide who is in the round.
    """
    parts = [np.asarray(leaf, np.float64).ravel() for leaf in update]
    norms = [float(np.sqrt(np.sum(np.square(part)))) for part in parts]
    norm = math.hypot(*norms)
    if not norm <= LARGEST_NORM:  # nan is not ≤ anything
        return Contribution(np.zeros(sum(map(len, parts))), 0.0, 0 if threshold is None else -1)
    if task.clipping == "flat":
        scales = [_scale(norm, clip_norm)] * len(parts)
    else:
        scales = [_scale(each, clip_norm / math.sqrt(len(parts))) for each in norms]
    clipped = np.concatenate([part * scale for part, scale in zip(parts, scales, strict=True)])
    within = 0 if threshold is None else 1 if norm <= threshold else -1
    return Contribution(clipped, _weight(predictions, task.example_cap), within)


def _scale(norm: float, bound: float) -> float:
    return bound / norm if norm > bound else 1.0


def _weight(predictions: int, cap: float | None) -> float:
    """min(n/cap, 1), or whether there is anything; in float32, as in simulation."""
    return float(np.float32(min(predictions / cap, 1.0) if cap is not None else predictions > 0))
