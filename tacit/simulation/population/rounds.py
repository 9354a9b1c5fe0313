"""Simulate rounds on devices that check in when they are available (Gboard, section 2.2).

When a round opens, the server takes devices that check in, up to `wanted` of them, and they start to work at once. The round
closes with the report that completes the goal; later reports are discarded. While the server takes no devices, it tells them
when to come back (`privacy.participation.pace`). At night a round lasts as long as its slower devices; by day it waits for
devices.

Devices whose report is not used:

- A device drops out if it fails or if its window closes before it has reported. Its timer is not set, and it comes back when
  pace steering says.
- A device may report too late, or in a round that is abandoned. Its upload sets its timer, because the device cannot know.
  Nothing of it was released, so this is not a participation.
- A round is abandoned at its deadline, or as soon as so many devices have dropped out that the goal cannot be reached (the
  server
  sees their connections end). The next attempt uses the same round number.

The simulation holds about thirty bytes per device and does work only for devices that check in. It draws from one generator
of its own, so a seed determines everything; `arrays` and `restore` save and restore it exactly.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import RecipeError, RunError
from tacit.privacy.participation.limits import Gap
from tacit.privacy.participation.pace import Pace
from tacit.simulation.population.check_in_queue import CheckInQueue
from tacit.simulation.population.habits import DAY, MINUTE, Devices, Habits, Seconds, parse_zones
from tacit.simulation.population.settings import PopulationSettings

FIRST_CALL_SPREAD_S = 10 * MINUTE  # the latest check-in after a device's window opens
WORK_SPREAD = 0.25  # standard deviation of the log of one device's working time from day to day
PATIENCE_S = 28 * DAY

_BLOCK = 1 << 18  # devices per block in which first check-ins are drawn, so that a block fits the cache
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Counts:
    """The fate of the devices that checked in between the end of the previous round and the end of this one."""

    check_ins: int = 0
    sent_away: int = 0  # checked in while no device was needed
    refused: int = 0  # too early or too often for the limits that the server enforces
    taken: int = 0
    dropped_out: int = 0  # of the taken: the window closed, or the device failed
    late: int = 0  # of the taken: reported after the round was over

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)))


@dataclass(frozen=True)
class Reported:
    """One completed round: who reported, in ascending order, and when. Times are seconds of simulated UTC."""

    round: int
    users: NDArray[np.int64]
    started_s: int  # when the attempt that succeeded opened
    finished_s: int
    checked_in_s: Seconds  # of each user
    reported_s: Seconds  # of each user
    given_up: int  # earlier attempts at this round that missed the goal
    counts: Counts  # of all attempts


@dataclass(frozen=True)
class Realised:
    """The realised MinS and MaxP of released rounds; MinS is None if no device took part twice."""

    min_separation: Gap | None
    max_participation: int


@dataclass(frozen=True)
class _Taken:
    """The devices that a round has taken so far, and when and how each of them will end."""

    devices: Devices
    at_s: Seconds
    ends_s: Seconds
    reports: NDArray[np.bool_]

    def __getitem__(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> _Taken:
        return _Taken(self.devices[which], self.at_s[which], self.ends_s[which], self.reports[which])

    def __add__(self, other: _Taken) -> _Taken:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return _Taken(*(np.concatenate(pair) for pair in pairs))

    def closes_s(self, wanted: int, goal: int) -> int:
        """When the goal is reached, or when so many devices have dropped out that it cannot be; else never."""
        enough = _smallest(self.ends_s[self.reports], goal)
        return min(enough, _smallest(self.ends_s[~self.reports], wanted - goal + 1))


class Population:
    """Devices that check in, and the server's rounds; `next_round` advances the simulated time."""

    def __init__(
        self,
        settings: PopulationSettings,
        habits: Habits,
        queue: CheckInQueue,
        generator: np.random.Generator,
    ) -> None:
        self.settings, self.habits = settings, habits
        self.clock_s, self.round = 0, 0
        self._queue, self._generator = queue, generator
        self._pace = Pace()
        self._last_round = np.full(settings.devices, -1, np.int32)
        self._times = np.zeros(settings.devices, np.int32)
        self._closest: int | None = None

    @classmethod
    def create(cls, settings: PopulationSettings, generator: np.random.Generator) -> Population:
        """A population at midnight UTC of its first day, before the first round, seeded by the generator."""
        own = np.random.Generator(np.random.PCG64([int(word) for word in generator.integers(0, 2**32, size=8)]))
        habits = Habits.draw(settings.devices, parse_zones(settings.zones), own)
        population = cls(settings, habits, CheckInQueue(), own)
        for start in range(0, settings.devices, _BLOCK):
            devices = np.arange(start, min(start + _BLOCK, settings.devices), dtype=np.int64)
            population._will_check_in(devices, np.zeros_like(devices))
        return population

    @property
    def realised(self) -> Realised:
        """The exact MinS and MaxP of the rounds so far."""
        return Realised(None if self._closest is None else Gap(self._closest), int(self._times.max()))

    def rounds(self, count: int) -> Iterator[Reported]:
        """Run rounds until `count` of them are complete, including those before a restore."""
        self.settings.require_supply(count)
        while self.round < count:
            yield self.next_round()

    def next_round(self) -> Reported:
        """Run the next round, with as many attempts as it takes to reach the goal; RecipeError after PATIENCE_S."""
        given_up, counts, since = 0, Counts(), self.clock_s
        while True:
            started = self.clock_s
            used, closed, attempt = self._attempt()
            counts += attempt
            self._pace = self._pace.after_round(attempt.check_ins, self.settings.wanted, self.clock_s - started)
            if used is not None:
                break
            given_up += 1
            if self.clock_s - since > PATIENCE_S:
                raise RecipeError(
                    f"Round {self.round + 1} missed its goal for {PATIENCE_S // DAY} simulated days, with a report_goal of "
                    f"{self.settings.report_goal} from {self.settings.devices} devices and timer_hours "
                    f"{self.settings.timer_hours:g}.",
                    hint="Lower report_goal, shorten timer_hours or allow more deadline_hours.",
                )
        self.remember(used.devices)
        return Reported(
            self.round - 1, used.devices, started, closed, used.at_s, used.ends_s, given_up=given_up, counts=counts
        )

    def remember(self, users: Devices) -> None:
        """Count one released round in MinS, MaxP and the limits that the server enforces.

        A run that resumes without the population's `arrays` calls this for its earlier rounds; the timers that those rounds
        set are then unknown.
        """
        last = self._last_round[users]
        between = self.round - last[last >= 0] - 1
        if between.size:
            closest = int(between.min())
            self._closest = closest if self._closest is None else min(self._closest, closest)
        self._last_round[users] = self.round
        self._times[users] += 1
        self.round += 1

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The complete state of the simulation; call it between rounds."""
        state = {
            "clock_s": self.clock_s,
            "round": self.round,
            "pace": dataclasses.asdict(self._pace),
            "closest": self._closest,
            "generator": self._generator.bit_generator.state,
            "seed": int(self.habits.seed),
        }
        habits = {f"habits.{name}": value for name, value in vars(self.habits).items() if name != "seed"}
        return {
            "state": np.frombuffer(json.dumps(state).encode(), np.uint8),
            "check_ins": self._queue.keys(),
            "last_round": self._last_round.copy(),
            "times": self._times.copy(),
            **habits,
        }

    @classmethod
    def restore(cls, settings: PopulationSettings, arrays: Mapping[str, NDArray[np.generic]]) -> Population:
        """The population with these `arrays`; its next rounds are the same as the original's."""
        there = len(arrays["last_round"])
        if there != settings.devices:
            raise RunError(f"Expected a saved population of {settings.devices} devices, got {there}.")
        state = json.loads(arrays["state"].tobytes())
        habits = {name.removeprefix("habits."): value for name, value in arrays.items() if name.startswith("habits.")}
        generator = np.random.Generator(np.random.PCG64())
        generator.bit_generator.state = state["generator"]
        queue = CheckInQueue.restore(arrays["check_ins"].astype(np.int64))
        population = cls(settings, Habits(seed=np.uint64(state["seed"]), **habits), queue, generator)  # type: ignore[arg-type]
        population.clock_s, population.round = state["clock_s"], state["round"]
        population._pace, population._closest = Pace(**state["pace"]), state["closest"]
        population._last_round = arrays["last_round"].astype(np.int32)
        population._times = arrays["times"].astype(np.int32)
        return population

    def _attempt(self) -> tuple[_Taken | None, int, Counts]:
        """One attempt: the devices whose reports were used (None if it was abandoned), when it closed, and the counts."""
        wanted, goal = self.settings.wanted, self.settings.report_goal
        deadline = self.clock_s + self.settings.deadline_s
        nobody = np.empty(0, np.int64)
        taken = _Taken(nobody, nobody, nobody, np.empty(0, np.bool_))
        calls = refused = 0
        while True:
            callers, at_s, until = self._queue.peek(deadline)
            chosen = np.flatnonzero(self._welcome(callers))[: wanted - len(taken.devices)]
            full = len(taken.devices) + len(chosen) == wanted
            heard = int(chosen[-1]) + 1 if full else len(callers)
            so_far = taken + self._work(callers[chosen], at_s[chosen])
            # All check-ins before `close` have been seen by now, and later ones cannot make the round close sooner.
            close = so_far.closes_s(wanted, goal)
            over = full or close <= until or until == deadline
            close = min(close, deadline)
            if over:
                heard = min(heard, int(np.searchsorted(at_s, close)))
                so_far = so_far[so_far.at_s < close]
            taken = so_far
            unwelcome = np.setdiff1d(np.arange(heard), chosen)
            self._queue.take(heard)
            self._send_away(callers[unwelcome], at_s[unwelcome])
            calls, refused = calls + heard, refused + len(unwelcome)
            if over:
                break
        reporters = taken.reports & (taken.ends_s <= close)
        complete = np.count_nonzero(reporters) >= goal
        used = None
        if complete:
            first = np.argsort(np.where(reporters, taken.ends_s, _NEVER), kind="stable")[:goal]
            used = taken[first[np.argsort(taken.devices[first])]]
        self.clock_s = close + self.settings.server_seconds
        sent_away, turned_down = self._turn_away_until(self.clock_s)
        self._rest(taken)
        reports = int(np.count_nonzero(taken.reports))
        return (
            used,
            close,
            Counts(
                check_ins=calls + sent_away + turned_down,
                sent_away=sent_away,
                refused=refused + turned_down,
                taken=len(taken.devices),
                dropped_out=len(taken.devices) - reports,
                late=reports - (goal if complete else 0),
            ),
        )

    def _work(self, devices: Devices, at_s: Seconds) -> _Taken:
        """When and how the work of these devices ends: with a report, a failure, or the end of the window."""
        _, closes = self.habits.next_window(devices, at_s)
        median = self.settings.work_minutes * MINUTE / 32 * self.habits.slowness[devices]
        takes = np.ceil(median * np.exp(WORK_SPREAD * self._generator.standard_normal(len(devices)))).astype(np.int64)
        fails = self._generator.random(len(devices)) < self.settings.drop_out
        lasts = np.where(fails, np.ceil(takes * self._generator.random(len(devices))).astype(np.int64), takes)
        ends = np.minimum(at_s + lasts, closes)
        return _Taken(devices, at_s, ends, ~fails & (ends < closes))

    def _rest(self, taken: _Taken) -> None:
        """Schedule the next check-ins: after the timer for devices that reported, after the server's wait for dropouts."""
        waits = np.where(taken.reports, self.settings.timer_s, self._pace.waits(len(taken.devices), self._generator))
        # No device comes back to the round it was in, whatever its timer: the server would refuse it.
        self._will_check_in(taken.devices, np.maximum(taken.ends_s + waits, self.clock_s))

    def _turn_away_until(self, until: int) -> tuple[int, int]:
        """Send away every device that checks in before `until`; returns how many were within the limits, and how many not."""
        sent = refused = 0
        while True:
            callers, at_s, _ = self._queue.peek(until)
            if not callers.size:
                return sent, refused
            self._queue.take(len(callers))
            welcome = np.count_nonzero(self._welcome(callers))
            sent, refused = sent + int(welcome), refused + len(callers) - int(welcome)
            self._send_away(callers, at_s)

    def _send_away(self, devices: Devices, at_s: Seconds) -> None:
        """Tell devices when to come back; devices that have reached MaxP never do."""
        if self.settings.max_participation is not None:
            stays = self._times[devices] < self.settings.max_participation
            devices, at_s = devices[stays], at_s[stays]
        waits = self._pace.waits_for_rounds(self._rounds_early(devices), self._generator)
        self._will_check_in(devices, at_s + waits)

    def _will_check_in(self, devices: Devices, earliest: Seconds) -> None:
        """Queue each device's next check-in: in the first window that is open at `earliest` or later."""
        opens, closes = self.habits.next_window(devices, earliest)
        spread = np.minimum(closes - opens, FIRST_CALL_SPREAD_S)
        first = opens + (spread * self._generator.random(len(devices))).astype(np.int64)
        self._queue.add(devices, np.maximum(earliest, first))

    def _welcome(self, devices: Devices) -> NDArray[np.bool_]:
        """Which devices may take part in this round under the limits that the server enforces."""
        welcome = self._rounds_early(devices) == 0
        if self.settings.max_participation is not None:
            welcome &= self._times[devices] < self.settings.max_participation
        return welcome

    def _rounds_early(self, devices: Devices) -> NDArray[np.int64]:
        """The number of rounds by which each device is too early for the enforced MinS; 0 if it is not."""
        if self.settings.min_separation is None:
            return np.zeros(len(devices), np.int64)
        last = self._last_round[devices].astype(np.int64)
        return np.where(last < 0, 0, np.maximum(self.settings.min_separation - (self.round - last - 1), 0))


def _smallest(values: Seconds, rank: int) -> int:
    """The value of this rank, counted from 1; `_NEVER` if there are fewer values."""
    return int(np.partition(values, rank - 1)[rank - 1]) if len(values) >= rank else _NEVER
