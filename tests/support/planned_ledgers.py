"""Ledgers of a few rounds under a given plan, and the guarantee read off them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.ledger import Ledger, LedgerWriter
from tacit.privacy.record.records import FORMAT, Intent, Opened
from tacit.privacy.statement.guarantee import Guarantee
from tests.support.first_record import FACTS

POISSON: dict[str, Any] = {
    "population": 1000,
    "cohort": 10,
    "clip_norm": 0.8,
    "noise_multiplier": 3.0,  # much noise: accounting is then quick
    "delta": 1e-6,
}

FIXED = POISSON | {"sampling": "fixed"}

CHECK_IN = POISSON | {"sampling": "check_in", "min_separation": 20, "max_participation": 3}

SAMPLING: dict[str, dict[str, Any]] = {
    "poisson": {"kind": "poisson", "probability": 0.01},
    "fixed": {"kind": "fixed", "size": 10, "population": 1000},
    "check_in": {"kind": "check_in", "size": 10, "min_separation": 20, "max_participation": 3},
}

NONE = POISSON | {"mechanism": "none", "noise_multiplier": 0.0}


def opened_with(plan: PrivacyPlan, /, **changes: Any) -> Opened:
    fields: dict[str, Any] = {
        "run_id": "r",
        "format": FORMAT,
        "tacit_version": "0",
        "plan": plan.model_dump(mode="json"),
        "mechanism": plan.mechanism,
        "strategy": {},
        "population": plan.population,
        "rounds": 3,
        "seeded": False,
        "reasons_not_private": (),
        **FACTS,
        "unit": "user",
        "adjacency": plan.adjacency,
    }
    return Opened(**(fields | changes))


def intent_of(plan: PrivacyPlan, round: int, attempt: int = 0, **changes: Any) -> Intent:
    fields: dict[str, Any] = {
        "sampling": SAMPLING[plan.sampling],
        "blocks": {
            name: {"bound": plan.clip_norm, "noise_multiplier": z} for name, z in plan.noise_multipliers.items()
        },
        "denominator": plan.denominator,
        "participation": "ab" * 32,
    }
    return Intent(round, attempt, **(fields | changes))


def ledger_of(
    path: Path, settings: dict[str, Any], *, rounds: int = 3, last: dict[str, Any] | None = None, **changes: Any
) -> Ledger:
    """A ledger of so many rounds under a plan; `last` changes the last of them, `changes` the first record."""
    plan = PrivacyPlan(**settings)
    changes["rounds"] = changes.pop("rounds_planned", rounds)
    with LedgerWriter.create(path / "ledger.jsonl", opened_with(plan, **changes)) as writer:
        for round in range(rounds):
            writer.append(intent_of(plan, round, **((last or {}) if round == rounds - 1 else {})))
        return writer.ledger


def guarantee_of(ledger: Ledger, **more: Any) -> Guarantee:
    return Guarantee.of(ledger, spent_by(ledger.opened, ledger.intents, quick=True), **more)


def part(guarantee: Guarantee, title: str) -> str:
    (found,) = [part for part in guarantee.parts if part.title == title]
    return "\n".join(line.text for line in found.lines)
