"""The planner: Gboard's Table 1, the limits a population sets, timers, and which row is recommended."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import RecipeError
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian
from tacit.privacy.participation.limits import Gap
from tacit.privacy.planning.costs import MECHANISMS, PlannedCost
from tacit.privacy.planning.planner import (
    POISSON,
    DeviceSupply,
    PlanAnswer,
    Question,
    Row,
    Simulation,
    Target,
    participations,
    plan,
    widest_gap,
)

# Gboard, Table 1: rounds, MinS, MaxP, printed zCDP, estimated population in millions; report goal 6500, z = 7.
# en-US* (.25) is left out: what secure aggregation adds to the norm is in its figure.
TABLE_1 = {
    "de-DE": (930, 212, 4, 0.48, 3.24),
    "en-GB": (980, 226, 4, 0.48, 2.38),
    "fr-FR": (1280, 180, 5, 0.89, 2.79),
    "it-IT": (1620, 303, 5, 0.71, 3.32),
    "pt-PT": (530, 54, 8, 1.86, 0.83),
    "es-ES": (1900, 526, 3, 0.35, 4.21),
    "es-ES*": (1750, 349, 4, 0.52, 4.21),
    "en-US": (2800, 371, 7, 1.31, 13.0),
    "pt-BR": (3600, 909, 3, 0.45, 16.6),
    "en-IN": (1290, 170, 6, 1.14, 7.72),
    "es-MX": (1980, 343, 5, 0.64, 9.96),
    "es-AR": (640, 90, 5, 0.84, 4.09),
}
GOALS = (500, 1000, 2000, 4000)
SIMULATED = Simulation(0.54 / 500)


def question(*, target: float | None = None, simulation: Simulation | None = SIMULATED, **devices: object) -> Question:
    settings: dict[str, object] = {"population": 400_000, "report_goals": GOALS, **devices}
    asked = None if target is None else Target(target, epsilon_of_gaussian(target, 1e-8), "rho")
    found = DeviceSupply(**settings)  # type: ignore[arg-type]
    return Question(500, 1e-8, found, simulation, asked, ("tree", "gaussian"))


def trees(answer: PlanAnswer) -> list[Row]:
    return [row for row in answer.rows if row.mechanism == "tree"]


@pytest.mark.parametrize("language", TABLE_1)
def test_table_1_comes_out(language: str) -> None:
    rounds, min_separation, max_participation, printed, millions = TABLE_1[language]
    devices = DeviceSupply(
        round(millions * 1e6), (6500,), min_separations=(min_separation,), max_participation=max_participation
    )
    answer = plan(Question(rounds, 1e-10, devices, Simulation(7 / 6500), None, ("tree",)))
    row = answer.recommended
    assert row.rho is not None
    assert round(row.rho, 2) == printed
    assert (row.min_separation, row.max_participation, row.capped) == (min_separation, max_participation, False)
    assert row.noise_multiplier == pytest.approx(7)


def test_the_example_of_section_2_2() -> None:
    """Report goal 6500 of a million: MinS has to be smaller than 153."""
    assert widest_gap(1_000_000, 6500, 3000).rounds_between == 152


@given(st.integers(1, 10**6), st.integers(1, 10**4), st.integers(1, 10**4))
def test_the_widest_gap_is_what_the_population_can_fill(population: int, goal: int, rounds: int) -> None:
    if goal > population:
        return
    apart = widest_gap(population, goal, rounds).index_difference
    assert apart * goal <= population
    assert apart == rounds or (apart + 1) * goal > population


def test_noise_grows_with_the_report_goal_and_rho_falls_with_its_square() -> None:
    rows = trees(plan(question(min_separations=(40,))))
    assert [row.report_goal for row in rows] == list(GOALS)
    for small, large in pairwise(rows):
        assert small.rho is not None
        assert large.rho is not None
        assert large.noise_multiplier == pytest.approx(2 * small.noise_multiplier)
        assert large.noise_on_mean == pytest.approx(small.noise_on_mean)
        assert large.rho == pytest.approx(small.rho / 4)


def test_participation_follows_from_rounds_and_gap() -> None:
    for row in trees(plan(question())):
        assert row.min_separation == min(400_000 // row.report_goal, 500) - 1
        assert row.max_participation == math.ceil(500 / (row.min_separation + 1))
    for row in trees(plan(question(max_participation=3))):
        assert row.max_participation == min(3, math.ceil(500 / (400_000 // row.report_goal)))


def test_a_gap_the_population_cannot_sustain_is_capped_and_marked() -> None:
    rows = trees(plan(question(min_separations=(300,))))
    assert [(row.min_separation, row.capped) for row in rows] == [(300, False), (300, False), (199, True), (99, True)]


def test_mechanisms_are_compared_at_the_error_the_simulation_had() -> None:
    answer = plan(question())
    assert {row.mechanism for row in answer.rows} == {"tree", "gaussian"}
    errors = {row.prefix_error for row in answer.rows}
    assert max(errors) == pytest.approx(min(errors))
    assert all(row.error_ratio == pytest.approx(1) for row in answer.rows)
    fresh = plan(replace(question(), simulation=Simulation(0.00108, "gaussian")))
    assert fresh.rows[1].noise_multiplier == pytest.approx(0.54)
    assert fresh.rows[0].noise_multiplier > 5


def test_another_mechanism_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    def quiet(rounds: int, gap: Gap, max_participation: int) -> PlannedCost:
        """The tree, with half the error at the same sensitivity."""
        cost = MECHANISMS["tree"](rounds, gap, max_participation)
        return PlannedCost(cost.sensitivity_squared, cost.prefix_rmse / 2)

    monkeypatch.setitem(MECHANISMS, "quiet", quiet)
    for tree, other in zip(*[iter(plan(replace(question(), mechanisms=("tree", "quiet"))).rows)] * 2, strict=True):
        assert tree.rho is not None
        assert other.noise_multiplier == pytest.approx(2 * tree.noise_multiplier)
        assert other.rho == pytest.approx(tree.rho / 4)


@settings(max_examples=60)
@given(st.floats(0.5, 60), st.floats(1, 300), st.floats(0, 1, exclude_max=True))
def test_a_timer_holds_its_gap_wherever_in_a_round_a_device_reports(hours: float, minutes: float, when: float) -> None:
    """A device reports in round 0 and, the timer run out, at once again."""
    asked = question(round_minutes=minutes, timers_in_hours=(hours,), population=10**9, report_goals=(1,))
    gap = next(participations(replace(asked, rounds=10**6), 1)).gap
    assert gap.index_difference == max(1, math.floor(hours * 60 / minutes))
    again = math.floor(when + hours * 60 / minutes)  # the round it is in by then
    assert max(1, again) >= gap.index_difference  # nobody reports twice in a round


def test_a_timer_too_long_for_the_population_makes_rounds_wait() -> None:
    day = question(round_minutes=10, timers_in_hours=(24,), report_goals=(1000,))
    once = next(participations(day, 1000))
    assert (once.gap.rounds_between, once.capped) == (143, False)
    assert once.days == pytest.approx(500 * 10 / 1440)
    month = next(participations(question(round_minutes=10, timers_in_hours=(720,), report_goals=(1000,)), 1000))
    assert (month.gap.rounds_between, month.capped) == (399, True)
    assert month.days == pytest.approx(500 / 400 * 30)  # everybody once in a timer's time


def test_few_devices_a_day_make_rounds_longer() -> None:
    devices = DeviceSupply(400_000, GOALS, devices_per_day=48_000, round_minutes=20)
    assert [devices.minutes(goal) for goal in GOALS] == [20, 30, 60, 120]
    assert DeviceSupply(400_000, GOALS).minutes(500) is None


def test_the_smallest_report_goal_that_meets_the_target_is_recommended() -> None:
    answer = plan(question(target=5.0))
    met = [row for row in answer.rows if row.meets_target]
    assert answer.reason == "smallest that meets the target"
    assert answer.recommended.report_goal == min(row.report_goal for row in met) > GOALS[0]
    assert answer.recommended.rho is not None
    assert answer.recommended.rho <= 5


def test_without_a_target_the_strongest_row_is_recommended() -> None:
    answer = plan(question())
    assert answer.reason == "strongest"
    assert answer.recommended.epsilon == min(row.epsilon for row in answer.rows)
    assert all(row.meets_target is None for row in answer.rows)


def test_a_target_beyond_the_simulated_noise_raises_it_at_the_largest_report_goal() -> None:
    answer = plan(question(target=0.001))
    assert answer.reason == "noise raised to the target"
    row = answer.recommended
    assert (row.report_goal, row.meets_target) == (GOALS[-1], True)
    assert row.error_ratio is not None
    assert row.error_ratio > 1
    assert row.rho == pytest.approx(0.001)
    raised = [each for each in answer.rows if each.meets_target]
    assert row.prefix_error == min(each.prefix_error for each in raised)


def test_without_a_simulation_every_row_just_meets_the_target() -> None:
    answer = plan(question(target=0.2, simulation=None))
    assert answer.reason == "least error"
    for row in answer.rows:
        assert row.rho is not None
        assert 0.2 * (1 - 1e-9) <= row.rho <= 0.2
        assert (row.meets_target, row.error_ratio) == (True, None)
    assert answer.recommended.prefix_error == min(row.prefix_error for row in answer.rows)


def test_sampled_rows_are_recommended_only_where_users_can_be_sampled() -> None:
    sampled = replace(question(report_goals=(40_000,)), mechanisms=("tree", POISSON))
    answer = plan(sampled)
    tree, poisson = answer.rows
    assert poisson.epsilon < tree.epsilon
    assert (poisson.rho, poisson.min_separation, poisson.max_participation) == (None, None, None)
    assert answer.recommended is tree
    assert plan(replace(sampled, uniform_sampling=True)).recommended.mechanism == POISSON
    assert plan(replace(sampled, mechanisms=(POISSON,))).recommended.mechanism == POISSON
    target = Target(0.02, epsilon_of_gaussian(0.02, 1e-8), "rho")
    raised = [row for row in plan(replace(sampled, target=target)).rows if row.mechanism == POISSON]
    assert raised[-1].meets_target
    assert raised[-1].epsilon <= target.epsilon


def test_report_goals_beyond_what_devices_allow_are_left_out() -> None:
    answer = plan(question(max_participation=2))
    assert answer.left_out == (2000, 4000)
    assert {row.report_goal for row in answer.rows} == {500, 1000}


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (question(report_goals=(500_000,)), "at most the population, here 400000, got 500000"),
        (question(report_goals=(4000,), min_separations=(100,)), "--min-separation of at most 99"),
        (question(report_goals=(4000,), max_participation=4), "--max-participation of at least 5"),
        (question(target=1e-12, simulation=None), "noise multiplier of at most 1e+06 can reach, got 1e-12"),
    ],
)
def test_impossible_questions_get_one_sentence(asked: Question, sentence: str) -> None:
    with pytest.raises(RecipeError) as refused:
        plan(asked)
    assert sentence in refused.value.sentence
