"""Pace steering: how long a device should wait before its next check-in (Production, section IV).

If N devices each wait W seconds, a round that takes T seconds gets N·T/W check-ins. W is chosen so that a round gets
`WANTED_CALLS` check-ins for each of its places. In a large population these are spread evenly over time. In a small one all
devices are told to come at the same time, so that there are enough at once to fill a round. N is the highest device number and
T the mean over the last rounds; both come from the database, so all processes compute the same pace.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.privacy.participation.pace import LONGEST_WAIT_S, WANTED_CALLS

SHORTEST_WAIT_S = 1.0
# The assumed duration of a round, until two rounds have been opened.
FIRST_ROUND_S = 10.0
# Without a task, all devices together check in at most this often, and one device waits at least this long.
IDLE_CALLS_PER_S, IDLE_WAIT_S = 100.0, 5.0


@dataclass(frozen=True)
class CheckInPace:
    """How long a task's rounds take, how long devices wait between check-ins, and whether they come all at once."""

    round_s: float
    wait_s: float
    gathers: bool

    def come_back_s(self, rounds_early: int, *, now: float, draw: random.Random) -> float:
        """Seconds that a device should wait if its next round is `rounds_early` rounds away."""
        early = rounds_early * self.round_s
        if self.gathers:
            tick = math.floor((now + early) / self.wait_s + 1) * self.wait_s
            wait = tick - now + 0.1 * self.wait_s * draw.random()
        else:
            wait = early + self.wait_s * draw.uniform(0.5, 1.5)
        return min(wait, LONGEST_WAIT_S)


def check_in_pace(recent: Sequence[tuple[float, int]], known: int, goal: int) -> CheckInPace:
    """The pace of a task from its last rounds, newest first, as (opened_at, places), and the number of known devices."""
    round_s, wanted = FIRST_ROUND_S, WANTED_CALLS * goal
    if len(recent) > 1:
        round_s = max((recent[0][0] - recent[-1][0]) / (len(recent) - 1), SHORTEST_WAIT_S)
        # A round's places are reduced when its selection ends early, so the largest of the last rounds is used.
        wanted = WANTED_CALLS * max(1, *(places for _, places in recent))
    return CheckInPace(round_s, max(known * round_s / wanted, SHORTEST_WAIT_S), gathers=known <= wanted)


def idle_wait_s(known: int, *, draw: random.Random) -> float:
    """Seconds that a device should wait when there is no task."""
    return min(max(known / IDLE_CALLS_PER_S, IDLE_WAIT_S) * draw.uniform(0.5, 1.5), LONGEST_WAIT_S)
