"""Reports added up on the users' side of the gate: what `privacy.gate.sums.Gate` is to a simulation, for bytes that arrive.

One report moves the sum by at most the clip: its norm is computed in float64, a report above the bound is refused, and
whatever is taken is scaled by `HEADROOM`, which is more than float64 rounds off in the sum of a cohort
(`privacy.gate.rounding`). A device that clips in float64 and sends float32 is off by at most 2⁻²⁴ of each number, so `SLACK`
more than the clip is taken, and then clipped here. NumPy only: a process that adds up needs no JAX.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit.errors import FleetError
from tacit.privacy.accounting.noise_split import BIT_BOUND
from tacit.privacy.gate.rounding import HEADROOM

SLACK = 1 + 2.0**-20


@dataclass
class PartialSum:
    """What one process has added up for one round: the update, the weights, the bits, and whose they are."""

    clip_norm: float
    shapes: Sequence[tuple[int, ...]]
    per_layer: bool
    update: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.zeros(0))
    weight: float = field(repr=False, default=0.0)
    bits: float = field(repr=False, default=0.0)
    devices: list[int] = field(repr=False, default_factory=list)

    def __post_init__(self) -> None:
        if not len(self.update):
            self.update = np.zeros(sum(_sizes(self.shapes)))

    def admit(self, device: int, update: NDArray[np.float32], weight: float, within: int) -> None:
        """Add a report; FleetError, and nothing added, if it is longer than the clip allows or the device is there already."""
        if device in self.devices:
            raise FleetError("Expected one report of a device in a round, got another.")
        vector = update.astype(np.float64)
        scale = weight * HEADROOM
        if math.isfinite(self.clip_norm):
            bound = self.clip_norm / math.sqrt(len(self.shapes)) if self.per_layer else self.clip_norm
            start = 0
            for size in _sizes(self.shapes) if self.per_layer else [len(vector)]:
                part = vector[start : start + size]
                norm = float(np.linalg.norm(part))
                if not norm <= bound * SLACK:
                    raise FleetError(
                        "Expected an update that its device has clipped to the round's norm, got a longer one."
                    )
                if norm > bound:
                    part *= bound / norm
                start += size
        vector *= scale
        self.update += vector
        self.weight += scale
        if weight > 0:  # who has nothing to say gives no bit either, as in simulation
            self.bits += within * BIT_BOUND * HEADROOM
        self.devices.append(device)

    def merge(self, other: PartialSum) -> None:
        """Take over what another process has added up for the same round; FleetError if a device is in both."""
        if set(self.devices) & set(other.devices):
            raise FleetError("Expected every device in the sum of one process alone, got one in two.")
        self.update += other.update
        self.weight += other.weight
        self.bits += other.bits
        self.devices += other.devices


def _sizes(shapes: Sequence[tuple[int, ...]]) -> list[int]:
    return [math.prod(shape) for shape in shapes]
