"""Who took part when, by the run's own record: the database is held against it.

Places are given by what the database says (`selection.py`). A database can forget while a run goes on: it was put back to an
earlier hour, or a copy that was a little behind took over. The coordinator has the ledger's own record, so it looks again
before a cohort counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

Recorded = Mapping[tuple[int, int], Sequence[int]]


class Attendance:
    """When each device took part last, and how often. `recorded` reads the whole record, by (round, attempt)."""

    def __init__(self, recorded: Callable[[], Recorded], *, min_separation: int, max_participation: int) -> None:
        self.recorded = recorded
        self._min_separation, self._max_participation = min_separation, max_participation
        # By number.
        self._last, self._times = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for (round, _), devices in recorded().items():
            self.add(round, devices)

    def add(self, round: int, devices: Sequence[int]) -> None:
        """These have taken part."""
        numbers = self._known(devices)
        self._last[numbers] = np.maximum(self._last[numbers], round)
        self._times[numbers] += 1

    def allows(self, round: int, devices: Sequence[int]) -> bool:
        """Whether every one of these has waited long enough for this round, and was there less often than it may be."""
        numbers = self._known(devices)
        waited = (self._times[numbers] == 0) | (round - self._last[numbers] > self._min_separation)
        return bool((waited & (self._times[numbers] < self._max_participation)).all())

    def _known(self, devices: Sequence[int]) -> np.ndarray:
        """Their numbers, with room for each."""
        numbers = np.asarray(devices, np.int64)
        missing = max(0, int(numbers.max(initial=-1)) + 1 - len(self._times))
        self._last, self._times = np.pad(self._last, (0, missing)), np.pad(self._times, (0, missing))
        return numbers
