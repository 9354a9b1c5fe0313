"""MinS and MaxP once more: a settled cohort is checked against the run's own record of who took part.

Places are given by the database (`selection.py`). A database can forget while a run goes on, because it was restored from a
backup or a replica that lagged behind took over. The coordinator has the run's own record, so it checks again before a cohort
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tacit.fleet.database.participation_table import Recorded, live


class ParticipationCheck:
    """When each device last took part, and how often, in the `rounds_done` rounds that the model is made of.

    `recorded` reads the run's whole record, by (round, attempt).
    """

    def __init__(
        self, recorded: Callable[[], Recorded], rounds_done: int, *, min_separation: int, max_participation: int
    ) -> None:
        self._recorded = recorded
        self._min_separation, self._max_participation = min_separation, max_participation
        # Indexed by the device's number.
        self._last, self._times = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for (round, _), devices in self.before(rounds_done).items():
            self.add(round, devices)

    def before(self, round: int) -> Recorded:
        """The attempts at earlier rounds that count, as the run's record has them."""
        return live(self._recorded(), round)

    def add(self, round: int, devices: Sequence[int]) -> None:
        """Count that these devices took part in this round."""
        numbers = self._with_room_for(devices)
        self._last[numbers] = np.maximum(self._last[numbers], round)
        self._times[numbers] += 1

    def allows(self, round: int, devices: Sequence[int]) -> bool:
        """Whether MinS and MaxP allow every one of these devices in this round."""
        numbers = self._with_room_for(devices)
        waited = (self._times[numbers] == 0) | (round - self._last[numbers] > self._min_separation)
        return bool((waited & (self._times[numbers] < self._max_participation)).all())

    def _with_room_for(self, devices: Sequence[int]) -> np.ndarray:
        """The devices' numbers as an array, after the counts have grown to hold them."""
        numbers = np.asarray(devices, np.int64)
        missing = max(0, int(numbers.max(initial=-1)) + 1 - len(self._times))
        self._last, self._times = np.pad(self._last, (0, missing)), np.pad(self._times, (0, missing))
        return numbers
