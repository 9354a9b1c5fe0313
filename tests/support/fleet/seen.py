"""A fleet as its server shows it to an administrator: the status, and the metrics that Prometheus would read."""

from __future__ import annotations

from typing import Any

OPEN = {"round": 4, "goal": 10, "places": 12, "selected": 6, "reported": 2, "seconds_left": 300.0}


def status(*, coordinators: int = 1, **task: Any) -> dict[str, Any]:
    known = {
        "name": "words",
        "active": True,
        "paused": False,
        "rounds": {},
        "under_way": None,
        "could_come": None,
        "last_abandoned": None,
    }
    return {"devices": 20, "processes": {"coordinator": coordinators}, "tasks": [known | task]}


METRICS = """
# TYPE tacit_requests_total counter
tacit_requests_total{method="POST",route="/v1/tasks/{task}/check-in",status="200"} 7.0
tacit_requests_total{method="POST",route="/v1/rounds/{round_id}/report",status="204"} 5.0
tacit_requests_total{method="POST",route="/v1/rounds/{round_id}/report",status="409"} 2.0
tacit_requests_total{method="GET",route="/v1/admin/status",status="401"} 9.0
# TYPE tacit_devices_by_state gauge
tacit_devices_by_state{state="ready"} 18.0
tacit_devices_by_state{state="quarantined"} 2.0
# TYPE tacit_dropouts gauge
tacit_dropouts{stage="report"} 3.0
# TYPE tacit_lost_rounds gauge
tacit_lost_rounds{task="words"} 1.0
# TYPE tacit_epsilon_spent gauge
tacit_epsilon_spent{task="words"} 1.25
# TYPE tacit_round_seconds_sum gauge
tacit_round_seconds_sum 30.0
# TYPE tacit_round_seconds_count gauge
tacit_round_seconds_count 4.0
"""
