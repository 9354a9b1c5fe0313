"""Participation as it is: devices check in when they can, and a round takes the time it takes (Gboard, section 2.2).

A round opens; devices that check in are taken, up to `wanted` of them, and start to work at once on the round's model. It
closes with the report that completes the goal; later reports are thrown away. While it does not take devices the server
sends them away with a time to come back (`pace.py`). At night a round lasts as long as the slower of its devices; at noon
it waits for devices.

What happens to those who do not make it:

- A device whose window closes before it has reported, or that fails, drops out. It has reported nothing, so its timer is
  not set, and it comes back as pace steering says.
- A device that reports too late, or in a round that is then given up, has done its part as far as it can know: the timer is
  the device's own, and is set by its upload. Nothing of it was released, so it counts as no participation.
- A round is given up at its deadline, or as soon as too many devices have dropped out for the goal to be reached: the
  server sees their connections end. Its number is used again by the next attempt.

The simulation holds about thirty bytes a device and does work only for devices that check in. It draws from one generator
of its own, so a seed determines everything; `arrays` and `restore` carry it over a kill, and it goes on as if nothing had
happened.
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

FIRST_CALL_SPREAD_S = 10 * MINUTE  # a device checks in this soon after its window opens, at the latest
WORK_SPREAD = 0.25  # of the logarithm of how long one device takes from day to day
PATIENCE_S = 28 * DAY

_BLOCK = 1 << 18  # devices are given their first check-in in blocks that fit the cache
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Counts:
    """What became of the devices that called between the end of the round before and the end of this one."""

    check_ins: int = 0
    sent_away: int = 0  # came while no device was needed
    refused: int = 0  # came too early or too often for the limits the server enforces
    taken: int = 0
    dropped_out: int = 0  # of the taken: the window closed, or the device failed
    late: int = 0  # of the taken: reported for nothing, after the round was over

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
    given_up: int  # attempts at this round that missed the goal before
    counts: Counts  # of all attempts


@dataclass(frozen=True)
class Realised:
    """How often devices took part in released rounds, and how close together; None if nobody took part twice."""

    min_separation: Gap | None
    max_participation: int


@dataclass(frozen=True)
class _Taken:
    """The devices a round has taken so far, and how each of them will end."""

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
        """When the goal's last report comes, or when more have dropped out than the goal can spare; else never."""
        enough = _smallest(self.ends_s[self.reports], goal)
        return min(enough, _smallest(self.ends_s[~self.reports], wanted - goal + 1))


class Population:
    """Devices that check in, and the server's rounds; `next_round` moves the simulated time."""

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
        """A population at midnight UTC of its first day, before the first round; the generator seeds all of it."""
        own = np.random.Generator(np.random.PCG64([int(word) for word in generator.integers(0, 2**32, size=8)]))
        habits = Habits.draw(settings.devices, parse_zones(settings.zones), own)
        population = cls(settings, habits, CheckInQueue(), own)
        for start in range(0, settings.devices, _BLOCK):
            devices = np.arange(start, min(start + _BLOCK, settings.devices), dtype=np.int64)
            population._will_check_in(devices, np.zeros_like(devices))
        return population

    @property
    def realised(self) -> Realised:
        """MinS and MaxP of the rounds so far, exactly."""
        return Realised(None if self._closest is None else Gap(self._closest), int(self._times.max()))

    def rounds(self, count: int) -> Iterator[Reported]:
        """Rounds until `count` of them are complete, those before a restore included."""
        self.settings.require_supply(count)
        while self.round < count:
            yield self.next_round()

    def next_round(self) -> Reported:
        """The next round that reaches its goal, after as many attempts as it takes."""
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
                    f"Expected a report goal and a timer under which rounds complete, got a report_goal of "
                    f"{self.settings.report_goal} from {self.settings.devices} devices with timer_hours "
                    f"{self.settings.timer_hours:g}: round {self.round + 1} missed its goal for "
                    f"{PATIENCE_S // DAY} simulated days.",
                    hint="Lower report_goal, shorten timer_hours or allow more deadline_hours.",
                )
        self.remember(used.devices)
        return Reported(
            self.round - 1, used.devices, started, closed, used.at_s, used.ends_s, given_up=given_up, counts=counts
        )

    def remember(self, users: Devices) -> None:
        """Enter one released round into MinS and MaxP, and into the limits that the server enforces.

        Also for rounds released before this population began, when a run goes on without its `arrays`; the timers those
        rounds have set are then not known.
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
        """Everything the simulation needs to go on from here; taken between rounds."""
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
        """The population whose `arrays` these are; its next rounds are those the original would have had."""
        there = len(arrays["last_round"])
        if there != settings.devices:
            raise RunError(f"Expected a saved population of {settings.devices} devices, got one of {there}.")
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
        """One attempt: whose reports were used (None if it was given up), when it closed, and what became of the callers."""
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
            # Every call before `close` has been heard by now, and later ones cannot make the round close sooner.
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
        """How the work of devices taken at these times will end: in a report, in a failure, or with the window."""
        _, closes = self.habits.next_window(devices, at_s)
        median = self.settings.work_minutes * MINUTE / 32 * self.habits.slowness[devices]
        takes = np.ceil(median * np.exp(WORK_SPREAD * self._generator.standard_normal(len(devices)))).astype(np.int64)
        fails = self._generator.random(len(devices)) < self.settings.drop_out
        lasts = np.where(fails, np.ceil(takes * self._generator.random(len(devices))).astype(np.int64), takes)
        ends = np.minimum(at_s + lasts, closes)
        return _Taken(devices, at_s, ends, ~fails & (ends < closes))

    def _rest(self, taken: _Taken) -> None:
        """Devices that reported set their timers; those that dropped out come back when they are told to."""
        waits = np.where(taken.reports, self.settings.timer_s, self._pace.waits(len(taken.devices), self._generator))
        # Nobody comes back to the round it was in, whatever the timer: the server would refuse.
        self._will_check_in(taken.devices, np.maximum(taken.ends_s + waits, self.clock_s))

    def _turn_away_until(self, until: int) -> tuple[int, int]:
        """Send everybody away who calls before `until`; how many the pace has sent, and how many the limits."""
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
        """Tell devices when to come back; those that have taken part as often as they may never do."""
        if self.settings.max_participation is not None:
            stays = self._times[devices] < self.settings.max_participation
            devices, at_s = devices[stays], at_s[stays]
        waits = self._pace.waits_for_rounds(self._rounds_early(devices), self._generator)
        self._will_check_in(devices, at_s + waits)

    def _will_check_in(self, devices: Devices, earliest: Seconds) -> None:
        """Enter the first moment from `earliest` on at which each device is in a window."""
        opens, closes = self.habits.next_window(devices, earliest)
        spread = np.minimum(closes - opens, FIRST_CALL_SPREAD_S)
        first = opens + (spread * self._generator.random(len(devices))).astype(np.int64)
        self._queue.add(devices, np.maximum(earliest, first))

    def _welcome(self, devices: Devices) -> NDArray[np.bool_]:
        """Which devices the limits that the server enforces allow in this round."""
        welcome = self._rounds_early(devices) == 0
        if self.settings.max_participation is not None:
            welcome &= self._times[devices] < self.settings.max_participation
        return welcome

    def _rounds_early(self, devices: Devices) -> NDArray[np.int64]:
        """By how many rounds each device comes too early for the enforced separation; 0 if it does not."""
        if self.settings.min_separation is None:
            return np.zeros(len(devices), np.int64)
        last = self._last_round[devices].astype(np.int64)
        return np.where(last < 0, 0, np.maximum(self.settings.min_separation - (self.round - last - 1), 0))


def _smallest(values: Seconds, rank: int) -> int:
    """The value of this rank, counted from 1; never if there are fewer."""
    return int(np.partition(values, rank - 1)[rank - 1]) if len(values) >= rank else _NEVER
