"""The next check-in of every device: a calendar queue in buckets of five minutes.

Every device has at most one entry, its next check-in. An entry is one 64-bit key with the time in the high bits and the device
number in the low bits, so sorting keys sorts by time and breaks ties by device. The order does not depend on the order of
insertion, and the keys alone restore the queue. A round only touches the buckets of its duration.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from tacit.simulation.population.habits import Devices, Seconds

DEVICE_BITS = 26
MOST_DEVICES = 1 << DEVICE_BITS
LATEST_S = (1 << (63 - DEVICE_BITS)) - 1  # four thousand years
BUCKET_S = 300

Keys = NDArray[np.int64]


class CheckInQueue:
    """The next check-in of each device: `add` check-ins, `peek` at those that are due, `take` those that were handled."""

    def __init__(self) -> None:
        self._buckets: dict[int, list[Keys]] = {}
        self._order: list[int] = []  # a heap of the buckets' numbers
        self._due: Keys = np.empty(0, np.int64)  # sorted: everything up to the end of bucket `_opened`
        self._opened = -1
        self._added: list[Keys] = []  # to be merged into `_due`

    def add(self, devices: Devices, at_s: Seconds) -> None:
        """Add the next check-ins of devices that have none in the queue."""
        if not devices.size:
            return
        keys = (at_s << DEVICE_BITS) | devices
        keys.sort()
        buckets = (keys >> DEVICE_BITS) // BUCKET_S
        starts = np.flatnonzero(np.diff(buckets, prepend=-2))
        for start, stop in zip(starts, [*starts[1:], len(keys)], strict=True):
            # A copy: a slice would keep all of `keys` in memory until its last device has checked in.
            self._enter(int(buckets[start]), keys[start:stop].copy())

    def _enter(self, bucket: int, keys: Keys) -> None:
        if bucket <= self._opened:
            self._added.append(keys)
        elif bucket in self._buckets:
            self._buckets[bucket].append(keys)
        else:
            self._buckets[bucket] = [keys]
            heapq.heappush(self._order, bucket)

    def peek(self, before_s: int) -> tuple[Devices, Seconds, int]:
        """All check-ins before a time T ≤ before_s, in order, and T. There are none only if none are left before `before_s`."""
        if self._added:
            self._due = np.concatenate([self._due, *self._added])
            self._due.sort()
            self._added = []
        while not self._due.size and self._order and self._order[0] * BUCKET_S < before_s:
            self._opened = heapq.heappop(self._order)
            self._due = np.concatenate(self._buckets.pop(self._opened))
            self._due.sort()
        if not self._due.size:
            return self._due, self._due, before_s
        # Only the bucket of the first entry, even if more buckets are open: the check-ins returned at once must depend on the
        # entries alone, or a restored simulation would draw its random numbers in another order.
        bucket = int(self._due[0] >> DEVICE_BITS) // BUCKET_S
        until = min((bucket + 1) * BUCKET_S, before_s)
        keys = self._due[: np.searchsorted(self._due, until << DEVICE_BITS)]
        return keys & (MOST_DEVICES - 1), keys >> DEVICE_BITS, until if keys.size else before_s

    def take(self, count: int) -> None:
        """Remove the first `count` check-ins of the last peek."""
        self._due = self._due[count:]

    def keys(self) -> Keys:
        """Every entry, sorted, for `restore`."""
        waiting = [part for parts in self._buckets.values() for part in parts]
        return np.sort(np.concatenate([self._due, *self._added, *waiting]))

    @classmethod
    def restore(cls, keys: Keys) -> CheckInQueue:
        """The queue with these entries."""
        queue = cls()
        queue.add(keys & (MOST_DEVICES - 1), keys >> DEVICE_BITS)
        return queue
