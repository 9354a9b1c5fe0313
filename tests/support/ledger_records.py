"""Records of a ledger with every field filled in."""

from __future__ import annotations

from typing import Any

from tacit.privacy.record.records import (
    FORMAT,
    Intent,
    Opened,
)
from tests.support.first_record import FACTS

PLAN: dict[str, Any] = {
    "population": 1000,
    "cohort": 10.0,
    "clip_norm": 0.8,
    "noise_multiplier": 1.1,
    "delta": 1e-6,
    "sampling": "poisson",
}


def opened(**changes: Any) -> Opened:
    fields: dict[str, Any] = {
        "run_id": "r",
        "format": FORMAT,
        "tacit_version": "0",
        "plan": PLAN,
        "mechanism": "gaussian",
        "strategy": {},
        "population": 1000,
        "rounds": 10,
        "seeded": False,
        "reasons_not_private": (),
        **FACTS,
        "unit": "user",
        "adjacency": "add or remove one user",
    }
    return Opened(**(fields | changes))


def intent(round: int, attempt: int = 0, **changes: Any) -> Intent:
    fields: dict[str, Any] = {
        "sampling": {"kind": "poisson", "probability": 0.01},
        "blocks": {"update": {"bound": 0.8, "noise_multiplier": 1.1}},
        "denominator": 10.0,
        "participation": "ab" * 32,
    }
    return Intent(round, attempt, **(fields | changes))
