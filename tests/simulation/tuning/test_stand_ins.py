"""Stand-ins: who they are, the noise of their runs, and that nothing about private users is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.data.users import all_names
from tacit.errors import DataError, PrivacyError, RecipeError, StoreError
from tacit.privacy.plan import PrivacyPlan
from tacit.recipe.training import Recipe, parse_recipe
from tacit.simulation.tuning.stand_ins import (
    StandIns,
    parts_of,
    public_people,
    public_section,
    require_public_stand_ins,
    stand_in_plan,
    stand_in_recipe,
    trainable_parts,
)
from tests.support.public_text import PEOPLE, tree_with, write_public

PLANS: dict[str, dict[str, Any]] = {
    "poisson": {},
    "nearly everybody": {"cohort": 1_900},
    "fixed": {"sampling": "fixed"},
    "weighted": {"example_cap": 20, "estimator": "clipped", "total_weight": 300},
    "adaptive": {"adaptive": {"count_noise": 25.0}},
    "check-in": {"sampling": "check_in", "mechanism": "blt", "min_separation": 4, "max_participation": 9},
}


def recipe(**sections: dict[str, Any]) -> Recipe:
    return parse_recipe(tree_with("public", "the/private/store", **sections))


def test_everybody_is_in_one_part_by_their_own_name() -> None:
    names = np.random.default_rng(1).integers(0, 2**63, (4_000, 2)).astype(np.uint64)
    parts = parts_of(names)
    assert sorted(np.concatenate(parts).tolist()) == list(range(4_000))
    for part, share in zip(parts, (0.5, 0.4, 0.1), strict=True):
        assert len(part) / 4_000 == pytest.approx(share, abs=0.03)
    fewer = np.delete(names, 17, axis=0)  # one person less changes nobody else's part
    for part, again in zip(parts, parts_of(fewer), strict=True):
        kept = {tuple(each) for each in names[part].tolist()} - {tuple(names[17].tolist())}
        assert {tuple(each) for each in fewer[again].tolist()} == kept


@pytest.mark.parametrize("changes", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("people", [20, 150, 5_000])
def test_the_noise_on_the_mean_is_that_of_the_private_run(changes: dict[str, Any], people: int) -> None:
    plan = PrivacyPlan(
        **{"population": 2_000, "cohort": 400, "clip_norm": 0.3, "noise_multiplier": 1.5, "delta": 1e-4, **changes}
    )
    found = stand_in_plan(plan, people, rounds=30)
    for block, noise in plan.noise_multipliers.items():
        assert found.noise_multipliers[block] / found.cohort == pytest.approx(noise / plan.cohort, rel=1e-9)
    assert found.noise_multiplier * 0.3 / found.denominator == pytest.approx(1.5 * 0.3 / plan.denominator)
    assert found.population == min(people, 2_000)
    assert found.clip_norm == plan.clip_norm
    found.check_rounds(30)


@given(people=st.integers(10, 3_000), cohort=st.integers(1, 2_000))
def test_a_stand_in_cohort_is_the_private_share_or_at_most_a_quarter(people: int, cohort: int) -> None:
    plan = PrivacyPlan(population=2_000, cohort=cohort, clip_norm=0.3, noise_multiplier=1.0, delta=1e-4)
    found = stand_in_plan(plan, people, rounds=3)
    assert found.cohort <= max(cohort, 1)
    assert found.cohort >= min(plan.sampling_probability * found.population, cohort) - 1e-9
    assert found.cohort <= max(plan.sampling_probability, 0.25) * found.population + 1


def test_a_stand_in_run_names_no_private_user() -> None:
    private = recipe(vocabulary={"epsilon": 1.0}, audit={"plan": "canaries.json", "public": "x"}, data={"held_out": 7})
    found = stand_in_recipe(private, "public", people=40, seed=3)
    assert "private" not in found.to_toml().replace("[privacy]", "")
    assert found.data.store == "public"
    assert found.reasons_not_private()  # seeded: it claims nothing
    for section in (found.vocabulary, found.audit, found.pretrain, found.scale, found.fleet, found.population):
        assert section is None
    assert (found.data.length, found.work, found.server) == (private.data.length, private.work, private.server)


def test_a_recipe_without_a_public_store_is_refused() -> None:
    tree = tree_with("public", "private")
    del tree["pretrain"]
    with pytest.raises(RecipeError, match=r"a store in pretrain\.store, got no \[pretrain\]"):
        public_section(parse_recipe(tree))
    tree["pretrain"] = {"world": "keyboard", "epochs": 1}
    with pytest.raises(RecipeError, match=r"a store in pretrain\.store, got a world"):
        public_section(parse_recipe(tree))


def test_the_private_store_is_no_public_text_under_any_name(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "public").symlink_to(tmp_path / "private")
    for name in ("private", "public", "./private/../private"):
        with pytest.raises(PrivacyError, match="the private store itself"):
            public_section(parse_recipe(tree_with(f"{tmp_path}/{name}", tmp_path / "private")))


def test_people_of_a_public_store(tmp_path: Path) -> None:
    section = public_section(recipe(pretrain={"store": str(write_public(tmp_path / "public"))}))
    people = public_people(section)
    parts = [people.pretraining, people.stand_ins, people.held_out]
    assert sum(map(len, parts)) == PEOPLE
    assert len({tuple(each) for part in parts for each in all_names(part).tolist()}) == PEOPLE
    assert len(people.words) == 60
    fewer = public_people(section, most_words=20)
    assert fewer.words == people.words[:20]
    assert fewer.stand_ins.gather(np.arange(5)).items.max() < 20
    some = public_people(section.model_copy(update={"users": 60}))
    assert sum(map(len, (some.pretraining, some.stand_ins, some.held_out))) == 60


def test_too_few_public_people_are_refused(tmp_path: Path) -> None:
    section = public_section(recipe(pretrain={"store": str(write_public(tmp_path / "public", 8))}))
    with pytest.raises(DataError, match=r"Expected at least 10 stand-ins .* got \d of 8"):
        public_people(section)
    with pytest.raises(StoreError, match="There is no store"):
        public_people(section.model_copy(update={"store": str(tmp_path / "gone")}))


def test_the_setup_of_a_stand_in_run_has_the_private_runs_correlated_noise_and_no_odometer(tmp_path: Path) -> None:
    plan = {"sampling": "check_in", "mechanism": "blt", "min_separation": 3, "cohort": 400}
    private = recipe(pretrain={"store": str(write_public(tmp_path / "public"))}, privacy=plan, run={"rounds": 8})
    standing = StandIns.prepared(private)
    setup = standing.setup(private, seed=1)
    wanted = private.privacy.build_strategy(8)
    assert setup.strategy is not None
    assert wanted is not None
    assert setup.strategy.describe() == wanted.describe()
    assert setup.store is None
    assert len(setup.dataset.train) == len(standing.people.stand_ins) == setup.plan.population
    held_out = {tuple(each) for each in all_names(standing.people.held_out).tolist()}
    assert not held_out & {tuple(each) for each in all_names(setup.dataset.train).tolist()}


def test_parts_of_the_model() -> None:
    assert trainable_parts(recipe()) == ("embedding", "cell", "output_bias")
    assert trainable_parts(recipe(model={"tied": False, "output_bias": False})) == ("embedding", "cell", "output")


def test_people_of_another_public_store_stand_in(tmp_path: Path) -> None:
    section = public_section(recipe(pretrain={"store": str(write_public(tmp_path / "public", 30))}))
    people = public_people(section, stand_ins=write_public(tmp_path / "forum"))
    assert len(people.pretraining) == 30  # all of the first store
    assert len(people.stand_ins) + len(people.held_out) == PEOPLE
    assert 0.6 * PEOPLE < len(people.stand_ins) < 0.95 * PEOPLE
    assert people.store == str(tmp_path / "forum")
    with pytest.raises(DataError, match="stand-ins among the people of --stand-ins"):
        public_people(section, stand_ins=write_public(tmp_path / "few", 8))


def test_neither_the_private_store_nor_that_of_pretraining_has_stand_ins(tmp_path: Path) -> None:
    for name in ("public", "private", "forum"):
        (tmp_path / name).mkdir()
    followed = parse_recipe(tree_with(tmp_path / "public", tmp_path / "private"))
    with pytest.raises(PrivacyError, match=r"in --stand-ins, got .* the private store itself"):
        require_public_stand_ins(followed, tmp_path / "public" / ".." / "private")
    with pytest.raises(DataError, match=r"Expected another store than pretrain\.store in --stand-ins"):
        require_public_stand_ins(followed, tmp_path / "public")
    require_public_stand_ins(followed, tmp_path / "forum")
