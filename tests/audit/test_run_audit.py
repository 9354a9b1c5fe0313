"""A run with canaries and its audit: the ledger records the plan without its canaries, and a broken mechanism is caught."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import tacit
from tacit.audit.outcome import BROKEN, BY_TRAJECTORY, AuditOutcome
from tacit.audit.plans import mixed_plan
from tacit.audit.run_audit import AsTrained, audit_run
from tacit.data.canaries.plan import CanaryPlan, encode, load_plan
from tacit.errors import AuditError, PrivacyError
from tacit.learning.batches import TextBatches
from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.gate.sums import ClipThresholds, Contributions, Diagnostics, Gate
from tacit.privacy.noise.mechanisms.gaussian import Gaussian, NoNoise
from tacit.privacy.participation.limits import Participation
from tacit.privacy.participation.log import verified
from tacit.privacy.record.facts import PlantedCanaries
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.statement.guarantee import Guarantee
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.cost import cohorts_for_owner, cost_of
from tacit.runs.evidence import evidence_of
from tacit.runs.folder import RunFolder
from tacit.runs.report.reading import read_run
from tacit.runs.report.sections import read_sections, write_section
from tacit.simulation.training import engine_of, resume_run, start_run
from tacit.training.datasets import open_dataset
from tacit.training.recipes import RecipeSetup
from tests.support.list_users import ListUsers
from tests.support.tiny_recipe import tiny

PEOPLE, COINS = 40, 160
WORLD = {"world": "keyboard", "seed": 1}


def recipe_of(plan: Path, **sections: dict[str, Any]) -> Recipe:
    """Everybody in each of two rounds, and so much noise that epsilon is below one."""
    changes: dict[str, dict[str, Any]] = {
        "model": {"embedding": 16, "units": 16, "projection": 16},
        "data": {"users": PEOPLE, "vocabulary": 1200},
        "work": {"batch_size": 4, "learning_rate": 2.0},
        "privacy": {"population": PEOPLE, "cohort": PEOPLE, "clip_norm": 0.05, "noise_multiplier": 8.0, "delta": 1e-7},
        "server": {"optimizer": "sgd"},
        "run": {"rounds": 2, "checkpoint_every": 1},
        "engine": {"chunk": 64},
    }
    for name, change in sections.items():
        changes[name] = {**changes.get(name, {}), **change}
    tree = tiny(**changes).model_dump(mode="json", exclude_none=True)
    return parse_recipe({**tree, "audit": {"plan": str(plan)}})


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "canaries.json"
    words = open_dataset(tiny(data={"users": PEOPLE, "vocabulary": 1200})).words
    settings: dict[str, Any] = {"devices": 1, "sharers": 1, "coins": COINS, "copies": 4, "examples_per_device": 6}
    mixed_plan(words, WORLD, population=PEOPLE, seed=11, expected_sharers=(2, 4, 8), **settings).save(path)
    return path


@pytest.fixture(scope="module")
def coins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "coins.json"
    words = open_dataset(tiny(data={"users": PEOPLE, "vocabulary": 1200})).words
    mixed_plan(words, WORLD, population=PEOPLE, seed=11, coins=COINS, copies=4).save(path)
    return path


def trained(plan: Path, out: Path, **sections: dict[str, Any]) -> Path:
    start_run(recipe_of(plan, **sections), out, tacit.Callback())
    return out


@pytest.fixture(scope="module")
def run(plan: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(plan, tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="module")
def found(run: Path) -> AuditOutcome:
    return audit_run(run, suffixes=50)


def test_the_ledger_says_that_canaries_were_planted_and_not_which(run: Path, plan: Path) -> None:
    ledger = read_ledger(run / "ledger.jsonl")
    assert ledger.opened.planted == PlantedCanaries(
        plan=load_plan(plan).digest(), canaries=18 + COINS, devices=63, coin_users=COINS, device_rate=None
    )
    stated = Guarantee.of(ledger, spent_by(ledger.opened, ledger.intents))
    assert 0 < stated.epsilon < 1
    assert f"{63 + COINS} made-up users" in stated.as_markdown()


def test_no_file_but_the_owners_section_holds_a_canary(run: Path, plan: Path, found: AuditOutcome) -> None:
    write_section(RunFolder.open(run), found.section())
    secrets = [canary.text.encode() for canary in load_plan(plan).canaries]
    holding = {
        path.relative_to(run).as_posix()
        for path in run.rglob("*")
        if path.is_file() and any(secret in path.read_bytes() for secret in secrets)
    }
    assert holding == {"private/sections/60-audit.json"}
    assert [each.name for each in read_sections(RunFolder.open(run), share=True)] == ["gate-audit"]
    assert not any(secret.decode() in json.dumps(found.as_dict()) for secret in secrets)


def test_a_sound_run_passes(found: AuditOutcome) -> None:
    assert found.proven is not None
    assert 0 < found.proven.epsilon < 1
    assert not found.broken
    assert len(found.attacked) == 18
    assert all(1 <= each.rank <= 51 for each in found.attacked)
    assert {b.canaries for b in found.bounds.values()} == {COINS}
    assert all(b.epsilon <= found.proven.epsilon < b.strongest for b in found.bounds.values())
    assert "No lower bound exceeds" in found.words()[-1]


def test_exposures_are_what_training_read(found: AuditOutcome) -> None:
    """Everybody takes part in both rounds: a device's copies are read twice, as many of them as its rows hold."""
    whole = {row.setting: row for row in found.exposures}["n_u = 4, n_e = 6"]
    assert whole.seen == 2 * 4 * 3  # 24 predictions: bos, five words, eos, and again; the fourth is cut
    assert whole.expected == 2 * 4 * 3  # of the six copies that were planted, as many as can be read
    assert whole.holders == 4


@pytest.mark.slow
def test_cohorts_of_one_size_are_drawn_from_people_and_made_up_users_alike(plan: Path, tmp_path: Path) -> None:
    """As many are expected as rounds of 40 out of 40 people, 63 devices and 160 canary users make; twice, in two epochs."""
    changes = {"privacy": {"sampling": "fixed"}, "work": {"epochs": 2}}
    found = audit_run(trained(plan, tmp_path / "run", **changes), suffixes=50)
    whole = {row.setting: row for row in found.exposures}["n_u = 16, n_e = 6"]
    assert whole.expected == pytest.approx(2 * 2 * 16 * 3 * PEOPLE / (PEOPLE + 63 + COINS))
    assert whole.seen % 2 == 0


def test_noise_left_out_is_caught(coins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Gaussian, bounded: Any, state: Any, *, key: Any) -> Any:
        return NoNoise(self.noise_multipliers).release(bounded, state, key=key)

    monkeypatch.setattr(Gaussian, "release", forgetful)
    found = audit_run(trained(coins, tmp_path / "run"))
    assert found.proven is not None
    assert found.proven.epsilon < 1  # what is claimed
    assert found.bounds[BY_TRAJECTORY].epsilon > 1
    assert found.broken
    assert found.words()[-1] == BROKEN


def test_a_clip_that_is_not_applied_is_caught(coins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Gate.admit

    def lenient(self: Gate, contributions: Contributions) -> Diagnostics:
        stated, self.norms = self.norms, dataclasses.replace(self.norms, clip=1e6)
        try:
            return sound(self, contributions)
        finally:
            self.norms = stated

    monkeypatch.setattr(Gate, "admit", lenient)
    small = {"privacy": {"clip_norm": 1e-3}}
    found = audit_run(trained(coins, tmp_path / "run", **small))
    assert found.proven is not None
    assert found.proven.epsilon < 1
    assert found.broken


def test_made_up_users_may_come_at_a_rate_of_their_own(plan: Path, tmp_path: Path) -> None:
    """Synthetic users are in every round, real users in one out of four: the proven epsilon is that of every round."""
    often = tmp_path / "often.json"
    load_plan(plan).model_copy(update={"device_rate": 1.0}).save(often)
    run = trained(often, tmp_path / "run", privacy={"cohort": PEOPLE / 4})
    ledger = read_ledger(run / "ledger.jsonl")
    for cohort in verified(RunFolder.open(run).participation_path, ledger):
        assert (cohort.users >= PEOPLE).sum() == 63 + COINS
        assert (cohort.users < PEOPLE).sum() < PEOPLE
    found = audit_run(run, suffixes=50)
    assert found.proven is not None
    people = spent_by(ledger.opened, ledger.intents).epsilon
    assert people < found.proven.epsilon < 1
    assert "rate of their own" in Guarantee.of(ledger, spent_by(ledger.opened, ledger.intents)).as_markdown()


def test_devices_stand_beside_what_their_own_participation_costs(tmp_path: Path) -> None:
    """Not a coin here: devices are in every round, people in one out of four. Sharers are people, who have their statement."""
    words = open_dataset(tiny(data={"users": PEOPLE, "vocabulary": 1200})).words
    proven = {}
    for kind, settings in {
        "devices": {"devices": 1, "device_rate": 1.0, "examples_per_device": 6},
        "sharers": {"sharers": 1, "expected_sharers": (2, 4, 8)},
    }.items():
        mixed_plan(words, WORLD, population=PEOPLE, seed=11, **settings).save(tmp_path / f"{kind}.json")  # type: ignore[arg-type]
        run = trained(tmp_path / f"{kind}.json", tmp_path / kind, privacy={"cohort": PEOPLE / 4})
        proven[kind] = audit_run(run, suffixes=50).proven
    ledger = read_ledger(tmp_path / "devices" / "ledger.jsonl")
    assert proven["sharers"] is None
    assert proven["devices"] is not None
    assert 2 * spent_by(ledger.opened, ledger.intents).epsilon < proven["devices"].epsilon < 1


def test_a_plan_that_does_not_fit_is_refused(run: Path, plan: Path, tmp_path: Path) -> None:
    def audited(**changes: Any) -> Recipe:
        path = tmp_path / "other.json"
        load_plan(plan).model_copy(update=changes).save(path)
        return recipe_of(path)

    with pytest.raises(AuditError, match="seed 2"):
        open_dataset(audited(data={"world": "keyboard", "seed": 2}))
    with pytest.raises(AuditError, match="no canary plan"):
        open_dataset(recipe_of(tmp_path / "absent.json"))
    rated = {"device_rate": 0.5}
    tree = audited(**rated).model_dump(mode="json", exclude_none=True)
    tree["privacy"] |= {"sampling": "fixed", "secagg": {"bits": 16}}
    with pytest.raises(AuditError, match=r"no rate of their own, got 0\.5"):
        open_dataset(parse_recipe(tree))


def test_devices_come_as_often_as_they_like_where_people_check_in(tmp_path: Path) -> None:
    """Devices are in every round; people wait a round in between, and the limits and the statement are about people alone."""
    words = open_dataset(tiny(data={"users": PEOPLE, "vocabulary": 1200})).words
    settings: dict[str, Any] = {"devices": 1, "device_rate": 1.0, "examples_per_device": 6}
    mixed_plan(words, WORLD, population=PEOPLE, seed=11, **settings).save(tmp_path / "devices.json")
    check_in = {"mechanism": "tree", "sampling": "check_in", "min_separation": 1, "cohort": PEOPLE / 2}
    rounds = {"rounds": 4}
    run = trained(tmp_path / "devices.json", tmp_path / "run", privacy=check_in, run=rounds)
    ledger = read_ledger(run / "ledger.jsonl")
    for cohort in verified(RunFolder.open(run).participation_path, ledger):
        assert (cohort.users >= PEOPLE).sum() == 63
        assert (cohort.users < PEOPLE).sum() == PEOPLE / 2
    evidence = evidence_of(run)
    assert evidence.users is not None
    cost = cost_of(evidence.folder, evidence.ledger, cohorts=evidence.users)
    assert math.isfinite(cost.stated.epsilon)
    assert cost.happened is not None
    assert cost.happened.participation == Participation(1, 2, observed=True)
    assert cost_of(evidence.folder, cohorts=cohorts_for_owner(evidence.folder, ledger)) == cost
    assert read_run(RunFolder.open(run), share=False).guarantee is not None
    proven = audit_run(run, suffixes=50).proven
    assert proven is not None
    assert cost.stated.epsilon < proven.epsilon < math.inf


def test_a_run_goes_on_with_the_plan_it_was_begun_with_or_not_at_all(plan: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    load_plan(plan).save(mine)
    run = trained(mine, tmp_path / "run")
    load_plan(plan).model_copy(update={"seed": 12}).save(mine)
    with pytest.raises(PrivacyError, match=r"planted\.plan"):
        audit_run(run)
    ledger = (run / "ledger.jsonl").read_text().splitlines(keepends=True)
    assert '"closed"' in ledger[-1]
    (run / "ledger.jsonl").write_text("".join(ledger[:-1]))
    with pytest.raises(PrivacyError, match=r"planted\.plan"):
        resume_run(run, tacit.Callback())


def test_a_run_without_canaries_is_refused(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "plain", tiny().to_toml())
    with pytest.raises(AuditError, match="planted canaries"):
        audit_run(tmp_path / "plain")


def test_an_example_counts_if_its_last_word_is_read() -> None:
    users = ListUsers([[[5, 6], [7, 8, 9], [4]], [], [[4] * 9, [5]]])
    everyone = np.arange(3)
    # Streams of 4, 5 and 3 tokens, 8 predictions: the first nine tokens are read, the ninth is an eos.
    kept = AsTrained(users, TextBatches("windows", 4, 2, 1)).gather(everyone)
    assert np.diff(kept.user_offsets).tolist() == [2, 0, 0]
    assert kept.items.tolist() == [5, 6, 7, 8, 9]
    kept = AsTrained(users, TextBatches("sentences", 4, 2, 1)).gather(everyone)
    assert np.diff(kept.user_offsets).tolist() == [2, 0, 1]


@pytest.mark.parametrize("estimator", ["fixed", "clipped"])
def test_who_is_out_gives_nothing_to_any_block(coins: Path, estimator: str) -> None:
    """Otherwise in and out would differ in more than one user's data, which the proven epsilon does not cover."""
    weights = {"estimator": "clipped", "total_weight": 20, "example_cap": 100} if estimator == "clipped" else {}
    adaptive = {"quantile": 0.5, "count_noise": 10.0}
    setup = RecipeSetup.build(recipe_of(coins, privacy={"adaptive": adaptive, "noise_multiplier": 1.0, **weights}))
    engine, drawn, norms = engine_of(setup), load_plan(coins), ClipThresholds(0.05, 1e-6)

    def blocks(users: np.ndarray) -> dict[str, float]:
        cohort = SimpleNamespace(chunks=engine.prepare(users))
        bounded, _ = engine.collect(setup.start.model, cohort, norms)
        return {
            name: max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(block.total))
            for name, block in bounded.blocks.items()
        }

    tossed = PEOPLE + np.arange(COINS)
    out, inside = blocks(tossed[~drawn.coins()]), blocks(tossed[drawn.coins()])
    assert set(out) == {"update", "within"} | ({"weight"} if estimator == "clipped" else set())
    assert set(out.values()) == {0.0}
    assert min(inside.values()) > 0


def test_coin_users_hold_copies_or_nothing(plan: Path) -> None:
    drawn: CanaryPlan = load_plan(plan)
    users = open_dataset(recipe_of(plan)).train
    last = len(users) - COINS + np.arange(COINS)
    sizes = np.diff(users.gather(last).user_offsets)
    assert sizes.tolist() == np.where(drawn.coins(), 4, 0).tolist()
    assert 0.3 < drawn.coins().mean() < 0.7
    words = open_dataset(recipe_of(plan)).words
    first = int(np.flatnonzero(drawn.coins())[0])
    held = users.gather(last[first : first + 1]).items.reshape(4, 5)
    assert (held == encode(drawn.canaries, words)[drawn.coin_canaries()[first]]).all()
