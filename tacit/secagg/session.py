"""The public constants of a round: the ring of neighbours, the threshold, the fewest devices, the vectors' size.

A session's `context` is the hash of all of it. Every key, signature and ciphertext of the round is bound to the context, so
that two devices that were told different constants cannot complete a single step together, and no message of one round can be
used in another.

Devices stand on a ring, in an order that `graph_seed` determines, and each is the neighbour of the `neighbours`/2 devices
before and after it. Two facts make the ring useful (`parameters.py` and docs/secagg.md use them): a device's neighbours are a
uniformly random set, so that exact tail bounds say how many of them can be corrupt or lost; and the remaining ring stays
connected unless `neighbours`/2 devices in a row are missing.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import cached_property

from tacit.errors import ProtocolError

ID_BYTES = 32
MOST_DEVICES = 1 << 24
MOST_BITS = 32
_LAYOUT = struct.Struct("<16s32s32sIIIIQB")
_LABEL = b"tacit secagg v1\0"


@dataclass(frozen=True)
class Session:
    """The public constants of one round.

    `session_id` is never used twice. `graph_seed` is public randomness; against a malicious server it must become known
    only after the roster (which identity key has which number) is fixed, from a source the server does not steer.
    `threshold` shares of `neighbours` recover a secret, and a device agrees to no set of fewer than `minimum` devices (what
    that says about sums, if the server is malicious, depends on the threshold: docs/secagg.md). Vectors have `dimension`
    entries modulo 2^`bits`.
    """

    session_id: bytes
    graph_seed: bytes
    devices: int
    neighbours: int
    threshold: int
    minimum: int
    dimension: int
    bits: int

    def __post_init__(self) -> None:
        _expect(len(self.session_id) == ID_BYTES, "session_id", f"{len(self.session_id)} bytes", f"{ID_BYTES} bytes")
        _expect(len(self.graph_seed) == ID_BYTES, "graph_seed", f"{len(self.graph_seed)} bytes", f"{ID_BYTES} bytes")
        _expect(2 <= self.devices <= MOST_DEVICES, "devices", self.devices, f"2 to {MOST_DEVICES}")
        complete = self.neighbours == self.devices - 1
        even = self.neighbours % 2 == 0 and 2 <= self.neighbours < self.devices
        _expect(
            complete or even, "neighbours", self.neighbours, f"{self.devices - 1} (all), or an even number below it"
        )
        _expect(1 <= self.threshold <= self.neighbours, "threshold", self.threshold, f"1 to {self.neighbours}")
        _expect(2 <= self.minimum <= self.devices, "minimum", self.minimum, f"2 to {self.devices}")
        _expect(self.dimension >= 1, "dimension", self.dimension, "at least 1")
        _expect(1 <= self.bits <= MOST_BITS, "bits", self.bits, f"1 to {MOST_BITS}")

    @cached_property
    def context(self) -> bytes:
        """32 bytes that name this session and all its constants."""
        packed = _LAYOUT.pack(
            _LABEL,
            self.session_id,
            self.graph_seed,
            self.devices,
            self.neighbours,
            self.threshold,
            self.minimum,
            self.dimension,
            self.bits,
        )
        return hashlib.sha256(packed).digest()

    @cached_property
    def _ring(self) -> tuple[list[int], list[int]]:
        """Devices in ring order, and each device's place."""
        order = sorted(
            range(self.devices), key=lambda i: hashlib.sha256(self.graph_seed + i.to_bytes(4, "little")).digest()
        )
        places = [0] * self.devices
        for place, device in enumerate(order):
            places[device] = place
        return order, places

    def neighbours_of(self, device: int) -> tuple[int, ...]:
        """The neighbours of a device, in ascending order; being neighbours is mutual."""
        if self.neighbours == self.devices - 1:
            return tuple(other for other in range(self.devices) if other != device)
        order, places = self._ring
        reach = self.neighbours // 2
        steps = [step for step in range(-reach, reach + 1) if step != 0]
        return tuple(sorted(order[(places[device] + step) % self.devices] for step in steps))


def require_at_least(got: int, needed: int, what: str) -> None:
    """ProtocolError if there are fewer than needed."""
    if got < needed:
        raise ProtocolError(f"Expected at least {needed} {what}, got {got}.")


def _expect(holds: bool, field: str, value: object, right: str) -> None:
    if not holds:
        raise ProtocolError(f"Expected {field} to be {right}, got {value}.")
