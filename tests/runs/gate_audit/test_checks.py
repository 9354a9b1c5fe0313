"""Sound noise passes, p-values are what they say, and noise that is a little wrong fails with the power that is printed."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tacit.privacy.noise.strategies import BandedToeplitz, Strategy, Tree, optimised
from tacit.privacy.participation.limits import Gap
from tacit.runs.gate_audit.checks import FALSE_ALARM, POWER, detectable_scale, level_of, measure
from tests.support.made_up_noise import design_of, seen_by

BAND = BandedToeplitz((1.0, 0.5, 0.25), 64)
STRATEGIES = {"independent": None, "tree": Tree(), "banded": BAND}


@pytest.mark.parametrize(
    "strategy",
    [None, pytest.param(Tree(), marks=pytest.mark.slow), pytest.param(BAND, marks=pytest.mark.slow)],
    ids=STRATEGIES,
)
def test_p_values_of_sound_runs_are_uniform_or_larger(strategy: Strategy | None) -> None:
    chances: dict[str, list[float]] = {}
    for seed in range(200):
        restarts = (5,) if strategy is not None else ()
        design = design_of(12, sizes=(30, 9, 9), strategy=strategy, restarts=restarts)
        found = measure(design, seen_by(design, 12, seed, clip=lambda round: 0.5 if round < 5 else 0.8))
        assert not found.alarms
        for each in found.findings:
            chances.setdefault(each.name, []).append(each.chance)
    for name, values in chances.items():
        if name == "admitted":
            assert set(values) == {1.0}
            continue
        for level in (0.05, 0.3):
            least, most = stats.binom.ppf([1e-7, 1 - 1e-7], 200, level)
            below = int((np.array(values) <= level).sum())
            assert below <= most, name
            assert below >= least or name.startswith("pairs"), name  # union bounds are on the safe side


@pytest.mark.slow
def test_the_printed_power_is_the_power() -> None:
    """By the exact law of the sum of squares, and on noise that is drawn: at twice the error every run is caught."""
    level = 1e-7
    for trials in (20, 10_000, 10**7):
        share = detectable_scale(trials, level)
        fails_below = stats.chi2.ppf(level / 2, trials)
        assert stats.chi2.cdf(fails_below / (1 - share) ** 2, trials) == pytest.approx(POWER)
    assert detectable_scale(10_000, level) < 0.065
    design = design_of(40, strategy=Tree())
    for seed in range(10):
        sound = measure(design, seen_by(design, 40, seed))
        assert 0.04 < sound.detectable_scale < 0.08
        small = seen_by(design, 40, seed, change=partial(np.multiply, 1 - sound.detectable_scale))
        assert "noise, all arrays" in [each.name for each in measure(design, small).alarms]


def test_all_levels_together_are_the_rate_of_false_alarms() -> None:
    design = design_of(40)
    found = measure(design, seen_by(design, 40, 1))
    assert len(found.findings) * level_of(design) <= FALSE_ALARM
    assert len(found.findings) * level_of(design) > 0.9 * FALSE_ALARM


@pytest.mark.slow
def test_intervals_hold_what_is_true() -> None:
    design = design_of(60, noise=0.5)
    for seed in range(30):
        found = measure(design, seen_by(design, 60, seed, change=lambda noise: noise * 0.98))
        assert found.scale[0] < 0.98 < found.scale[2]
        assert found.shift[0] < 1 < found.shift[2]
        assert found.shift[2] - found.shift[0] < 0.25


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_rounds_that_are_missing_do_not_matter(strategy: Strategy | None) -> None:
    """A crash may take some rounds' records with it."""
    design = design_of(30, strategy=strategy)
    rounds = seen_by(design, 30, 3)
    found = measure(design, [*rounds[:7], *rounds[9:20]])
    assert not found.alarms
    assert found.rounds == 18
    assert not measure(design, rounds[:1]).alarms


@pytest.mark.parametrize("name", ["tree", "blt", "banded"])
def test_correlated_noise_taken_for_independent_fails_and_the_reverse(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    strategy = optimised(name, 40, Gap(4), 8)
    design, plain = design_of(40, strategy=strategy), design_of(40)
    assert not measure(design, seen_by(design, 40, 1)).alarms
    assert measure(plain, seen_by(design, 40, 1)).alarms
    assert measure(design, seen_by(plain, 40, 1)).alarms


def test_what_is_not_finite_is_an_alarm() -> None:
    design = design_of(4)
    rounds = seen_by(design, 4, 1)
    broken = dataclasses.replace(rounds[2], released=np.full_like(rounds[2].released, np.nan))
    [alarm] = measure(design, [*rounds[:2], broken]).alarms
    assert "not finite" in alarm.what


def test_a_share_that_is_a_millionth_too_long_is_an_alarm() -> None:
    design = design_of(4)
    rounds = seen_by(design, 4, 1)
    longer = [dataclasses.replace(each, admitted=each.admitted * (1 + 1e-6)) for each in rounds]
    assert [each.name for each in measure(design, longer).alarms] == ["admitted"]
    rounding = [dataclasses.replace(each, admitted=each.admitted * (1 + 1e-12)) for each in rounds]
    assert not measure(design, rounding).alarms
