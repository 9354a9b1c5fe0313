"""The sum of the reports that one process has received, on the users' side of the gate.

This is what `privacy.gate.sums.Gate` is to a simulation, for reports that arrive as bytes. One report moves the sum by at most
the clip norm: `norm_check` clips it in float64, and it is scaled by `HEADROOM`, which is more than float64 can round off in the
sum of a cohort (`privacy.gate.rounding`). This module does not import JAX.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit.errors import FleetError
from tacit.fleet.rounds.norm_check import ClippedReport, clipped_report, sizes_of
from tacit.privacy.accounting.noise_split import BIT_BOUND
from tacit.privacy.gate.rounding import HEADROOM

_SUM = struct.Struct("<ddQQ")  # weight, bits, number of devices, number of entries


@dataclass
class PartialSum:
    """The sums of updates, weights and bits in one process and round, and the devices they come from."""

    clip_norm: float
    shapes: Sequence[tuple[int, ...]]
    per_layer: bool
    update: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.zeros(0))
    weight: float = field(repr=False, default=0.0)
    bits: float = field(repr=False, default=0.0)
    devices: list[int] = field(repr=False, default_factory=list)

    def __post_init__(self) -> None:
        if not len(self.update):
            self.update = np.zeros(sum(sizes_of(self.shapes)))

    def admit(self, device: int, update: NDArray[np.float32], weight: float, within: int) -> None:
        """Add a report. FleetError, and nothing is added, if its norm is above the clip norm or the device is in the sum."""
        self.add(device, self.clipped(update), weight, within)

    def clipped(self, update: NDArray[np.float32]) -> ClippedReport:
        """The update as it may be added. FleetError if its norm is above the clip norm; nothing is added yet."""
        return clipped_report(update, clip_norm=self.clip_norm, shapes=self.shapes, per_layer=self.per_layer)

    def add(self, device: int, clipped: ClippedReport, weight: float, within: int) -> None:
        """Add a report. FleetError, and nothing is added, if the device is in the sum."""
        if device in self.devices:
            raise FleetError("The device has already reported in this round.")
        clipped.add_to(self.update, weight * HEADROOM)
        self.weight += weight * HEADROOM
        if weight > 0:  # a device without examples gives no bit, as in simulation
            self.bits += within * BIT_BOUND * HEADROOM
        self.devices.append(device)

    def merge(self, other: PartialSum) -> None:
        """Add the sum of another process for the same round; FleetError if a device is in both."""
        if set(self.devices) & set(other.devices):
            raise FleetError("A device is in the sums of two processes.")
        self.update += other.update
        self.weight += other.weight
        self.bits += other.bits
        self.devices += other.devices


def pack_sum(found: PartialSum) -> bytes:
    """A partial sum as bytes. They are not encrypted: `wire.sealing.seal` them before they are sent."""
    head = _SUM.pack(found.weight, found.bits, len(found.devices), len(found.update))
    return head + np.asarray(found.devices, "<i8").tobytes() + found.update.astype("<f8", copy=False).tobytes()


def unpack_sum(content: bytes, like: PartialSum) -> PartialSum:
    """The inverse of `pack_sum`, for a sum of the same round as `like`; FleetError if the number of entries differs."""
    weight, bits, devices, entries = _SUM.unpack_from(content)
    if entries != len(like.update) or len(content) != _SUM.size + 8 * (devices + entries):
        raise FleetError(f"Expected a partial sum of {len(like.update)} entries, got {entries}.")
    named = np.frombuffer(content, "<i8", devices, _SUM.size)
    update = np.frombuffer(content, "<f8", entries, _SUM.size + 8 * devices)
    return PartialSum(like.clip_norm, like.shapes, like.per_layer, update.copy(), weight, bits, named.tolist())
