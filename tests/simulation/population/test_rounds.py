"""Rounds of a population: their invariants, checked against a plain record of every device that was taken."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tacit.errors import RecipeError, RunError
from tacit.simulation.population.habits import HOUR
from tacit.simulation.population.rounds import Counts, Population, Reported
from tacit.simulation.population.settings import PopulationSettings
from tacit.simulation.population.summary import simulate

SMALL = PopulationSettings(devices=400, report_goal=10)


class Watched(Population):
    """A population that keeps every device it has ever taken, used or not: (attempt closed at, devices taken).

    `turned_away` has, for each attempt, when welcome devices called and were not taken.
    """

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.attempts, self.turned_away, self._turned = [], [], []

    def _send_away(self, devices, at_s):
        self._turned += at_s[self._welcome(devices)].tolist()
        super()._send_away(devices, at_s)

    def _rest(self, taken):
        self.attempts.append((self.clock_s - self.settings.server_seconds, taken))
        self.turned_away.append(self._turned)
        self._turned = []
        super()._rest(taken)


def watched(settings: PopulationSettings, seed: int, rounds: int) -> tuple[Watched, list[Reported]]:
    population = Watched.create(settings, np.random.default_rng(seed))
    return population, list(population.rounds(rounds))


def brute_force(rounds: list[Reported]) -> tuple[int | None, int]:
    """MinS and MaxP from who reported when, device by device."""
    seen: dict[int, list[int]] = {}
    for reported in rounds:
        for user in reported.users:
            seen.setdefault(int(user), []).append(reported.round)
    gaps = [b - a - 1 for numbers in seen.values() for a, b in itertools.pairwise(numbers)]
    return min(gaps, default=None), max(len(numbers) for numbers in seen.values())


@st.composite
def populations(draw) -> PopulationSettings:
    goal = draw(st.integers(1, 12))
    return PopulationSettings(
        devices=draw(st.integers(30 * goal, 60 * goal)),
        report_goal=goal,
        over_selection=draw(st.sampled_from([1.5, 2.0, 3.0])),
        timer_hours=draw(st.sampled_from([0, 0.5, 24, 48])),
        deadline_hours=draw(st.sampled_from([1, 3, 12])),
        work_minutes=draw(st.sampled_from([0.1, 3, 15])),
        drop_out=draw(st.sampled_from([0, 0.1, 0.3])),
        server_seconds=draw(st.sampled_from([1, 60])),
        zones=draw(st.sampled_from(["one", "us", "world"])),
        min_separation=draw(st.sampled_from([None, 0, 3, 9])),
        max_participation=draw(st.sampled_from([None, 2, 4])),
    )


@given(plan=populations(), seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_what_no_round_may_ever_do(plan, seed):
    try:
        population, rounds = watched(plan, seed, 15)
    except RecipeError:  # a few of these populations cannot sustain their rounds
        reject()
    assert [reported.round for reported in rounds] == list(range(15))
    closes = dict(population.attempts)
    for before, after in itertools.pairwise(rounds):
        assert before.finished_s < after.started_s
    for reported in rounds:
        assert reported.users.dtype == np.int64
        assert len(reported.users) == plan.report_goal
        assert np.all(np.diff(reported.users) > 0)
        assert np.all((reported.started_s <= reported.checked_in_s) & (reported.checked_in_s < reported.reported_s))
        assert reported.reported_s.max() == reported.finished_s <= reported.started_s + plan.deadline_s
        # Those whose reports came first, and nobody else.
        taken = closes[reported.finished_s]
        by_time = sorted(
            zip(taken.ends_s[taken.reports], range(plan.devices), taken.devices[taken.reports], strict=False)
        )
        assert set(reported.users.tolist()) == {int(device) for _, _, device in by_time[: plan.report_goal]}
    # While a round is open and wants devices, none that may take part is turned away.
    for (closed, taken), calls in zip(population.attempts, population.turned_away, strict=True):
        open_until = taken.at_s.max() if len(taken.devices) == plan.wanted else closed
        assert all(call >= open_until for call in calls)
    rests_until: dict[int, int] = {}
    for closed, taken in population.attempts:
        assert len(np.unique(taken.devices)) == len(taken.devices) <= plan.wanted
        opens, shuts = population.habits.next_window(taken.devices, taken.at_s)
        assert np.all((opens <= taken.at_s) & (taken.at_s < closed))
        assert np.all(taken.ends_s <= shuts)
        assert np.all(taken.ends_s[taken.reports] < shuts[taken.reports])
        for device, at, ends, reports in zip(*vars(taken).values(), strict=True):
            assert at >= rests_until.get(int(device), 0)
            if reports:  # used, late or in a round that was given up: the timer is set by the upload
                rests_until[int(device)] = int(ends) + plan.timer_s
    least, most = brute_force(rounds)
    realised = population.realised
    assert (None if realised.min_separation is None else realised.min_separation.rounds_between) == least
    assert realised.max_participation == most
    if plan.min_separation is not None and least is not None:
        assert least >= plan.min_separation
    if plan.max_participation is not None:
        assert most <= plan.max_participation
    counts = sum((reported.counts for reported in rounds), Counts())
    assert counts.check_ins == counts.sent_away + counts.refused + counts.taken
    assert counts.taken == counts.dropped_out + counts.late + 15 * plan.report_goal
    assert counts.taken == sum(len(taken.devices) for _, taken in population.attempts)
    assert len(population.attempts) == 15 + sum(reported.given_up for reported in rounds)


def same(one: Reported, other: Reported) -> bool:
    pairs = zip(vars(one).values(), vars(other).values(), strict=True)
    return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in pairs)


@pytest.mark.parametrize("stopped_after", [0, 1, 7, 30])
def test_a_restored_population_goes_on_as_if_nothing_had_happened(stopped_after):
    plan = dataclasses.replace(SMALL, min_separation=5, max_participation=9)
    whole = Population.create(plan, np.random.default_rng(3))
    expected = list(whole.rounds(45))
    first = Population.create(plan, np.random.default_rng(3))
    list(first.rounds(stopped_after))
    saved = {name: array.copy() for name, array in first.arrays().items()}
    list(first.rounds(45))  # what the first one does afterwards must not reach the saved arrays
    second = Population.restore(plan, saved)
    assert all(same(*pair) for pair in zip(expected[stopped_after:], second.rounds(45), strict=True))
    assert second.realised == whole.realised
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(array, second.arrays()[name], err_msg=name)


def test_saved_arrays_are_not_the_living_ones():
    population = Population.create(SMALL, np.random.default_rng(0))
    arrays = population.arrays()
    before = {name: array.copy() for name, array in arrays.items()}
    list(population.rounds(5))
    assert all(np.array_equal(before[name], array) for name, array in arrays.items())


def test_rounds_from_before_count_in_the_limits():
    plan = dataclasses.replace(SMALL, min_separation=20, max_participation=3)
    before = list(Population.create(plan, np.random.default_rng(0)).rounds(30))
    population = Population.create(plan, np.random.default_rng(1))
    for reported in before:
        population.remember(reported.users)
    after = list(population.rounds(60))
    assert [reported.round for reported in after] == list(range(30, 60))
    least, most = brute_force(before + after)
    assert (population.realised.min_separation.rounds_between, population.realised.max_participation) == (least, most)
    assert least >= 20
    assert most <= 3


def test_a_population_of_another_size_is_not_restored():
    arrays = Population.create(SMALL, np.random.default_rng(0)).arrays()
    with pytest.raises(RunError, match=r"of 500 devices, got 400\."):
        Population.restore(dataclasses.replace(SMALL, devices=500), arrays)


def test_the_seed_decides_everything():
    one, again, other = (list(Population.create(SMALL, np.random.default_rng(s)).rounds(5)) for s in (1, 1, 2))
    assert all(same(*pair) for pair in zip(one, again, strict=True))
    assert not any(np.array_equal(a.users, b.users) for a, b in zip(one, other, strict=True))


def test_rounds_are_quick_at_night_and_starve_by_day():
    outcome = simulate(PopulationSettings(devices=20_000, report_goal=40, zones="one"), 500, seed=0)
    hours = outcome.by_hour()
    night = [hours[hour] for hour in (0, 1, 2, 3, 4)]
    noon = [hours[hour] for hour in (12, 13, 14, 15) if hours[hour] is not None]
    assert max(night) < 8 * 60
    assert min(noon) > 2 * max(night)


@pytest.mark.slow
def test_min_separation_grows_with_the_timer_until_the_population_caps_it():
    found = {
        hours: simulate(PopulationSettings(devices=8_000, report_goal=20, timer_hours=hours), 520, seed=0)
        for hours in (24, 48, 192)
    }
    gaps = {hours: each.realised.min_separation.rounds_between for hours, each in found.items()}
    cap = found[24].settings.largest_separation.rounds_between
    assert cap == 399
    assert 1.4 * gaps[24] < gaps[48] < gaps[192] < cap
    assert gaps[192] < 4 * gaps[24]  # far from eight times: the cap is felt
    assert gaps[192] > 0.5 * cap


def test_pace_steering_keeps_the_number_of_calls_in_bounds():
    outcome = simulate(PopulationSettings(devices=50_000, report_goal=20), 200, seed=0)
    assert outcome.counts.check_ins < 50_000 * outcome.finished_s[-1] / (4 * HOUR)  # one in four hours
    assert outcome.counts.sent_away > outcome.counts.taken


def test_a_round_that_cannot_reach_its_goal_is_given_up_and_counts_for_nobody():
    plan = PopulationSettings(devices=600, report_goal=60, deadline_hours=1)
    population, rounds = watched(plan, 0, 6)
    assert sum(reported.given_up for reported in rounds) > 0
    released = np.concatenate([reported.users for reported in rounds])
    counted = population.arrays()["times"]
    np.testing.assert_array_equal(counted, np.bincount(released, minlength=600))
    uploads = sum(int(taken.reports.sum()) for _, taken in population.attempts)
    assert uploads > len(released)


def test_hopeless_rounds_end_before_their_deadline():
    plan = PopulationSettings(devices=2_000, report_goal=40, over_selection=1.1, drop_out=0.09)
    population, rounds = watched(plan, 0, 20)
    failed = [closed for closed, taken in population.attempts if taken.reports.sum() < 40]
    assert failed
    assert len(failed) == sum(reported.given_up for reported in rounds)
    assert rounds[-1].finished_s < 20 * 12 * HOUR


def test_the_server_enforces_its_limits():
    free, bound = (
        simulate(dataclasses.replace(SMALL, timer_hours=1, min_separation=gap, max_participation=most), 100, seed=0)
        for gap, most in ((None, None), (25, 3))
    )
    assert free.realised.min_separation.rounds_between < 10
    assert free.realised.max_participation > 3
    assert free.counts.refused == 0
    assert bound.realised.min_separation.rounds_between >= 25
    assert bound.realised.max_participation <= 3
    assert bound.counts.refused > 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"devices": 0}, "Expected devices from 1 to 67108864, got 0."),
        ({"report_goal": 401}, "Expected report_goal from 1 to 400 (every device at once), got 401."),
        ({"report_goal": 0}, "Expected report_goal from 1 to 400 (every device at once), got 0."),
        ({"report_goal": 350}, "got 350 times 1.3: a round needs more devices than there are."),
        ({"over_selection": 0.9}, "Expected over_selection from 1 to 10, got 0.9."),
        ({"over_selection": 1.0}, "Expected over_selection of at least 1.06 with a drop_out of 0.06, got 1"),
        ({"timer_hours": -1}, "Expected timer_hours from 0 to 8784, got -1."),
        ({"timer_hours": float("nan")}, "Expected timer_hours from 0 to 8784, got nan."),
        ({"deadline_hours": 0}, "Expected deadline_hours from 0.01 to 8784, got 0."),
        ({"drop_out": 1}, "Expected drop_out from 0 to 0.95, got 1."),
        ({"zones": "mars"}, "got 'mars'."),
        ({"min_separation": -1}, "Expected min_separation from 0"),
        ({"max_participation": 0}, "Expected max_participation from 1"),
    ],
)
def test_impossible_settings(changes, sentence):
    with pytest.raises(RecipeError) as refused:
        dataclasses.replace(SMALL, **changes)
    assert sentence in refused.value.sentence


def test_limits_the_population_cannot_sustain():
    dataclasses.replace(SMALL, min_separation=39).require_supply(1_000)
    with pytest.raises(RecipeError, match=r"^Expected min_separation of at most 39, .* got 40\.$"):
        dataclasses.replace(SMALL, min_separation=40).require_supply(1_000)
    dataclasses.replace(SMALL, min_separation=1_000).require_supply(40)
    dataclasses.replace(SMALL, max_participation=3).require_supply(120)
    with pytest.raises(RecipeError, match=r"^Expected max_participation of at least 4, .* got 3\.$"):
        dataclasses.replace(SMALL, max_participation=3).require_supply(121)


def test_a_timer_so_long_that_rounds_cease():
    plan = dataclasses.replace(SMALL, report_goal=100, timer_hours=2_000)
    with pytest.raises(RecipeError, match=r"^Round \d+ missed its goal for 28 simulated days, .* timer_hours 2000\.$"):
        list(Population.create(plan, np.random.default_rng(0)).rounds(20))
