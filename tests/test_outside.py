"""A package from outside, which imports only public names, brings a mechanism, a strategy and a participation of its own."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tacit
from tacit.errors import PrivacyError
from tacit.privacy.noise.kinds import KINDS
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder
from tacit.runs.gate_audit.outcome import read_outcome

NAME = "outside_tacit"
SOURCE = '''
"""Noise and users of somebody else's."""

import dataclasses
from collections.abc import Mapping

import numpy as np

import tacit


@dataclasses.dataclass(frozen=True)
class Release:
    """Gaussian noise, by calling Tacit's."""

    noise_multipliers: Mapping[str, float]
    name: str = "by rho"

    def init(self, template):
        return ()

    def release(self, bounded, state, *, key):
        return tacit.Gaussian(self.noise_multipliers).release(bounded, state, key=key)


class Silent(Release):
    """No noise worth the name."""

    def release(self, bounded, state, *, key):
        return tacit.Gaussian({name: z / 2 for name, z in self.noise_multipliers.items()}).release(bounded, state, key=key)


@tacit.register_mechanism
class ByRho(tacit.MechanismKind):
    version = "1.0"
    noise = "Gaussian noise on the sum of each round, by somebody else"
    proven_under = ("check_in",)

    def build(self, plan, rounds, strategy):
        return Release(plan.noise_multipliers)

    def cost(self, releases):
        return tacit.Cost.of_rho(releases.participations / (2 * releases.noise_multiplier**2))


@tacit.register_mechanism
class WithoutCost(tacit.MechanismKind):
    version = "1.0"
    noise = "Gaussian noise whose cost nobody has computed"
    proven_under = ("poisson", "check_in")

    def build(self, plan, rounds, strategy):
        return Release(plan.noise_multipliers)


@tacit.register_mechanism
class Liar(ByRho):
    """Half of the noise that it claims."""

    def build(self, plan, rounds, strategy):
        return Silent(plan.noise_multipliers)


@tacit.register_mechanism
class ByEvent(ByRho):
    """The cost as an event of the dp_accounting library."""

    proven_under = ("poisson",)

    def cost(self, releases):
        import dp_accounting

        once = [dp_accounting.PoissonSampledDpEvent(
            float(group.sampling["probability"]), dp_accounting.GaussianDpEvent(float(group.noise_multiplier))
        ) for group in releases.rounds]
        counts = [group.count for group in releases.rounds]
        events = [dp_accounting.SelfComposedDpEvent(event, count) for event, count in zip(once, counts)]
        return tacit.Cost.of_event(dp_accounting.ComposedDpEvent(events), releases.adjacency)


@tacit.register_strategy
@dataclasses.dataclass(frozen=True)
class Halving(tacit.MatrixStrategy):
    version = "1.0"
    ratio: float = 0.5

    @classmethod
    def fitted(cls, rounds, gap, max_participation):
        return cls()

    def matrix(self, rounds):
        lag = np.subtract.outer(np.arange(rounds), np.arange(rounds))
        return np.where(lag >= 0, self.ratio ** np.maximum(lag, 0), 0.0)


@tacit.register_participation
class Rota(tacit.CustomParticipation):
    """One cohort after the other, and then again from the first."""

    version = "1.0"
    law = "check_in"

    def __init__(self, plan):
        super().__init__(plan)
        self.round = 0

    def sample(self, draws):
        size = int(self.plan.cohort)
        first = self.round % (len(draws) // size) * size
        self.round += 1
        return np.arange(first, first + size)

    def remember(self, users):
        self.round += 1


@tacit.register_participation
class AnyWay(Rota):
    law = None
'''
CONTRACTS = """
import outside_tacit
import tacit
from tacit.testing import MechanismContract, ParticipationContract, StrategyContract

PLAN = dict(population=120, cohort=12, clip_norm=1.0, noise_multiplier=1.0, delta=1e-5)
CHECK_IN = dict(sampling="check_in", min_separation=5, max_participation=3)


class TestByRho(MechanismContract):
    mechanism = "outside_tacit:ByRho"

    def build(self, noise_multipliers):
        return outside_tacit.Release(noise_multipliers)


class TestByEvent(TestByRho):
    mechanism = "outside_tacit:ByEvent"


class TestWithoutCost(TestByRho):
    mechanism = "outside_tacit:WithoutCost"
    states_a_cost = False


class TestHalving(StrategyContract):
    strategy = outside_tacit.Halving()


class TestRota(ParticipationContract):
    plan = tacit.PrivacyPlan(**PLAN, **CHECK_IN, participation="outside_tacit:Rota")


class TestAnyWay(ParticipationContract):
    plan = tacit.PrivacyPlan(**PLAN, **CHECK_IN, participation="outside_tacit:AnyWay")
"""
CHECK_IN = {"sampling": "check_in", "min_separation": 9, "max_participation": 3}


@dataclass(frozen=True)
class OutsidePackage:
    """The package in its folder, imported; the next process has to be told where it lies."""

    folder: Path
    module: ModuleType

    def environment(self) -> dict[str, str]:
        paths = [str(self.folder), str(Path(tacit.__file__).parent.parent)]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A process of its own."""
        return subprocess.run(
            [sys.executable, *arguments], env=self.environment(), capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutsidePackage]:
    folder = tmp_path_factory.mktemp("packages")
    (folder / NAME).mkdir()
    (folder / NAME / "__init__.py").write_text(SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield OutsidePackage(folder, importlib.import_module(NAME))
    del sys.modules[NAME]


def recipe(**privacy: Any) -> tacit.Recipe:
    plan = {"population": 400, "cohort": 12, "clip_norm": 0.3, "noise_multiplier": 0.8, "delta": 1e-4, **privacy}
    world = {"world": "keyboard", "users": 400, "vocabulary": 300, "held_out": 4, "length": 6, "tokens_per_user": 24}
    return tacit.Recipe.model_validate(
        {
            "name": "outside",
            "data": world,
            "model": {"preset": "tiny", "embedding": 4, "units": 5, "projection": 4},
            "work": {"batch_size": 2},
            "privacy": plan,
            "server": {"optimizer": "momentum"},
            "run": {"rounds": 6, "evaluate_every": 3, "checkpoint_every": 2, "evaluate_words": 200},
            "engine": {"chunk": 4},
        }
    )


def trained(out: Path, **privacy: Any) -> RunFolder:
    tacit.train(recipe=recipe(**privacy), out=out)
    return RunFolder.open(out)


def stopped(out: Path, **privacy: Any) -> Path:
    """A run that somebody stopped in its fourth round."""
    for step in tacit.rounds(recipe=recipe(**privacy), out=out):
        if step.number == 3:
            break
    return out


@pytest.fixture(scope="module")
def run_by_rho(outside: OutsidePackage, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with the mechanism from outside, which was stopped and resumed."""
    out = stopped(tmp_path_factory.mktemp("runs") / "by-rho", mechanism=f"{NAME}:ByRho", **CHECK_IN)
    tacit.resume(out)
    return RunFolder.open(out)


@pytest.mark.process
def test_the_contract_suites_hold_for_things_from_outside(outside: OutsidePackage) -> None:
    (outside.folder / "test_contracts.py").write_text(CONTRACTS)
    found = outside.python("-m", "pytest", "-q", "-p", "no:cacheprovider", str(outside.folder / "test_contracts.py"))
    assert found.returncode == 0, found.stdout[-3000:]
    assert "passed" in found.stdout


def test_the_guarantee_is_finite_and_names_the_claim_of_the_author(run_by_rho: RunFolder) -> None:
    cost = cost_of(run_by_rho)
    assert cost.ledger.opened.outside == {"mechanism": {"version": "1.0", "description": {}}}
    # One participation in six rounds: no two are closer than nine rounds.
    assert cost.stated.rho == pytest.approx(1 / (2 * 0.8**2))
    assert 0 < cost.stated.epsilon < math.inf
    stated = cost.guarantee().as_markdown().replace("\\", "")
    claim = f"The cost of the mechanism ByRho is the claim of its author ({NAME}:ByRho), not proven by Tacit"
    assert f"- {claim} *(assumed)*" in stated
    assert "Gaussian noise on the sum of each round, by somebody else" in stated
    assert "the noise has the stated scale" not in stated.lower()  # nothing of the sort is enforced


@pytest.mark.process
def test_another_process_accounts_for_it_only_once_it_was_imported(
    outside: OutsidePackage, run_by_rho: RunFolder
) -> None:
    account = ["account", "run", str(run_by_rho.path), "--json"]
    unknown = outside.python("-m", "tacit", *account)
    told = json.loads(unknown.stdout)
    assert told["epsilon"] is None
    assert told["reasons_not_private"] == [f"the mechanism {NAME}:ByRho is not known here: import it first"]
    known = json.loads(outside.python("-m", "tacit", "--import", NAME, *account).stdout)
    assert known["epsilon"] == cost_of(run_by_rho).stated.epsilon
    nowhere = outside.python("-m", "tacit", "--import", "not_there_at_all", *account)
    assert "Expected the name of a module that can be imported, got 'not_there_at_all'." in nowhere.stderr


def test_another_version_of_it_claims_nothing(
    outside: OutsidePackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = stopped(tmp_path / "run", mechanism=f"{NAME}:ByRho", **CHECK_IN)
    assert cost_of(RunFolder.open(out)).stated.epsilon < math.inf
    monkeypatch.setattr(KINDS.find(f"{NAME}:ByRho"), "version", "2.0", raising=False)
    spent = cost_of(RunFolder.open(out)).stated
    assert spent.epsilon == math.inf
    assert "the run used version '1.0' of the mechanism outside_tacit:ByRho" in spent.reasons_not_private[0].sentence
    with pytest.raises(PrivacyError, match=r"outside\.mechanism\.version is .?1\.0.*, got .?2\.0"):  # nor does it go on
        tacit.resume(out)


def test_without_a_cost_epsilon_is_infinite(outside: OutsidePackage, tmp_path: Path) -> None:
    folder = trained(tmp_path / "run", mechanism=f"{NAME}:WithoutCost")
    stated = cost_of(folder).guarantee()
    assert not stated.private
    assert f"the mechanism {NAME}:WithoutCost states no cost" in stated.headline


def test_the_audit_of_the_gate_finds_noise_that_is_not_there(outside: OutsidePackage, tmp_path: Path) -> None:
    honest = trained(tmp_path / "honest", mechanism=f"{NAME}:ByEvent")
    lied = trained(tmp_path / "lied", mechanism=f"{NAME}:Liar", **CHECK_IN)
    verdicts = [outcome.verdict for outcome in map(read_outcome, (honest, lied)) if outcome is not None]
    assert verdicts == ["passed", "broken"]


def test_a_strategy_from_outside_trains_and_is_accounted_by_its_matrix(outside: OutsidePackage, tmp_path: Path) -> None:
    cost = cost_of(trained(tmp_path / "run", mechanism=f"{NAME}:Halving", **CHECK_IN))
    assert cost.ledger.opened.strategy == {"strategy": f"{NAME}:Halving", "ratio": 0.5}
    assert cost.stated.rho == pytest.approx(sum(0.25**lag for lag in range(6)) / (2 * 0.8**2))
    stated = cost.guarantee().as_markdown().replace("\\", "")
    assert "the claim of its author (outside_tacit:Halving)" in stated
    assert "the noise has the stated scale" not in stated.lower()
    assert read_outcome(RunFolder.open(tmp_path / "run")).verdict == "passed"  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "private"), [("Rota", True), ("AnyWay", False)])
def test_a_participation_from_outside_claims_what_its_law_is(
    outside: OutsidePackage, tmp_path: Path, name: str, private: bool
) -> None:
    cost = cost_of(trained(tmp_path / "run", participation=f"{NAME}:{name}", **CHECK_IN))
    assert math.isfinite(cost.stated.epsilon) == private
    if private:
        stated = cost.guarantee().as_markdown().replace("\\", "")
        assert "That users take part as stated is the claim of the author of Rota (outside_tacit:Rota)" in stated
    else:
        why = "the participation outside_tacit:AnyWay states no law that the accounting knows"
        assert [each.sentence for each in cost.stated.reasons_not_private] == [why]


def test_what_is_not_registered_is_refused_before_a_run_and_read_afterwards() -> None:
    plan = tacit.PrivacyPlan(mechanism="nowhere:Mine", **recipe().privacy.model_dump(exclude={"mechanism"}))
    with pytest.raises(PrivacyError, match="The mechanism nowhere:Mine is not known here: import it first"):
        plan.build_mechanism(6, None)
    other = plan.model_copy(update={"mechanism": "gaussian", "participation": "nowhere:Ours"})
    with pytest.raises(PrivacyError, match="The participation nowhere:Ours is not known here: import it first"):
        other.build_sampler()


def test_a_class_that_cannot_be_found_again_is_not_registered() -> None:
    class Hidden(tacit.MechanismKind):
        version, noise, proven_under = "1", "Noise", ("poisson",)

    with pytest.raises(PrivacyError, match="top level of a module"):
        tacit.register_mechanism(Hidden)
