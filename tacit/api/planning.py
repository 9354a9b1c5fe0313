"""Find the noise that a guarantee needs."""

from __future__ import annotations

from typing import Any, Literal

from tacit.errors import RecipeError
from tacit.privacy.accounting import gaussian
from tacit.privacy.noise.multipliers import LEAST_NOISE
from tacit.privacy.participation.cyclic import CYCLIC
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.planning.calibration import calibrate_sampled, calibrate_unsampled
from tacit.privacy.planning.cyclic import calibrate_cyclic
from tacit.training.calls import require_rounds


def calibrate(*, epsilon: float, rounds: int, **plan: Any) -> PrivacyPlan:
    """The plan with the least noise whose `rounds` rounds cost any one user at most `epsilon`.

    `plan` holds the settings of a `PrivacyPlan`, all but the noise multiplier, which is rounded up to four digits.
    RecipeError if no noise multiplier reaches `epsilon`, and for a mechanism that Tacit cannot calibrate.

    >>> import tacit
    >>> plan = tacit.calibrate(epsilon=4, rounds=100, population=100_000, cohort=500, clip_norm=0.5, delta=1e-6)
    >>> plan.noise_multiplier
    0.5707
    """
    if "noise_multiplier" in plan:
        raise RecipeError("The argument noise_multiplier is not allowed here: it is what tacit.calibrate finds.")
    if isinstance(epsilon, str) or not epsilon > 0:
        raise RecipeError(f"Expected epsilon to be a number above 0, got {epsilon!r}.")
    asked = PrivacyPlan(**plan, noise_multiplier=LEAST_NOISE)
    kind = asked.kind
    if not kind.correlated and asked.mechanism != "gaussian":
        raise RecipeError(
            f"Expected mechanism to be 'gaussian' or one with correlated noise, such as 'blt', got {asked.mechanism!r}."
        )
    require_rounds(asked, rounds)
    if asked.sampling == CYCLIC:
        return PrivacyPlan(**plan, noise_multiplier=calibrate_cyclic(epsilon, asked, rounds))
    if asked.sampling == "check_in":
        squared = _sensitivity_squared(asked, rounds)
        found = calibrate_unsampled(lambda _: squared, asked.delta, epsilon=epsilon, rounds=rounds)
    else:
        sampling: Literal["poisson", "fixed"] = "fixed" if asked.sampling == "fixed" else "poisson"
        found = calibrate_sampled(
            epsilon,
            asked.delta,
            sampling=sampling,
            population=asked.population,
            cohort=asked.cohort,
            rounds=rounds,
        )
    return PrivacyPlan(**plan, noise_multiplier=found.value)


def _sensitivity_squared(plan: PrivacyPlan, rounds: int) -> float:
    """How far one user moves everything released without sampling, squared, in units of the clip."""
    assert plan.max_participation is not None
    strategy = plan.build_strategy(rounds)
    if strategy is None:
        return gaussian.sensitivity_squared(rounds, plan.gap, plan.max_participation)
    return strategy.sensitivity(rounds, plan.gap, plan.max_participation, list(plan.restarts)).squared
