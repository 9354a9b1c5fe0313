"""No privacy is claimed for a program with a mechanism, a sampler or an engine that its plan did not build."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import tacit
from tacit.errors import PrivacyError
from tacit.learning.batches import OneUserAtATime, TextBatches
from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.noise.mechanisms.gaussian import Gaussian, NoNoise
from tacit.privacy.participation.samplers import CheckIn, FixedSize, OwnRate, Poisson
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import DataRecord
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.reasons import Why
from tacit.privacy.statement.assumptions import assumptions_of
from tacit.privacy.statement.guarantee import Guarantee
from tacit.privacy.statement.wording import Mark
from tacit.recipe.training import Recipe
from tacit.runs.driver import begin, go_on
from tacit.runs.folder import RunFolder
from tacit.runs.journal import RunJournal, StopRequested
from tacit.runs.provenance import reasons_of
from tacit.simulation import training
from tacit.simulation.batched import BatchedUsers
from tacit.simulation.program import SimulatedProgram
from tacit.training.recipes import RecipeSetup
from tests.support.stopping import stop_after
from tests.support.tiny_recipe import tiny

CHECK_IN = {"sampling": "check_in", "min_separation": 2, "max_participation": 2}


class Quiet(Gaussian):
    """Called Gaussian, with a Gaussian's fields, and without noise."""

    def release(self, bounded: Any, state: Any, *, key: Any) -> Any:
        return NoNoise(self.noise_multipliers).release(bounded, state, key=key)


@dataclasses.dataclass(frozen=True)
class Alike:
    """A mechanism as the protocol asks for it, from somebody else."""

    noise_multipliers: Any
    name: str = "gaussian"

    def init(self, template: Any) -> tuple[()]:
        return ()

    def release(self, bounded: Any, state: Any, *, key: Any) -> Any:
        return NoNoise(self.noise_multipliers).release(bounded, state, key=key)


class Everybody(Poisson):
    def sample(self, users: int, generator: np.random.Generator) -> Any:
        return np.arange(users, dtype=np.int64)


class Louder(BatchedUsers):
    """Sums without a clip that counts."""

    def update_bound(self, clip: float) -> float:
        return clip / 100


class Mixed(TextBatches):
    pass


class OwnProgram(SimulatedProgram):
    pass


class OwnPlan(PrivacyPlan):
    @property
    def noise_multipliers(self) -> dict[str, float]:
        return {"update": 0.0}


def program_of(tmp_path: Path, recipe: Recipe | None = None) -> tuple[SimulatedProgram, RunFolder]:
    recipe = tiny() if recipe is None else recipe
    setup = RecipeSetup.build(recipe)
    folder = RunFolder.create(tmp_path / "run", recipe.to_toml(), vocabulary=setup.dataset.words)
    return training.program_of(setup, folder), folder


def with_method(value: Any, name: str, method: Any) -> Any:
    object.__setattr__(value, name, method)
    return value


def engine_like(program: SimulatedProgram, kind: type, **changes: Any) -> Any:
    made = object.__new__(kind)
    vars(made).update(vars(program.users) | changes)
    return made


def opened(program: SimulatedProgram, **changes: Any) -> dict[str, Any]:
    return {"opened": dataclasses.replace(program.opened, **changes)}


# What somebody puts in the place of what the plan built, and the reason that is told.
FOREIGN: dict[str, tuple[Callable[[SimulatedProgram], dict[str, Any]], str]] = {
    "a mechanism without noise": (lambda p: {"mechanism": NoNoise(p.mechanism.noise_multipliers)}, "mechanism"),
    "a mechanism of one's own": (lambda p: {"mechanism": Alike(p.mechanism.noise_multipliers)}, "mechanism"),
    "a subclass of a mechanism": (lambda p: {"mechanism": Quiet(p.mechanism.noise_multipliers)}, "mechanism"),
    "a mechanism with less noise": (lambda p: {"mechanism": Gaussian({"update": 0.4})}, "mechanism"),
    "a mechanism with a method of its own": (
        lambda p: {"mechanism": with_method(Gaussian(p.mechanism.noise_multipliers), "release", lambda *a, **k: None)},
        "mechanism",
    ),
    "a sampler of one's own": (lambda p: {"sampler": Everybody(0.03)}, "sampler"),
    "a sampler with another rate": (lambda p: {"sampler": Poisson(0.5)}, "sampler"),
    "a sampler of another kind": (lambda p: {"sampler": FixedSize(12, 400)}, "sampler"),
    "check-ins in place of sampling": (lambda p: {"sampler": CheckIn(12, 0, 100)}, "sampler"),
    "a rate of their own for nobody": (lambda p: {"sampler": OwnRate(Poisson(0.03), 0, 1.0)}, "sampler"),
    "a subclass of the engine": (lambda p: {"users": engine_like(p, Louder)}, "gate is not Tacit's"),
    "an engine with a method of its own": (
        lambda p: {"users": engine_like(p, BatchedUsers, collect=lambda *a: None)},
        "gate is not Tacit's",
    ),
    "an engine with another plan": (
        lambda p: {"users": engine_like(p, BatchedUsers, plan=p.plan.model_copy(update={"clip_norm": 9.0}))},
        "another plan",
    ),
    "batches cut by something else": (
        lambda p: {"users": engine_like(p, BatchedUsers, shape=Mixed(**vars(p.users.shape)))},
        "mix users",
    ),
    "batches cut by something that the ledger does not name": (
        lambda p: {"users": engine_like(p, BatchedUsers, shape=OneUserAtATime(Mixed(**vars(p.users.shape))))},
        "does not name what cuts",
    ),
    "another batching than the ledger names": (
        lambda p: opened(p, batching="somewhere:Else"),
        "does not name what cuts",
    ),
    "a plan of one's own": (lambda p: {"plan": OwnPlan(**p.plan.model_dump())}, "plan is not one of Tacit's"),
    "another plan": (lambda p: {"plan": p.plan.model_copy(update={"noise_multiplier": 0.1})}, "does not describe"),
    "another plan in the ledger": (
        lambda p: opened(p, plan=p.plan.model_copy(update={"noise_multiplier": 8.0}).model_dump(mode="json")),
        "does not describe",
    ),
    "another adjacency in the ledger": (lambda p: opened(p, adjacency="replace one user"), "does not describe"),
    "fewer numbers in the ledger": (
        lambda p: opened(p, release=dataclasses.replace(p.opened.release, coordinates=1)),
        "how many numbers a release has",
    ),
    "something from outside that the plan does not name": (
        lambda p: opened(p, outside={"mechanism": {"version": "1", "description": {}}}),
        "what comes from outside Tacit",
    ),
    "a seed that is not told": (lambda p: {"seed": 5}, "seed"),
    "a clip that was learned before": (
        lambda p: {"start": dataclasses.replace(p.start, clipping={"estimate": np.float64(0.2)})},
        "not the one before the first round",
    ),
    "a server that has stepped before": (
        lambda p: {"start": dataclasses.replace(p.start, server=jax.tree.map(lambda leaf: leaf + 1, p.start.server))},
        "not the one before the first round",
    ),
    "a store without its odometer": (
        lambda p: {**opened(p, data=DataRecord(store="ab")), "store": None},
        "odometer",
    ),
    "a start in the middle": (lambda p: {"start": dataclasses.replace(p.start, round=3)}, "before the first round"),
}


@pytest.mark.parametrize(
    "privacy",
    [
        {},
        {"sampling": "fixed", "population": 400},
        {"mechanism": "tree", **CHECK_IN},
        {"mechanism": "blt", **CHECK_IN},
        {"adaptive": {"count_noise": 5.0}},
        {"estimator": "clipped", "total_weight": 400.0},
        {**CHECK_IN, "secagg": {}},
        {"mechanism": "discrete", **CHECK_IN, "secagg": {"scheme": "device_noise"}},
    ],
)
def test_what_a_recipe_builds_came_from_its_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, privacy: dict[str, Any]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program, _ = program_of(tmp_path, tiny(privacy={"noise_multiplier": 2.0, **privacy}))
    assert reasons_of(program) == []
    foreign = dataclasses.replace(program, mechanism=Alike(program.mechanism.noise_multipliers))
    assert "mechanism" in reasons_of(foreign)[0].sentence


def test_a_batching_of_ones_own_is_called_for_one_user_at_a_time_and_the_statement_says_what_is_assumed(
    tmp_path: Path,
) -> None:
    recipe = tiny()
    setup = RecipeSetup.build(recipe)
    setup = dataclasses.replace(setup, batches=Mixed(**vars(setup.batches)))
    folder = RunFolder.create(tmp_path / "run", recipe.to_toml(), vocabulary=setup.dataset.words)
    program = training.program_of(setup, folder)
    assert type(program.users.shape) is OneUserAtATime
    assert reasons_of(program) == []
    assert begin(program, folder, tacit.Callback())["privacy"]["epsilon"] is not None
    ledger = read_ledger(folder.ledger_path)
    lines = assumptions_of(ledger, spent_by(ledger.opened, ledger.intents))
    [line] = [line for line in lines if "tests.simulation.test_program:Mixed" in line.text]
    assert line.mark is Mark.ASSUMED
    assert "keeps nothing from one user to the next" in line.text


@pytest.mark.parametrize(("change", "said"), FOREIGN.values(), ids=FOREIGN.keys())
def test_whatever_did_not_come_from_the_plan_is_a_reason(
    tmp_path: Path, change: Callable[[SimulatedProgram], dict[str, Any]], said: str
) -> None:
    program, _ = program_of(tmp_path)
    assert reasons_of(program) == []
    [reason, *_] = reasons_of(dataclasses.replace(program, **change(program)))
    assert reason.code in set(Why)
    assert said in reason.sentence
    assert "400" not in reason.sentence  # the ledger is public, and how many users there are is not


def test_a_program_of_ones_own_is_a_reason(tmp_path: Path) -> None:
    program, _ = program_of(tmp_path)
    fields = {each.name: getattr(program, each.name) for each in dataclasses.fields(program)}
    assert "program is not one of Tacit's" in reasons_of(OwnProgram(**fields))[0].sentence
    assert (
        "program is not one of Tacit's" in reasons_of(with_method(program, "participation", lambda *a: []))[0].sentence
    )


def test_correlated_noise_with_another_strategy_or_stream_is_a_reason(tmp_path: Path) -> None:
    program, _ = program_of(tmp_path, tiny(privacy={"mechanism": "tree", **CHECK_IN}))
    assert reasons_of(program) == []
    mechanism: Any = program.mechanism
    for other in (
        dataclasses.replace(mechanism, rounds=7),
        dataclasses.replace(mechanism, restarts=(1,)),
        with_method(dataclasses.replace(mechanism), "stream", "no noise"),
    ):
        assert "mechanism" in reasons_of(dataclasses.replace(program, mechanism=other))[0].sentence
    described = dataclasses.replace(program.opened, strategy={})
    assert "mechanism" in reasons_of(dataclasses.replace(program, opened=described))[0].sentence


@pytest.mark.parametrize(
    "name", ["a mechanism without noise", "a subclass of a mechanism", "a sampler with another rate"]
)
def test_the_ledger_says_so_before_the_first_round_and_nothing_is_claimed(tmp_path: Path, name: str) -> None:
    program, folder = program_of(tmp_path)
    change, said = FOREIGN[name]
    summary = begin(dataclasses.replace(program, **change(program)), folder, tacit.Callback())
    assert summary["privacy"]["epsilon"] is None
    ledger = read_ledger(folder.ledger_path)
    assert said in ledger.opened.reasons_not_private[0].sentence
    stated = Guarantee.of(ledger, spent_by(ledger.opened, ledger.intents))
    assert not stated.private
    assert said in stated.headline


def test_a_run_does_not_go_on_with_another_mechanism(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, folder = program_of(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "before", stop_after(RunJournal.before, 3))
        with pytest.raises(StopRequested):
            begin(program, folder, tacit.Callback())
    before = folder.ledger_path.read_bytes()
    quiet = dataclasses.replace(program, mechanism=Alike(program.mechanism.noise_multipliers))
    with pytest.raises(PrivacyError, match="reasons_not_private is"):
        go_on(quiet, folder, tacit.Callback())
    assert folder.ledger_path.read_bytes() == before
    assert go_on(program, folder, tacit.Callback())["privacy"]["epsilon"] is not None
