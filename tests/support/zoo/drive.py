"""A small run through the one loop with everything that watches it: the audit of the gate, and the check of the sampler."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jax
import numpy as np

from tacit.data.users import names_of_numbers
from tacit.errors import LedgerError
from tacit.learning.batches import TextBatches
from tacit.learning.loop import TrainingState, train
from tacit.learning.next_word import NextWord
from tacit.learning.server import Server, build_optimizer
from tacit.learning.work import FedSGD, LocalWork
from tacit.models.word_lm import WordLM, WordLMConfig, build
from tacit.privacy.accounting.sampler_check import check_sampler
from tacit.privacy.noise.mechanisms import Mechanism
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.log import RecordedCohort
from tacit.privacy.participation.samplers import Sampler
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.records import UPDATE
from tacit.runs.gate_audit.checks import Measured, measure
from tacit.runs.gate_audit.layout import Layout, canaries_for
from tacit.runs.gate_audit.record import Design, Seen
from tacit.simulation.batched import BatchedUsers
from tacit.simulation.cohorts import CohortStream
from tacit.simulation.gate_audit import AuditedGate
from tacit.simulation.placement import Spread, suitable_spread
from tests.support.list_users import ListUsers
from tests.support.made_up_ledgers import intent

VOCABULARY, PEOPLE, ROUNDS = 9, 60, 48
WORK, SHAPE = LocalWork(FedSGD(learning_rate=1.5), NextWord()), TextBatches("windows", 3, 2, 2)

POISSON: dict[str, Any] = {"mechanism": "gaussian", "noise_multiplier": 1.0, "cohort": 15}
WEIGHTED = {**POISSON, "estimator": "clipped", "example_cap": 6.0, "total_weight": 50.0}
ADAPTIVE = {**POISSON, "noise_multiplier": 0.5, "adaptive": {}}
CHECK_IN = {**POISSON, "sampling": "check_in", "min_separation": 2, "max_participation": 20, "noise_multiplier": 2.0}
TREE, BLT = {**CHECK_IN, "mechanism": "tree"}, {**CHECK_IN, "mechanism": "blt"}


@dataclass
class Memory:
    """Takes the place of the file that scores are written to."""

    records: list[Mapping[str, Any]] = field(default_factory=list)

    def append(self, record: Mapping[str, Any]) -> None:
        self.records.append(record)


@dataclass(frozen=True)
class Silent:
    """A journal that settles every round at once."""

    audit: AuditedGate
    cohorts: list[Any]

    def before(self, cohort: Any, norms: Any) -> None:
        self.cohorts.append(cohort)

    def after(self, state: TrainingState, diagnostics: list[Any]) -> None:
        self.audit.settle(state.round)


@cache
def small_model() -> WordLM:
    config = WordLMConfig(vocabulary=VOCABULARY, embedding=4, units=4, projection=4, output_bias=True)
    return build(config, key=jax.random.key(1))


@cache
def engine(plan: PrivacyPlan) -> BatchedUsers:
    """One a plan, so that it compiles once."""
    generator = np.random.default_rng(0)
    people = [[generator.integers(3, VOCABULARY, 5).tolist()] * int(generator.integers(1, 4)) for _ in range(PEOPLE)]
    spread = Spread(suitable_spread(1, 1).devices, chunk=4, lanes=2)
    return BatchedUsers(ListUsers(people), WORK, plan, SHAPE, spread)


@cache
def server_for(denominator: float) -> Server:
    return Server.build(build_optimizer("sgd", 0.05, 0.0), denominator)


@dataclass(frozen=True)
class Seeing:
    """What was found: by the audit of the gate, by the check of the sampler, and by a contract that was asked."""

    audit: Measured
    sampler: str | None
    contract: str | None = None

    @property
    def caught_by(self) -> set[str]:
        by = {"audit of the gate": self.audit.alarms, "sampler check": self.sampler, "contract suite": self.contract}
        return {name for name, what in by.items() if what}


def run(
    privacy: Mapping[str, Any],
    *,
    mechanism: Callable[[Mechanism], Mechanism] = lambda sound: sound,
    sampler: Callable[[Sampler], Sampler] = lambda sound: sound,
    randomness: Randomness | None = None,
    rounds: int = ROUNDS,
) -> Seeing:
    """Train a few hundred parameters on a few dozen users; `mechanism` and `sampler` break what the plan built."""
    plan = PrivacyPlan(**{"population": PEOPLE, "clip_norm": 0.3, "delta": 1e-3, **privacy})
    users, model, strategy = engine(plan), small_model(), plan.build_strategy(rounds)
    sizes, sides = [leaf.size for leaf in jax.tree.leaves(model)], set(plan.noise_multipliers) - {UPDATE}
    layout = Layout.of(
        sizes,
        sorted(sides),
        rounds=rounds,
        canaries=canaries_for(plan.cohort),
        per_layer=plan.clipping == "per_layer",
    )
    design, memory = Design.of(plan, layout, strategy), Memory()
    broken = mechanism(plan.build_mechanism(rounds, strategy))
    audit: Any = AuditedGate(users, broken, design, memory)  # type: ignore[arg-type]
    server = server_for(plan.denominator)
    blocks = {name: model if name == UPDATE else np.zeros((), np.float32) for name in plan.noise_multipliers}
    start = TrainingState(0, model, server.init(model), plan.build_clipping().init(), broken.init(blocks))
    chosen, accounted = sampler(plan.build_sampler()), plan.build_sampler()
    cohorts: list[Any] = []
    names = names_of_numbers(np.arange(PEOPLE))
    stream = CohortStream(chosen, randomness or Randomness.fresh(), names, users.prepare, start=0, stop=rounds, ahead=2)
    try:
        train(
            start,
            participation=stream,
            users=audit,
            clipping=plan.build_clipping(),
            mechanism=audit,
            server=server,
            journal=Silent(audit, cohorts),
        )
    finally:
        stream.close()
    plain = [{name: _plain(value) for name, value in record.items()} for record in memory.records]
    found = measure(design, [Seen.from_record(record) for record in plain])
    pairs = [
        (intent(each.round, accounted.describe()), RecordedCohort(each.round, 0, each.users, "")) for each in cohorts
    ]
    try:
        check_sampler(pairs, PEOPLE)
        return Seeing(found, None)
    except LedgerError as error:
        return Seeing(found, error.sentence)


def _plain(value: Any) -> Any:
    return value if not isinstance(value, float) or math.isfinite(value) else None
