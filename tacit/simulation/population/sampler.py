"""The sampler of a run whose cohorts come from a simulated population of devices.

The population's own public seed determines which devices report; no amplification by sampling is claimed. A resumed run
replays its finished rounds and compares them with its participation record.
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
    """Samples the reporting devices of a population's rounds, in order, under the server's MinS and MaxP."""

    def __init__(self, settings: PopulationSettings, seed: int) -> None:
        self._population = Population.create(settings, np.random.default_rng(seed))

    @property
    def days(self) -> float:
        """The simulated duration of the rounds so far, in days."""
        return self._population.clock_s / 86_400

    def sample(self, draws: Draws) -> NDArray[np.int64]:
        return self._population.next_round().users

    def remember(self, users: NDArray[np.int64]) -> None:
        if not np.array_equal(self._population.next_round().users, users):
            raise RunError(
                "The simulated population differs from the one this run was begun with: other devices report now."
            )

    def describe(self) -> dict[str, Any]:
        settings = self._population.settings
        return {
            "kind": "check_in",
            "size": settings.report_goal,
            "min_separation": settings.min_separation,
            "max_participation": settings.max_participation,
        }
