"""What every criterion of a selection promises: it looks at one user's examples alone, and the ledger can describe it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.data.users import Examples, Users
from tacit.inspection.example_scores import Marks
from tacit.inspection.record import SelectionRecord, Threshold
from tacit.inspection.selection import Classes, Criterion, Everything, Judged, LikelihoodRatio, UserAccuracy
from tacit.privacy.record.codec import from_json, to_json
from tests.support.implementations import implementations
from tests.support.list_users import ListUsers

PEOPLE = [[[4, 60, 7], [5]], [], [[60, 61], [62], [4, 5]], [[]], [[9, 9, 60]]]
TEXT, IMAGES = ListUsers(PEOPLE), ListUsers([[[len(s)] for s in user] for user in PEOPLE], images=True)


def mark(examples: Examples) -> Marks:
    """Words below 50 are right."""
    lengths = np.diff(examples.example_offsets)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    return Marks(np.bincount(owner[examples.items < 50], minlength=len(lengths)), lengths)


def likelihood(examples: Examples) -> NDArray[np.float64]:
    return -np.diff(examples.example_offsets).astype(np.float64)


@dataclass(frozen=True)
class Case:
    implementation: type
    build: Callable[[], Criterion]
    users: Users = TEXT


PAID = Threshold(0.5, noise_multiplier=2.0, released_by="run")
CASES = {
    "everything": Case(Everything, Everything),
    "everything, of images": Case(Everything, Everything, IMAGES),
    "wrong": Case(Judged, lambda: Judged(mark)),
    "right": Case(Judged, lambda: Judged(mark, right=True)),
    "low accuracy": Case(UserAccuracy, lambda: UserAccuracy(mark, PAID, "low")),
    "high accuracy": Case(UserAccuracy, lambda: UserAccuracy(mark, PAID, "high")),
    "classes": Case(Classes, lambda: Classes({1, 3}), IMAGES),
    "surprising": Case(LikelihoodRatio, lambda: LikelihoodRatio(None, likelihood, Threshold(2.0))),
    "private": Case(LikelihoodRatio, lambda: LikelihoodRatio(lambda e: 2 * likelihood(e), likelihood, Threshold(-2.0))),
}


def kept(criterion: Criterion, users: Users, numbers: list[int]) -> list[list[bool]]:
    """Which examples of each of these users are kept, when they are looked at together."""
    examples = users.gather(np.array(numbers, np.int64))
    found: Any = criterion.keep(examples)
    assert found.dtype == bool
    assert found.shape == (len(examples.example_offsets) - 1,)
    return [each.tolist() for each in np.split(found, examples.user_offsets[1:-1])][: len(numbers)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
class TestCriteria:
    """One suite for all of them."""

    def test_what_is_kept_of_a_user_depends_on_that_user_alone(self, case: Case) -> None:
        everybody = list(range(len(PEOPLE)))
        together = kept(case.build(), case.users, everybody)
        assert [len(each) for each in together] == [len(user) for user in PEOPLE]
        for user in everybody:
            assert kept(case.build(), case.users, [user]) == [together[user]]
        assert kept(case.build(), case.users, everybody[::-1]) == together[::-1]

    def test_it_keeps_some_examples_and_unless_it_is_everything_not_all(self, case: Case) -> None:
        """Else the other tests would say little."""
        found = [each for user in kept(case.build(), case.users, list(range(len(PEOPLE)))) for each in user]
        assert any(found)
        assert all(found) == (case.implementation is Everything)

    def test_nobody_is_no_mistake(self, case: Case) -> None:
        assert len(case.build().keep(case.users.gather(np.empty(0, np.int64)))) == 0

    def test_it_is_pure(self, case: Case) -> None:
        criterion, examples = case.build(), case.users.gather(np.arange(len(PEOPLE)))
        before = examples.items.copy()
        np.testing.assert_array_equal(criterion.keep(examples), criterion.keep(examples))
        np.testing.assert_array_equal(examples.items, before)

    def test_the_ledger_keeps_its_description(self, case: Case) -> None:
        """With the threshold and what its release cost."""
        described = case.build().describe()
        assert from_json(SelectionRecord, json.loads(json.dumps(to_json(described)))) == described
        threshold = getattr(case.build(), "threshold", None)
        assert described.threshold == threshold


def test_no_criterion_is_forgotten() -> None:
    assert {case.implementation.__name__ for case in CASES.values()} == implementations(Criterion)
