"""MinS and MaxP against the run's own record."""

from __future__ import annotations

import pytest

from tacit.fleet.rounds.participation_check import ParticipationCheck


@pytest.fixture
def attendance() -> ParticipationCheck:
    # The first attempt at round 4 was lost, and so was one at round 5.
    recorded = {(0, 0): [1, 2], (3, 0): [1], (4, 0): [5], (4, 1): [3], (5, 0): [2]}
    return ParticipationCheck(lambda: recorded, 5, min_separation=2, max_participation=2)


@pytest.mark.parametrize(
    ("round", "devices", "allowed"),
    [
        (5, [7], True),  # never there
        (0, [7], True),
        (2, [2], False),
        (3, [2], True),  # two rounds in between
        (9, [1], False),  # often enough
        (6, [3], False),
        (7, [3], True),
        (1, [3], False),  # a round that runs again, before the one it was in
        (7, [7, 3, 1], False),  # one is enough
        (5, [5, 2], True),  # lost attempts are charged apart
    ],
)
def test_what_a_round_allows(attendance: ParticipationCheck, round: int, devices: list[int], allowed: bool) -> None:
    assert attendance.allows(round, devices) == allowed


def test_what_is_committed_counts(attendance: ParticipationCheck) -> None:
    attendance.add(5, [9])
    assert not attendance.allows(5, [9])
    assert attendance.allows(8, [9])
