"""Whole runs with banded noise on cyclically sampled users: groups take turns over a resume, and lost rounds count."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.data.users import names_of_numbers
from tacit.errors import AuditError, LedgerError, RunError
from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.participation.cyclic import CyclicPoisson, groups_of
from tacit.privacy.participation.log import verified
from tacit.privacy.participation.samplers import Poisson
from tacit.privacy.record.ledger import Ledger, read_ledger
from tacit.privacy.record.records import UPDATE
from tacit.privacy.statement.assumptions import Observed
from tacit.privacy.statement.guarantee import Guarantee
from tacit.privacy.statement.wording import round_up
from tacit.recipe.target import at_epsilon
from tacit.recipe.training import Recipe
from tacit.runs.evidence import evidence_of
from tacit.runs.folder import RunFolder
from tacit.runs.journal import RunJournal
from tacit.runs.provenance import with_reasons
from tacit.simulation.training import program_of, resume_run, start_run
from tacit.training.datasets import require_plantable
from tacit.training.recipes import RecipeSetup
from tests.support.run_arrays import assert_same_arrays
from tests.support.stopping import stopped
from tests.support.tiny_recipe import tiny

pytestmark = pytest.mark.usefixtures("cache_of_our_own")

BANDS = 3
GROUP = groups_of(names_of_numbers(np.arange(400)), BANDS)


def cyclic(*, privacy: dict[str, Any] | None = None, **run: Any) -> Recipe:
    plan = {"mechanism": "banded", "sampling": "cyclic_poisson", "bands": BANDS, "noise_multiplier": 2.0}
    return tiny(privacy=plan | (privacy or {}), run=run)


def cohorts(run: Path, ledger: Ledger) -> list[tuple[int, np.ndarray]]:
    return [(cohort.round, cohort.users) for cohort in verified(run / "private" / "participation.bin", ledger)]


def assert_in_turn(run: Path) -> Ledger:
    ledger = read_ledger(run / "ledger.jsonl")
    for round, users in cohorts(run, ledger):
        assert len(users)
        assert (GROUP[users] == round % BANDS).all()
    return ledger


def test_a_run_draws_from_groups_in_turn_and_states_what_that_costs(tmp_path):
    run = tmp_path / "run"
    summary = start_run(cyclic(), run, tacit.Callback())
    ledger = assert_in_turn(run)
    assert ledger.intents[0].sampling == {"kind": "cyclic_poisson", "probability": BANDS * 12 / 400, "groups": BANDS}
    assert ledger.intents[0].denominator == 12
    privacy = summary["privacy"]
    assert privacy["epsilon"] == spent_by(ledger.opened, ledger.intents).epsilon < 3
    assert (privacy["adjacency"], privacy["rho"]) == ("add or remove one user", None)
    assert evidence_of(run).cohorts == "the cohorts agree with the stated sampling"
    said = tacit.open_run(run).guarantee().as_markdown()
    assert (
        "each user belongs to one of 3 groups that take turns, so a group has 2 of the planned rounds at most" in said
    )
    assert "A user's group is a keyed hash of their own name" in said
    with pytest.raises(RunError, match="correlated between rounds, and was planned and charged for this number"):
        tacit.resume(run, rounds=9)


def test_whoever_knows_the_cohorts_gets_the_cost_of_whole_columns(tmp_path):
    """The secrecy of the sample is part of the protection: the owner is told what is left without it."""
    run = tmp_path / "run"
    start_run(cyclic(rounds=5), run, tacit.Callback())
    ledger = read_ledger(run / "ledger.jsonl")
    spent = spent_by(ledger.opened, ledger.intents)
    text = Guarantee.of(ledger, spent, observed=Observed(2)).as_markdown()
    column = sum(each**2 for each in ledger.opened.strategy["coefficients"])
    assert column > 1.2
    assert f"which makes rho {round_up(2 * column * (1 + 1e-12) / (2 * 2.0**2), 4)}" in text
    assert "rho = k s²/(2z²)" in text


def test_a_seeded_run_that_was_stopped_goes_on_with_the_same_groups_and_noise(tmp_path):
    recipe = cyclic(seed=5, rounds=5)
    start_run(recipe, tmp_path / "whole", tacit.Callback())
    stopped(recipe, tmp_path / "run", 2)
    resume_run(tmp_path / "run", tacit.Callback())
    assert_same_arrays(tmp_path / "whole", tmp_path / "run")
    assert_in_turn(tmp_path / "run")


def test_rounds_that_were_lost_share_a_coin_with_those_that_replace_them(tmp_path, monkeypatch):
    """Killed in round 5, with a checkpoint after 4 rounds: rounds 4 and 5 run again, beside rows that hold rounds 2 and 3."""
    recipe, before = cyclic(rounds=6, checkpoint_every=4), RunJournal.before

    def dying(self: RunJournal, cohort: Any, norms: Any) -> None:
        before(self, cohort, norms)
        if cohort.round == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "before", dying)
        with pytest.raises(KeyboardInterrupt):
            start_run(recipe, tmp_path / "run", tacit.Callback())
    summary = resume_run(tmp_path / "run", tacit.Callback())
    ledger = assert_in_turn(tmp_path / "run")
    assert [(intent.round, intent.attempt) for intent in ledger.intents][4:] == [(4, 0), (5, 0), (4, 1), (5, 1)]
    planned = spent_by(ledger.opened, ())
    assert planned.epsilon < summary["privacy"]["epsilon"] < math.inf
    assert evidence_of(tmp_path / "run").cohorts == "the cohorts agree with the stated sampling"


def program(tmp_path: Path, recipe: Recipe) -> tuple[Any, RunFolder]:
    setup = RecipeSetup.build(recipe)
    folder = RunFolder.create(tmp_path / "run", recipe.to_toml(), vocabulary=setup.dataset.words)
    return program_of(setup, folder), folder


@pytest.mark.parametrize(
    "sampler",
    [Poisson(BANDS * 12 / 400), Poisson(12 / 400), CyclicPoisson(0.08, BANDS), CyclicPoisson(BANDS * 12 / 400, 4)],
)
def test_another_sampler_claims_nothing(tmp_path, sampler):
    sound, _ = program(tmp_path, cyclic())
    assert not with_reasons(sound).reasons_not_private
    assert "sampler" in with_reasons(dataclasses.replace(sound, sampler=sampler)).reasons_not_private[0].sentence


def test_a_sampler_that_forgets_the_groups_is_caught_by_its_cohorts(tmp_path, monkeypatch):
    def anybody(self: CyclicPoisson, draws: Any) -> Any:
        return Poisson(self.probability / self.groups).sample(draws)

    monkeypatch.setattr(CyclicPoisson, "sample", anybody)
    start_run(cyclic(rounds=3), tmp_path / "run", tacit.Callback())
    with pytest.raises(LedgerError, match="a user whose group has its turn in other rounds"):
        evidence_of(tmp_path / "run")


def test_a_ledger_whose_strategy_is_wider_than_its_groups_claims_nothing(tmp_path):
    sound, _ = program(tmp_path, cyclic())
    wide = {"strategy": "banded", "coefficients": [1.0, 0.5, 0.4, 0.3], "horizon": 6}
    assert math.isinf(spent_by(dataclasses.replace(sound.opened, strategy=wide), ()).epsilon)
    changed = dataclasses.replace(sound, opened=dataclasses.replace(sound.opened, strategy=wide))
    assert "mechanism" in with_reasons(changed).reasons_not_private[0].sentence


def test_the_noise_for_a_target_is_found_before_the_first_round():
    targeted = at_epsilon(cyclic(), 4.0)
    assert 3.9 < targeted.planned.epsilon <= 4.0
    assert targeted.recipe.privacy.bands == BANDS
    assert targeted.recipe.privacy.noise_multipliers[UPDATE] == targeted.recipe.privacy.noise_multiplier


def test_made_up_users_with_a_rate_of_their_own_are_refused():
    class Plan:
        device_rate, synthetic_users = 0.5, 3

    with pytest.raises(AuditError, match="cyclic sampling"):
        require_plantable(Plan(), cyclic().privacy, iid=False)  # type: ignore[arg-type]
