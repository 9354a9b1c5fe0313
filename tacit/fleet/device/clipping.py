"""Clips an update and computes its weight and bit, in float64: what `tacit.privacy.gate.sums` does for a simulated user.

π(Δ, S) = Δ · min(1, S/‖Δ‖), over all arrays together ("flat") or over each of the m arrays with S/√m ("per_layer"). The bit
of adaptive clipping says whether the norm before clipping is within the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.fleet.wire.task import DeviceTask
from tacit.privacy.gate.rounding import LARGEST_NORM


@dataclass(frozen=True)
class Contribution:
    """A device's contribution to a round: its update, flat, clipped and not multiplied by its weight; its weight; its bit.

    The bit `within` is +1 or -1, or 0 without adaptive clipping.
    """

    update: NDArray[np.float64]
    weight: float
    within: int


def contribution_of(
    update: Sequence[NDArray[np.float32]],
    predictions: int,
    task: DeviceTask,
    *,
    clip_norm: float,
    threshold: float | None,
) -> Contribution:
    """The clipped contribution. An update that is not finite, or longer than `LARGEST_NORM`, counts as zero, as in simulation.

    The device takes part even then: if it stayed away, what its user wrote would decide who takes part.
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
    """min(n/cap, 1); without a cap, 1 if there are any examples and 0 otherwise. In float32, as in simulation."""
    return float(np.float32(min(predictions / cap, 1.0) if cap is not None else predictions > 0))
