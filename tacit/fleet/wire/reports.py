"""A device's report as bytes: its update, its weight, and the bit of adaptive clipping."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from tacit.errors import FleetError

# magic, round, weight, whether the norm was within the threshold (+1, -1; 0 without adaptive clipping), number of entries
_REPORT = struct.Struct("<4s16sdbQ")
_REPORT_MAGIC = b"TUP1"


def report_bytes(dimension: int) -> int:
    """The exact size of a report with this many entries."""
    return _REPORT.size + 4 * dimension


def pack_report(round_id: str, weight: float, within: int, update: NDArray[np.float32]) -> bytes:
    """A device's update as bytes: flat, clipped by the device, not multiplied by its weight."""
    head = _REPORT.pack(_REPORT_MAGIC, bytes.fromhex(round_id), weight, within, len(update))
    return head + update.astype("<f4", copy=False).tobytes()


def unpack_report(body: bytes | bytearray, round_id: str, dimension: int) -> tuple[float, int, NDArray[np.float32]]:
    """Weight, bit and update; FleetError unless the bytes are a complete, finite report of this round and size."""
    if len(body) != report_bytes(dimension):
        raise FleetError(f"Expected a report of {report_bytes(dimension)} bytes, got {len(body)}.")
    magic, of_round, weight, within, count = _REPORT.unpack_from(body)
    if magic != _REPORT_MAGIC or count != dimension:
        raise FleetError(f"The report is not in the format TUP1 with {dimension} entries.")
    if of_round.hex() != round_id:
        raise FleetError("The report is for another round.")
    if not 0 <= weight <= 1 or within not in (-1, 0, 1):  # false for nan, too
        raise FleetError("The report's weight is not from 0 to 1, or its bit is not -1, 0 or 1.")
    update = np.frombuffer(body, "<f4", offset=_REPORT.size)
    if not np.isfinite(update).all():
        raise FleetError("The report contains inf or nan.")
    return weight, within, update
