"""Kinds of mechanism are found by name; those from outside as they are registered, and nothing is claimed otherwise."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tacit.errors import PrivacyError, RecipeError
from tacit.privacy.accounting.cost import Cost
from tacit.privacy.accounting.releases import Releases
from tacit.privacy.accounting.several_runs import together
from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.noise.kinds import KINDS, MechanismKind, kind_of, register_mechanism, register_strategy
from tacit.privacy.outside import import_module_named, is_path
from tacit.privacy.participation.custom import CustomParticipation, register_participation
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.ledger import LedgerWriter, read_ledger
from tacit.privacy.record.planned import planned_intents
from tacit.privacy.record.records import Opened
from tacit.privacy.statement.guarantee import Guarantee
from tests.support.made_up_ledgers import opened

PATH = f"{__name__}:ByCurve"


@register_mechanism
class ByCurve(MechanismKind):
    version = "3"
    noise = "Noise by hand"
    proven_under = ("poisson", "check_in")

    def cost(self, releases: Releases) -> Cost:
        return Cost.of_curve(lambda delta: 0.25 * len(releases.all), "counting rounds")


@register_participation
class Sometimes(CustomParticipation):
    version = "1"
    law = "poisson"

    def sample(self, draws: Any) -> Any:
        raise NotImplementedError


def plan_of(**changes: Any) -> PrivacyPlan:
    fields = {
        "mechanism": PATH,
        "population": 1000,
        "cohort": 10,
        "clip_norm": 0.8,
        "noise_multiplier": 2.0,
        "delta": 1e-6,
    }
    return PrivacyPlan(**{**fields, **changes})


def opened_of(plan: PrivacyPlan, /, **changes: Any) -> Opened:
    return opened(
        "r",
        **{
            "plan": plan.model_dump(mode="json"),
            "mechanism": plan.mechanism,
            "rounds": 4,
            "adjacency": plan.adjacency,
            "outside": plan.outside,
            **changes,
        },
    )


def test_tacits_own_are_there_and_known():
    assert KINDS.names() == ["gaussian", "tree", "blt", "banded", "discrete", "none", "words"]
    assert [name for name in KINDS.names() if kind_of(name).correlated] == ["tree", "blt", "banded"]
    assert all(kind_of(name).name == name and kind_of(name).noise for name in KINDS.names())


def test_a_cost_from_outside_is_stated_as_a_claim_and_composes_with_nothing(tmp_path: Path):
    plan = plan_of()
    first = opened_of(plan)
    spent = spent_by(first, planned_intents(plan, 4))
    assert (spent.epsilon, spent.accountant, spent.rho) == (1.0, "counting rounds", None)
    path = tmp_path / "ledger.jsonl"
    with LedgerWriter.create(path, first) as writer:
        for intent in planned_intents(plan, 4):
            writer.append(dataclasses.replace(intent, participation="ab" * 32))
    ledger = read_ledger(path)
    stated = Guarantee.of(ledger, spent_by(ledger.opened, ledger.intents)).as_markdown().replace("\\", "")
    assert f"is the claim of its author ({PATH}), not proven by Tacit" in stated
    assert "k/(2z²)" not in stated  # nothing of Tacit's own noise is said of another's
    assert "cipher" not in stated
    total = together([ledger])
    assert total.epsilon == math.inf
    assert "does not compose" in total.reasons_not_private[0].sentence
    assert any(PATH in each for each in total.assumptions)


def test_without_sampling_too_it_may_be_stated_without_a_rho(tmp_path: Path):
    plan = plan_of(sampling="check_in", min_separation=2, max_participation=3)
    path = tmp_path / "ledger.jsonl"
    with LedgerWriter.create(path, opened_of(plan)) as writer:
        for intent in planned_intents(plan, 4):
            writer.append(dataclasses.replace(intent, participation="ab" * 32))
    ledger = read_ledger(path)
    stated = Guarantee.of(ledger, spent_by(ledger.opened, ledger.intents))
    assert stated.epsilon == 1.0
    assert "the author of the mechanism states epsilon alone" in stated.as_markdown()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mechanism": "nowhere:Mine"}, "the mechanism nowhere:Mine is not known here: import it first"),
        ({"mechanism": "helix"}, "the mechanism 'helix' is unknown to this version of Tacit"),
        ({"outside": {}}, "the run used version None of the mechanism"),
        ({"outside": {"mechanism": {"version": "2", "description": {}}}}, "the run used version '2' of the mechanism"),
        ({"outside": {"mechanism": {"version": "3", "description": {"a": 1}}}}, "or its description differs"),
    ],
)
def test_what_is_not_the_one_that_is_known_claims_nothing(changes: dict[str, Any], said: str):
    spent = spent_by(opened_of(plan_of(), **changes), planned_intents(plan_of(), 4))
    assert spent.epsilon == math.inf
    assert said in spent.reasons_not_private[0].sentence


def test_a_participation_that_is_not_known_or_not_by_the_law_claims_nothing():
    plan = PrivacyPlan(**{**plan_of().model_dump(), "mechanism": "gaussian", "participation": f"{__name__}:Sometimes"})
    assert spent_by(opened_of(plan), planned_intents(plan, 4)).epsilon < math.inf
    data = plan.model_dump(mode="json")
    missing = opened_of(plan, plan={**data, "participation": "nowhere:Ours"})
    assert (
        "nowhere:Ours is not known here" in spent_by(missing, planned_intents(plan, 4)).reasons_not_private[0].sentence
    )
    with pytest.raises(RecipeError, match=r"sampling = 'poisson', the law of privacy\.participation"):
        PrivacyPlan(**{**data, "sampling": "fixed"})
    other = opened_of(plan, plan={**data, "sampling": "fixed"})
    assert (
        "is poisson, and the plan was accounted as fixed"
        in spent_by(other, planned_intents(plan, 4)).reasons_not_private[0].sentence
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"mechanism": "helix"},
            r"mechanism of gaussian, tree, blt, banded, discrete, none or module:Class, got 'helix'",
        ),
        ({"sampling": "fixed"}, "sampling of poisson or check_in, under which the mechanism"),
        ({"participation": "ours"}, "form module:Class, got 'ours'"),
        ({"restarts": [2]}, "restarts with mechanisms tree, blt, banded only"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(changes: dict[str, Any], said: str):
    with pytest.raises(RecipeError, match=said):
        plan_of(**changes)


def test_what_says_too_little_about_itself_is_not_registered():
    with pytest.raises(PrivacyError, match="top level of a module"):
        register_mechanism(type("Hidden", (ByCurve,), {"__qualname__": "f.<locals>.Hidden", "__module__": __name__}))
    for missing in ({"version": ""}, {"noise": ""}, {"proven_under": ()}, {"proven_under": ("shuffle",)}):
        with pytest.raises(PrivacyError, match=r"Expected .*:Mine to have a version, a noise in words"):
            register_mechanism(type("Mine", (ByCurve,), {"__module__": __name__, **missing}))
    for other in ({"adds_noise": False}, {"on_devices": True}):
        with pytest.raises(PrivacyError, match="adds no noise on the server"):
            register_mechanism(type("Mine", (ByCurve,), {"__module__": __name__, **other}))
    with pytest.raises(PrivacyError, match="to have a version"):
        register_strategy(type("Mine", (), {"__module__": __name__}))
    with pytest.raises(PrivacyError, match="a law of poisson, fixed, check_in or None"):
        register_participation(type("Mine", (Sometimes,), {"__module__": __name__, "law": "shuffle"}))
    assert KINDS.find(f"{__name__}:Mine") is None


def test_import_paths():
    assert is_path("a.b:C.D")
    for name in ("gaussian", "a:", ":C", "a:b:c", "a b:C", "a:C()", "../a:C"):
        assert not is_path(name)
    with pytest.raises(PrivacyError, match="module that can be imported, got 'no_such_module'"):
        import_module_named("no_such_module")


@pytest.mark.process
def test_kinds_answer_without_jax():
    check = "import sys, tacit.privacy.noise.kinds, tacit.privacy.plan; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
