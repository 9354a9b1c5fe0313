"""Whole runs whose sums go through secure aggregation: the ledger has its bound, and the protocol changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacit
from tacit.errors import RecipeError
from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.participation.log import verified
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.statement.guarantee import Guarantee
from tacit.recipe.training import Recipe
from tacit.runs.journal import RunJournal, StopRequested
from tacit.simulation.training import resume_run, start_run
from tests.support.run_arrays import assert_same_arrays, final_arrays
from tests.support.stopping import stop_after
from tests.support.tiny_recipe import tiny

pytestmark = pytest.mark.usefixtures("cache_of_our_own")

CHECK_IN = {"sampling": "check_in", "min_separation": 3, "cohort": 12, "noise_multiplier": 4.0}


def recipe_of(
    mechanism: str, secagg: dict[str, Any] | None, privacy: dict[str, Any] | None = None, **run: Any
) -> Recipe:
    settings = {"mechanism": mechanism, **CHECK_IN, **(privacy or {})}
    return tiny(privacy=settings | ({} if secagg is None else {"secagg": secagg}), run={"rounds": 4, **run})


def test_correlated_noise_accounts_the_inflated_bound_without_knowing(tmp_path):
    summary = start_run(recipe_of("blt", {"bits": 12}), tmp_path / "run", tacit.Callback())
    ledger = read_ledger(tmp_path / "run" / "ledger.jsonl")
    bounds = {intent.blocks["update"]["bound"] for intent in ledger.intents}
    constants = ledger.opened.secure_sum
    assert len(bounds) == 1
    assert bounds.pop() == pytest.approx(0.3 * np.sqrt(constants.norm_limit_squared) / constants.scale, rel=1e-5)
    assert constants.element_clip * 12 < 1 << 11
    assert summary["privacy"]["rho"] >= 1 / 32  # one participation alone is 1/(2 z²)
    assert Guarantee.of(ledger, spent_by(ledger.opened, ledger.intents)).private


def test_wide_integers_train_nearly_the_model_of_plain_sums_which_know_nothing_of_them(tmp_path):
    for name, secagg in (("plain", None), ("wide", {"bits": 30})):
        recipe = recipe_of("none", secagg, {"noise_multiplier": 0.0}, rounds=2, seed=3)
        start_run(recipe, tmp_path / name, tacit.Callback())
    wide, plain = final_arrays(tmp_path / "wide"), final_arrays(tmp_path / "plain")
    off = max(np.abs(wide[key] - plain[key]).max() for key in plain)
    assert 0 < off < 1e-5
    for name in ("recipe.toml", "summary.json"):
        assert "secagg" not in (tmp_path / "plain" / name).read_text()
    ledger = read_ledger(tmp_path / "plain" / "ledger.jsonl")
    assert (ledger.opened.secure_sum, ledger.opened.plan["secagg"]) == (None, None)
    assert ledger.intents[0].blocks["update"]["bound"] == 0.3


def test_the_whole_protocol_stopped_and_resumed_trains_the_model_of_plain_integer_sums(tmp_path):
    section = {"bits": 20, "scheme": "device_noise"}
    plain, masked = (
        recipe_of("discrete", {**section, "protocol": each}, {"cohort": 5}, rounds=3, seed=5) for each in (False, True)
    )
    start_run(plain, tmp_path / "plain", tacit.Callback())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunJournal, "before", stop_after(RunJournal.before, 1))
        with pytest.raises(StopRequested):
            start_run(masked, tmp_path / "masked", tacit.Callback())
    resume_run(tmp_path / "masked", tacit.Callback())
    assert_same_arrays(tmp_path / "plain", tmp_path / "masked")


def test_noise_from_devices_states_rho_from_how_many_are_promised(tmp_path):
    summary = start_run(
        recipe_of("discrete", {"scheme": "device_noise", "corrupt": 0.1}), tmp_path / "run", tacit.Callback()
    )
    privacy, ledger = summary["privacy"], read_ledger(tmp_path / "run" / "ledger.jsonl")
    cohorts = [cohort.users for cohort in verified(tmp_path / "run" / "private" / "participation.bin", ledger)]
    assert {len(cohort) for cohort in cohorts} == {12}
    assert privacy["rho"] == spent_by(ledger.opened, ledger.intents).rho
    assert privacy["rho"] == pytest.approx(spent_by(ledger.opened, ledger.intents, cohorts=cohorts).rho)  # all came
    assert privacy["rho"] == pytest.approx(1 / 32, rel=1e-2)  # once in four rounds, at z = 4
    assert 0 < privacy["epsilon"] < 10
    found = Guarantee.of(ledger, spent_by(ledger.opened, ledger.intents, cohorts=cohorts))
    assert found.private


def test_adaptive_clipping_and_weights_cross_as_integers(tmp_path):
    extra = {"adaptive": {"count_noise": 4.0}, "estimator": "clipped", "total_weight": 300.0, "example_cap": 20.0}
    start_run(
        recipe_of("gaussian", {"bits": 20}, {**extra, "noise_multiplier": 2.0}), tmp_path / "run", tacit.Callback()
    )
    ledger = read_ledger(tmp_path / "run" / "ledger.jsonl")
    assert set(ledger.intents[0].blocks) == {"update", "weight", "within"}
    bounds = [intent.blocks["update"]["bound"] for intent in ledger.intents]
    assert len(set(bounds)) > 1  # the clip moves, and the bound with it
    assert Guarantee.of(ledger, spent_by(ledger.opened, ledger.intents)).private


def test_a_recipe_names_the_field_that_does_not_fit():
    with pytest.raises(
        RecipeError, match=r"^Expected privacy\.secagg\.bits ≥ 5, so that the sum of 12 users cannot wrap"
    ):
        recipe_of("gaussian", {"bits": 4})
    with pytest.raises(RecipeError, match=r"Unknown key privacy\.secagg\.bit"):
        recipe_of("gaussian", {"bit": 4})
