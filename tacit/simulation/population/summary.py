"""The results of a simulated population: the duration of rounds, the fate of check-ins, MinS and MaxP."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.simulation.population.habits import DAY, HOUR, Habits
from tacit.simulation.population.rounds import Counts, Population, Realised
from tacit.simulation.population.settings import PopulationSettings

_ASKED = 20_000  # the number of devices that `available_share` estimates from


@dataclass(frozen=True)
class PopulationOutcome:
    """A population after its rounds."""

    settings: PopulationSettings
    finished_s: NDArray[np.int64]  # of each round
    given_up: int
    counts: Counts
    realised: Realised
    habits: Habits

    @property
    def took_s(self) -> NDArray[np.int64]:
        """The time from the end of the previous round to the end of each round, abandoned attempts included."""
        return np.diff(self.finished_s, prepend=0)

    def by_hour(self) -> list[float | None]:
        """The median of `took_s` by the hour (UTC) in which the round began; None if no round began in that hour."""
        hours = (self.finished_s - self.took_s) // HOUR % 24
        return [float(np.median(self.took_s[hours == hour])) if np.any(hours == hour) else None for hour in range(24)]

    def as_dict(self) -> dict[str, Any]:
        """For JSON; a MinS of null means that no device took part twice."""
        low, median, high = np.percentile(self.took_s, [5, 50, 95])
        gap = self.realised.min_separation
        return {
            "timer_hours": self.settings.timer_hours,
            "simulated_days": float(self.finished_s[-1] / DAY),
            "round_s": {"p5": float(low), "median": float(median), "p95": float(high)},
            "round_s_by_hour_utc": self.by_hour(),
            "given_up": self.given_up,
            "min_separation": None if gap is None else gap.rounds_between,
            "max_participation": self.realised.max_participation,
            "counts": dataclasses.asdict(self.counts),
        }


def simulate(settings: PopulationSettings, rounds: int, seed: int) -> PopulationOutcome:
    """Run this many rounds of a fresh population, without training."""
    population = Population.create(settings, np.random.default_rng(seed))
    finished, given_up, counts = [], 0, Counts()
    for reported in population.rounds(rounds):
        finished.append(reported.finished_s)
        given_up += reported.given_up
        counts += reported.counts
    return PopulationOutcome(
        settings, np.array(finished, np.int64), given_up, counts, population.realised, population.habits
    )


def available_share(habits: Habits, at_s: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of devices that are in a window at each time, estimated from some thousands of them."""
    asked = np.unique(np.linspace(0, len(habits) - 1, min(_ASKED, len(habits))).astype(np.int64))
    return np.array([habits.available(asked, np.full_like(asked, when)).mean() for when in at_s])
