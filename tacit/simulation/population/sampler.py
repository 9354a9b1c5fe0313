"""A simulated population of devices as the source of a run's cohorts.

Which devices report is settled by the population's own seed, in the open: without amplification nothing is claimed from it.
So a run that goes on replays the rounds it has behind it, and compares them with what its participation record holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import RunError
from tacit.privacy.participation.samplers import Draws
from tacit.simulation.population.rounds import Population
from tacit.simulation.population.settings import PopulationSettings


class DeviceCheckIns:
    """The reports of a population's rounds, one after another, under the server's MinS and MaxP."""

    def __init__(self, settings: PopulationSettings, seed: int) -> None:
        self._population = Population.create(settings, np.random.default_rng(seed))

    @property
    def days(self) -> float:
        """How long the rounds so far have taken, in simulated days."""
        return self._population.clock_s / 86_400

    def sample(self, draws: Draws) -> NDArray[np.int64]:
        return self._population.next_round().users

    def remember(self, users: NDArray[np.int64]) -> None:
        if not np.array_equal(self._population.next_round().users, users):
            raise RunError("The simulated population is not the one this run was begun with: other devices report now.")

    def describe(self) -> dict[str, Any]:
        settings = self._population.settings
        return {
            "kind": "check_in",
            "size": settings.report_goal,
            "min_separation": settings.min_separation,
            "max_participation": settings.max_participation,
        }
