"""A run whose cohorts come from a simulated population: it reports its duration, keeps its limits, and can be resumed."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.errors import RecipeError, RunError
from tacit.privacy.participation.log import read
from tacit.recipe.training import Recipe, parse_recipe
from tacit.simulation.population.sampler import DeviceCheckIns
from tacit.simulation.population.settings import PopulationSettings
from tacit.simulation.training import resume_run, start_run
from tests.support.draws import draws
from tests.support.run_arrays import assert_same_arrays
from tests.support.stopping import stopped
from tests.support.tiny_recipe import FTRL, tiny

pytestmark = pytest.mark.usefixtures("cache_of_our_own")

SETTINGS = PopulationSettings(devices=400, report_goal=12, min_separation=3, max_participation=4)


def recipe(**run: object) -> Recipe:
    tree = tiny(privacy={"mechanism": "blt", **FTRL}, run={"rounds": 5, **run}).model_dump(
        mode="json", exclude_none=True
    )
    return parse_recipe({**tree, "population": {"timer_hours": 1.0}})


def test_a_run_says_how_long_it_took_in_simulated_days_and_goes_on_after_a_stop(tmp_path):
    summary = start_run(recipe(seed=4), tmp_path / "whole", tacit.Callback())
    assert 0 < summary["population"]["simulated_days"] < 30
    assert all(len(cohort.users) == 12 for cohort in read(tmp_path / "whole" / "private" / "participation.bin"))
    stopped(recipe(seed=4), tmp_path / "run", 2)
    again = resume_run(tmp_path / "run", tacit.Callback())
    assert again["population"] == summary["population"]
    assert_same_arrays(tmp_path / "whole", tmp_path / "run")


def test_the_check_ins_of_a_population_came_from_the_plan(tmp_path):
    summary = start_run(recipe(), tmp_path / "run", tacit.Callback())
    assert summary["privacy"]["reasons_not_private"] == []
    assert summary["privacy"]["epsilon"] > 0


def test_another_population_is_noticed():
    devices, others = DeviceCheckIns(SETTINGS, 1), DeviceCheckIns(SETTINGS, 2)
    with pytest.raises(RunError, match="differs from the one this run was begun with"):
        others.remember(devices.sample(draws(np.random.default_rng(0), 400)))


def test_a_sample_cannot_come_from_devices_that_come_when_they_can():
    tree = tiny().model_dump(mode="json", exclude_none=True)
    with pytest.raises(RecipeError, match="sampling = 'check_in' with a \\[population\\]"):
        parse_recipe({**tree, "population": {}})
