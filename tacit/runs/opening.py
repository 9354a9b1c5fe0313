"""The first record of a run's ledger: the plan, the size of a release, the data, and what is promised about the users."""

from __future__ import annotations

import hashlib
from typing import Any

import jax

from tacit import __version__
from tacit.models.word_lm import parameter_count
from tacit.privacy.noise.strategies import Strategy
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import DataRecord, GateAuditRecord, ReleaseSize
from tacit.privacy.record.reasons import Reason
from tacit.privacy.record.records import FORMAT, UNIT, Opened
from tacit.runs.folder import RunFolder
from tacit.runs.gate_audit.in_run import why_not
from tacit.runs.gate_audit.layout import canaries_for


def opening(
    folder: RunFolder,
    plan: PrivacyPlan,
    learned: Any,
    *,
    rounds: int,
    recipe_text: str,
    seeded: bool,
    reasons_not_private: tuple[Reason, ...],
    data: DataRecord,
    strategy: Strategy | None = None,
    gate_audit: bool = False,
    **facts: Any,
) -> Opened:
    """The first record of a run's ledger; `learned` is the subtree that users update, `data` names the users.

    `gate_audit`: it is a simulation whose gate is to be audited, and the record says so where it can be. `facts` are the
    further fields of `Opened`, each a typed record.
    """
    audited = why_not(plan, wanted=gate_audit, simulated=True) is None
    return Opened(
        run_id=folder.run_id,
        format=FORMAT,
        tacit_version=__version__,
        plan=plan.model_dump(mode="json"),
        mechanism=plan.mechanism,
        strategy={} if strategy is None else strategy.describe(),
        population=plan.population,
        rounds=rounds,
        seeded=seeded,
        reasons_not_private=reasons_not_private,
        recipe=hashlib.sha256(recipe_text.encode()).hexdigest(),
        release=release_size(learned, plan),
        data=data,
        unit=UNIT,
        adjacency=plan.adjacency,
        outside=plan.outside,
        gate_audit=GateAuditRecord(canaries_for(plan.cohort)) if audited else None,
        **facts,
    )


def release_size(model: Any, plan: PrivacyPlan) -> ReleaseSize:
    """How many numbers one release holds, in how many arrays; a block beside the update is one number."""
    beside = len(plan.noise_multipliers) - 1
    return ReleaseSize(parameter_count(model) + beside, len(jax.tree.leaves(model)) + beside)
