"""The name of a session of secure aggregation is made of what all its devices have to be told alike."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.fleet.database.round_table import RoundRow
from tacit.fleet.wire.messages import Assignment
from tacit.fleet.wire.task import session_id_of

TOLD: dict[str, Any] = {
    "round_id": "0" * 32,
    "task": "a" * 64,
    "round": 3,
    "checkpoint": "b" * 64,
    "clip_norm": 0.1 + 0.2,
    "threshold": 0.25,
    "signs_seed": "c" * 64,
}
OTHERS: dict[str, Any] = {
    "round_id": "1" * 32,
    "task": "b" * 64,
    "round": 4,
    "checkpoint": "a" * 64,
    "clip_norm": 0.3,
    "threshold": None,
    "signs_seed": "d" * 64,
}


def assignment(**changes: Any) -> Assignment:
    return Assignment(**{**TOLD, "upload_to": "", "seconds_left": 60.0, **changes})


@pytest.mark.parametrize("field", TOLD)
def test_devices_that_are_told_different_things_are_in_different_sessions(field: str) -> None:
    assert session_id_of(assignment(**{field: OTHERS[field]})) != session_id_of(assignment())


def test_what_may_differ_between_devices_makes_no_difference() -> None:
    assert session_id_of(assignment(upload_to="https://a2.fleet.test", seconds_left=1.0)) == session_id_of(assignment())


def test_every_field_of_an_assignment_is_bound_or_may_differ() -> None:
    assert set(Assignment.model_fields) == {*TOLD, "upload_to", "seconds_left"}


@pytest.mark.parametrize("clip", [0.1 + 0.2, 1.0, 1e300])
def test_a_device_and_the_server_compute_the_same_name(clip: float) -> None:
    rest = {"attempt": 0, "state": "open", "reason": None, "aggregator": "p", "goal": 4, "places": 6, "selected": 6}
    rest |= {"reported": 0, "opened_at": 1.0, "deadline": 2.0, "closed_at": None, "stopped_by": None}
    row = RoundRow(**{**TOLD, **rest, "clip_norm": clip})
    heard = Assignment.model_validate_json(assignment(clip_norm=clip).model_dump_json())
    assert session_id_of(heard) == session_id_of(row)
