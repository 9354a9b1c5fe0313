"""Pace steering: the server tells a device it does not need when to come back (Production, sections IV and V).

A server that rejects devices without a waiting time gets millions of requests every minute; one that sends them away for a day
finds no device for the next round. So it answers with a random waiting time around a mean that follows the load: longer after a
round in which many more devices called than were needed, shorter after a round that had to wait for devices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SHORTEST_WAIT_S, LONGEST_WAIT_S = 60, 7_200
# Check-ins a round should see for each device it takes: below 1 rounds starve, far above it devices call in vain.
WANTED_CALLS = 2.0
ROUND_MEMORY = 0.9


@dataclass(frozen=True)
class Pace:
    """The mean waiting time of devices that are sent away, and the recent duration of rounds."""

    wait_s: float = 600.0
    round_s: float = 300.0

    def after_round(self, check_ins: int, wanted: int, took_s: int) -> Pace:
        """The pace after a round: at most doubled or halved, so that one unusual round changes it little."""
        load = min(max(check_ins / (WANTED_CALLS * wanted), 0.5), 2.0)
        return Pace(
            min(max(self.wait_s * load, SHORTEST_WAIT_S), LONGEST_WAIT_S),
            ROUND_MEMORY * self.round_s + (1 - ROUND_MEMORY) * took_s,
        )

    def waits(self, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Waiting times in seconds, spread so that devices sent away together do not come back together."""
        return np.ceil(self.wait_s * generator.uniform(0.5, 1.5, count)).astype(np.int64)

    def waits_for_rounds(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        """Waiting times for devices that come so many rounds too early: about as long as those rounds will take."""
        return self.waits(len(rounds), generator) + np.ceil(self.round_s * rounds).astype(np.int64)
