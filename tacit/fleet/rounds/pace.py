"""When devices should come back (Production, section IV).

If N devices each wait W, a round that takes T hears N·T/W calls; W is chosen so that it hears `WANTED_CALLS` for each of its
places. A large population is spread evenly over that time. A small one is gathered instead: everybody comes back at the same
tick of the server's clock, so that enough are there at once to fill a round. N is the highest number given out, T the mean of
the last rounds, so processes that share a database agree without a word.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.privacy.participation.pace import LONGEST_WAIT_S, WANTED_CALLS

SHORTEST_WAIT_S = 1.0
# Until two rounds have been opened nobody knows how long one takes.
FIRST_ROUND_S = 10.0
# With nothing to do, devices still ask, all of them together at most so often.
IDLE_CALLS_PER_S, IDLE_WAIT_S = 100.0, 5.0


@dataclass(frozen=True)
class Tempo:
    """How long a task's rounds take, how long devices wait between calls, and whether they call all together."""

    round_s: float
    wait_s: float
    gathers: bool

    def come_back_s(self, rounds_early: int, *, now: float, draw: random.Random) -> float:
        """Seconds until a device that comes so many rounds too early should call again."""
        early = rounds_early * self.round_s
        if self.gathers:
            tick = math.floor((now + early) / self.wait_s + 1) * self.wait_s
            wait = tick - now + 0.1 * self.wait_s * draw.random()
        else:
            wait = early + self.wait_s * draw.uniform(0.5, 1.5)
        return min(wait, LONGEST_WAIT_S)


def tempo(recent: Sequence[tuple[float, int]], known: int, goal: int) -> Tempo:
    """From when a task's last rounds were opened, with how many places, newest first; and the number of devices."""
    round_s, wanted = FIRST_ROUND_S, WANTED_CALLS * goal
    if len(recent) > 1:
        round_s = max((recent[0][0] - recent[-1][0]) / (len(recent) - 1), SHORTEST_WAIT_S)
        # Places shrink when a selection ends early, so the fullest of the last rounds says how many are wanted.
        wanted = WANTED_CALLS * max(1, *(places for _, places in recent))
    return Tempo(round_s, max(known * round_s / wanted, SHORTEST_WAIT_S), gathers=known <= wanted)


def idle_wait_s(known: int, *, draw: random.Random) -> float:
    """Seconds until a device should call again when there is no task at all."""
    return min(max(known / IDLE_CALLS_PER_S, IDLE_WAIT_S) * draw.uniform(0.5, 1.5), LONGEST_WAIT_S)
