"""The check of a report's norm: the server computes it again, in float64, and refuses an update above the round's clip norm.

A device clips in float64 and sends float32, so each entry is off by at most 2⁻²⁴ of its value. Norms up to SLACK times the clip
norm are therefore accepted, and then clipped here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.errors import FleetError

SLACK = 1 + 2.0**-20


def clipped_report(
    update: NDArray[np.float32], *, clip_norm: float, shapes: Sequence[tuple[int, ...]], per_layer: bool
) -> NDArray[np.float64]:
    """The update in float64, with a norm of at most `clip_norm`; FleetError if the device has not clipped it.

    With `per_layer` the bound holds for each of the m arrays: clip_norm / √m.
    """
    vector = update.astype(np.float64)
    if not math.isfinite(clip_norm):
        return vector
    bound = clip_norm / math.sqrt(len(shapes)) if per_layer else clip_norm
    start = 0
    for size in sizes_of(shapes) if per_layer else [len(vector)]:
        part = vector[start : start + size]
        norm = float(np.linalg.norm(part))
        if not norm <= bound * SLACK:
            raise FleetError("The update is longer than the round's clip norm.")
        if norm > bound:
            part *= bound / norm
        start += size
    return vector


def sizes_of(shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """The number of entries of each array."""
    return [math.prod(shape) for shape in shapes]
