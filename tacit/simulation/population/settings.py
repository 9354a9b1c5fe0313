"""The settings of a simulated population and its server, validated once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.errors import RecipeError
from tacit.privacy.participation.limits import Gap
from tacit.simulation.population.check_in_queue import MOST_DEVICES
from tacit.simulation.population.habits import HOUR, parse_zones

MOST_HOURS = 24 * 366.0


@dataclass(frozen=True)
class PopulationSettings:
    """A population of devices and the server that trains on it; RecipeError if a setting is impossible.

    The server takes the first `wanted` devices that check in, more than the `report_goal` because some drop out, and
    closes the round at the goal's last report. A device that has sent a report does not check in for `timer_hours`.
    The server enforces `min_separation` and `max_participation` if they are given; otherwise they are only measured.
    """

    devices: int = 100_000
    report_goal: int = 130
    over_selection: float = 1.3
    timer_hours: float = 24.0
    deadline_hours: float = 12.0
    work_minutes: float = 2.5  # of the median device: download, train, upload
    drop_out: float = 0.06  # probability to fail for another reason than the end of the window
    server_seconds: int = 30  # from a round's last report to the opening of the next
    zones: str = "us"
    min_separation: int | None = None
    max_participation: int | None = None

    def __post_init__(self) -> None:
        _within("devices", self.devices, 1, MOST_DEVICES)
        _within("report_goal", self.report_goal, 1, self.devices, "every device at once")
        _within("over_selection", self.over_selection, 1, 10)
        _within("timer_hours", self.timer_hours, 0, MOST_HOURS)
        _within("deadline_hours", self.deadline_hours, 0.01, MOST_HOURS)
        _within("work_minutes", self.work_minutes, 0.01, 24 * 60)
        _within("drop_out", self.drop_out, 0, 0.95)
        _within("server_seconds", self.server_seconds, 1, 24 * HOUR)
        parse_zones(self.zones)
        if self.wanted > self.devices:
            raise RecipeError(
                f"Expected report_goal times over_selection of at most {self.devices} devices, got {self.report_goal} "
                f"times {self.over_selection:g}: a round needs more devices than there are."
            )
        if self.wanted * (1 - self.drop_out) < self.report_goal:
            raise RecipeError(
                f"Expected over_selection of at least {1 / (1 - self.drop_out):.3g} with a drop_out of {self.drop_out:g}, "
                f"got {self.over_selection:g}: most rounds would miss their goal."
            )
        if self.min_separation is not None:
            _within("min_separation", self.min_separation, 0, 2**31 - 1)
        if self.max_participation is not None:
            _within("max_participation", self.max_participation, 1, 2**31 - 1)

    @property
    def wanted(self) -> int:
        """The most devices that the server takes in a round."""
        return math.ceil(self.report_goal * self.over_selection)

    @property
    def timer_s(self) -> int:
        """The time from a device's report to its next check-in, in seconds."""
        return round(self.timer_hours * HOUR)

    @property
    def deadline_s(self) -> int:
        """The time after which a round is abandoned, in seconds."""
        return round(self.deadline_hours * HOUR)

    @property
    def largest_separation(self) -> Gap:
        """The largest MinS that a run longer than MinS can have (Gboard, section 2.2).

        If no device takes part twice in d rounds in a row, their cohorts are disjoint, so d times the report goal is at
        most the population.
        """
        return Gap.of_index_difference(self.devices // self.report_goal)

    def require_supply(self, rounds: int) -> None:
        """RecipeError if the enforced limits leave too few devices for this many rounds."""
        most = self.largest_separation
        if (
            self.min_separation is not None
            and min(rounds, Gap(self.min_separation).index_difference) > most.index_difference
        ):
            raise RecipeError(
                f"Expected min_separation of at most {most.rounds_between}, which {self.devices} devices "
                f"with a report_goal of {self.report_goal} can sustain, got {self.min_separation}."
            )
        if self.max_participation is not None and rounds * self.report_goal > self.devices * self.max_participation:
            raise RecipeError(
                f"Expected max_participation of at least {math.ceil(rounds * self.report_goal / self.devices)}, which "
                f"{rounds} rounds of {self.report_goal} reports need from {self.devices} devices, "
                f"got {self.max_participation}."
            )


def _within(field: str, value: float, least: float, most: float, why: str = "") -> None:
    if not least <= value <= most:
        reason = f" ({why})" if why else ""
        raise RecipeError(f"Expected {field} from {least:g} to {most:.10g}{reason}, got {value:.10g}.")
