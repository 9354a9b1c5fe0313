"""A server's metrics, in Prometheus' text format, as the figures that the page of the fleet shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class FleetFigures:
    """Counts, never which devices. Requests are those of the process that answered, since it started."""

    check_ins: float = 0.0
    reports: float = 0.0
    refused: float = 0.0
    round_s: float = 0.0
    timed_rounds: int = 0
    devices_by: dict[str, int] = field(default_factory=dict)
    dropouts: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    epsilon: dict[str, float] = field(default_factory=dict)

    @property
    def seconds_a_round(self) -> float | None:
        """How long a committed round took on average; None if there is none yet."""
        return self.round_s / self.timed_rounds if self.timed_rounds > 0 else None


def read_figures(text: str) -> FleetFigures:
    """The figures in these metrics."""
    from prometheus_client.parser import text_string_to_metric_families

    found = FleetFigures()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            _take(found, sample.name, sample.labels, sample.value)
    return found


def _take(found: FleetFigures, name: str, labels: Mapping[str, str], value: float) -> None:
    match name:
        case "tacit_requests_total":
            _take_requests(found, labels["route"], labels["status"].startswith("2"), value)
        case "tacit_devices_by_state":
            found.devices_by[labels["state"]] = int(value)
        case "tacit_dropouts":
            found.dropouts[labels["stage"]] = int(value)
        case "tacit_lost_rounds":
            found.lost[labels["task"]] = int(value)
        case "tacit_epsilon_spent":
            found.epsilon[labels["task"]] = value
        case "tacit_round_seconds_sum":
            found.round_s = value
        case "tacit_round_seconds_count":
            found.timed_rounds = int(value)


def _take_requests(found: FleetFigures, route: str, worked: bool, value: float) -> None:
    if not worked and route.startswith("/v1/") and not route.startswith("/v1/admin"):
        found.refused += value
    elif worked and route.endswith("/check-in"):
        found.check_ins += value
    elif worked and route.endswith("/report"):
        found.reports += value
