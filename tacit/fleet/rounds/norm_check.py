"""The check of a report's norm: the server computes it again, in float64, and refuses an update above the round's clip norm.

A device clips in float64 and sends float32, so each entry is off by at most 2⁻²⁴ of its value. Norms up to SLACK times the clip
norm are therefore accepted, and then clipped here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import FleetError

SLACK = 1 + 2.0**-20
# So many entries are widened at a time: they stay in a processor's cache, and their product is computed in one thread. For
# more, the library of linear algebra wakes a thread a core, and they wait for each other by spinning.
_PIECE = 8192


@dataclass(frozen=True)
class ClippedReport:
    """An update whose norm was checked: its entries as they came, and what clipping multiplies each part of them by."""

    update: NDArray[np.float32]
    parts: Sequence[tuple[int, int, float]]  # start, end, factor

    def add_to(self, total: NDArray[np.float64], scale: float) -> None:
        """Add the clipped update, times `scale`, in float64."""
        buffer = np.empty(_PIECE)
        for start, end, factor in self.parts:
            for some in _pieces(start, end):
                wide = buffer[: some.stop - some.start]
                wide[:] = self.update[some]
                if factor != 1:
                    wide *= factor
                wide *= scale
                total[some] += wide


def clipped_report(
    update: NDArray[np.float32], *, clip_norm: float, shapes: Sequence[tuple[int, ...]], per_layer: bool
) -> ClippedReport:
    """The update with a norm of at most `clip_norm`; FleetError if the device has not clipped it.

    With `per_layer` the bound holds for each of the m arrays: clip_norm / √m.
    """
    if not math.isfinite(clip_norm):
        return ClippedReport(update, [(0, len(update), 1.0)])
    bound = clip_norm / math.sqrt(len(shapes)) if per_layer else clip_norm
    start, parts = 0, []
    for size in sizes_of(shapes) if per_layer else [len(update)]:
        norm = _norm(update, start, start + size)
        if not norm <= bound * SLACK:
            raise FleetError("The update is longer than the round's clip norm.")
        parts.append((start, start + size, bound / norm if norm > bound else 1.0))
        start += size
    return ClippedReport(update, parts)


def _norm(update: NDArray[np.float32], start: int, end: int) -> float:
    """Of these entries, in float64."""
    buffer, squares = np.empty(_PIECE), []
    for some in _pieces(start, end):
        wide = buffer[: some.stop - some.start]
        wide[:] = update[some]
        squares.append(float(wide @ wide))
    return math.sqrt(math.fsum(squares))


def _pieces(start: int, end: int) -> Iterator[slice]:
    return (slice(begin, min(begin + _PIECE, end)) for begin in range(start, end, _PIECE))


def sizes_of(shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """The number of entries of each array."""
    return [math.prod(shape) for shape in shapes]
