"""Calibration: within the target by the accountant's own word, one step further is not, and every refusal is a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.errors import RecipeError
from tacit.privacy.accounting import gaussian, tree
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, sampled_epsilon
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian, gaussian_rho
from tacit.privacy.noise.tail import TAIL_SHARE
from tacit.privacy.participation.limits import Gap
from tacit.privacy.planning.calibration import MOST_ROUNDS, calibrate_sampled, calibrate_unsampled
from tacit.privacy.planning.search import LEAST_SEARCHED_NOISE

POISSON: dict[str, Any] = {"population": 100_000, "cohort": 1_000, "rounds": 500, "noise_multiplier": 2.0}
FIXED: dict[str, Any] = POISSON | {"noise_multiplier": 4.0}
SETTINGS = ["noise_multiplier", "rounds", "cohort"]


def cost(kind: str, settings: dict[str, Any], delta: float) -> float:
    q: dict[str, Any] = {"kind": "poisson", "probability": settings["cohort"] / settings["population"]}
    if kind == "fixed":
        q = {"kind": "fixed", "size": int(settings["cohort"]), "population": settings["population"]}
    return sampled_epsilon([SampledRounds(q, settings["noise_multiplier"], int(settings["rounds"]))], delta)[0]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(("kind", "target"), [("poisson", 0.9), pytest.param("fixed", 4.0, marks=pytest.mark.slow)])
def test_a_sampled_setting_meets_the_target_and_little_more_does_not(kind: Any, target: float, setting: str) -> None:
    settings = (POISSON if kind == "poisson" else FIXED) | {setting: None}
    found = calibrate_sampled(target, 1e-6, sampling=kind, **settings)
    assert found.setting == setting
    assert found.accountant == "pld"
    # As a run of Tacit would be accounted, with a share of delta set aside.
    spent = cost(kind, settings | {setting: found.value}, 1e-6 * (1 - TAIL_SHARE))
    assert spent <= found.epsilon * (1 + 1e-9)
    assert found.epsilon <= target
    bolder = found.value * (0.99 if setting == "noise_multiplier" else 1.02)
    assert cost(kind, settings | {setting: bolder}, 1e-6) > target
    if setting == "noise_multiplier":
        assert float(f"{found.value:.4g}") == found.value
    else:
        assert found.value == int(found.value)


def of_tree(rounds: int) -> int:
    return tree.sensitivity_squared(rounds, Gap(212), 4)


def test_noise_of_a_tree_from_gboards_table() -> None:
    """930 rounds with MinS 212 and MaxP 4 at noise 7 cost rho 0.4796: asked for that, 7 comes back."""
    rho = gaussian_rho(7.0, of_tree(930))
    found = calibrate_unsampled(of_tree, 1e-10, rho=rho, rounds=930)
    assert (found.setting, found.value, found.rho) == ("noise_multiplier", 7.0, rho)
    tighter = calibrate_unsampled(of_tree, 1e-10, rho=rho * (1 - 1e-9), rounds=930)
    assert tighter.value == 7.001


@pytest.mark.parametrize("target", [{"epsilon": 5.0}, {"rho": 0.3}])
@pytest.mark.parametrize("setting", SETTINGS[:2])
def test_an_unsampled_setting_meets_the_target_and_little_more_does_not(target: dict[str, float], setting: str) -> None:
    settings: dict[str, Any] = {"rounds": 800, "noise_multiplier": 7.5} | {setting: None}
    found = calibrate_unsampled(of_tree, 1e-8, **target, **settings)

    def within(value: float, share: float) -> bool:
        now = settings | {setting: value}
        rho = gaussian_rho(now["noise_multiplier"], of_tree(int(now["rounds"])))
        return (
            rho <= target["rho"]
            if "rho" in target
            else epsilon_of_gaussian(rho, 1e-8 * (1 - share)) <= target["epsilon"]
        )

    assert within(found.value, TAIL_SHARE)
    assert not within(found.value * 0.999 if setting == "noise_multiplier" else found.value + 1, 0)
    assert found.epsilon >= epsilon_of_gaussian(found.rho or 0.0, 1e-8)


def test_the_sensitivity_may_be_any_mechanisms() -> None:
    found = calibrate_unsampled(
        lambda rounds: gaussian.sensitivity_squared(rounds, Gap(0), 10**9), 1e-6, rho=0.5, noise_multiplier=10.0
    )
    assert found.value == 100  # rho = T / (2 z²)
    assert calibrate_unsampled(lambda _: 2.25, 1e-6, rho=0.5, rounds=7).value == 1.5


def test_a_lax_target_still_gets_some_noise() -> None:
    assert calibrate_unsampled(lambda _: 1.0, 1e-6, rho=1e9, rounds=7).value == LEAST_SEARCHED_NOISE
    found = calibrate_sampled(1e5, 1e-6, sampling="poisson", population=10, cohort=1, rounds=1)
    assert (found.value, found.accountant) == (LEAST_SEARCHED_NOISE, "rdp")


@pytest.mark.parametrize(
    ("target", "settings", "said"),
    [
        (1e-5, {"noise_multiplier": None, "rounds": 10**7}, "No noise multiplier up to"),
        (0.01, {"rounds": None, "noise_multiplier": 0.5}, "Not even a single round"),
        (0.01, {"cohort": None, "noise_multiplier": 0.5}, "Not even a cohort of a single user"),
    ],
)
def test_an_unreachable_target_is_one_sentence(target: float, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError, match=said) as caught:
        calibrate_sampled(target, 1e-6, sampling="poisson", **(POISSON | settings))
    assert f"epsilon {target:g} at delta 1e-06" in caught.value.sentence
    assert caught.value.sentence.count(".") - f"{target:g}".count(".") == 1


def test_more_refusals() -> None:
    with pytest.raises(RecipeError, match=r"No noise multiplier up to 1e\+06 reaches rho"):
        calibrate_unsampled(of_tree, 1e-6, rho=1e-12, rounds=930)
    with pytest.raises(RecipeError, match="Not even a single round reaches epsilon"):
        calibrate_unsampled(of_tree, 1e-6, epsilon=0.5, noise_multiplier=0.5)
    with pytest.raises(RecipeError, match="10000 rounds and more meet rho 1"):  # MaxP limits it already
        calibrate_unsampled(of_tree, 1e-6, rho=1, noise_multiplier=50.0, most_rounds=10_000)
    with pytest.raises(ValueError, match="exactly one"):
        calibrate_sampled(1.0, 1e-6, sampling="poisson", **POISSON)
    with pytest.raises(ValueError, match="exactly one"):
        calibrate_unsampled(of_tree, 1e-6, rho=1)


def test_a_coarse_search_is_looked_at_again() -> None:
    """Where a round's privacy loss is far below the coarse steps, they alone would leave many rounds unused."""
    settings: dict[str, Any] = {"population": 300_000, "cohort": 100, "noise_multiplier": 1.0}
    found = calibrate_sampled(0.5, 1e-6, sampling="poisson", **settings)
    assert 0.985 * 0.5 < found.epsilon <= 0.5
    assert cost("poisson", settings | {"rounds": found.value}, 1e-6) <= found.epsilon


def test_hundred_million_rounds_of_hardly_any_loss_are_answered() -> None:
    """A round's loss distribution has three points here, and composing it as a dictionary took more than six minutes."""
    settings: dict[str, Any] = {"population": 10**7, "cohort": 6500, "noise_multiplier": 7.0}
    found = calibrate_sampled(20.0, 1e-10, sampling="poisson", **settings)
    assert (found.value, found.accountant) == (MOST_ROUNDS, "rdp")
    fewer = calibrate_sampled(0.2, 1e-6, sampling="poisson", **settings)
    assert 0.985 * 0.2 < fewer.epsilon <= 0.2
    assert cost("poisson", settings | {"rounds": fewer.value}, 1e-6) <= fewer.epsilon
