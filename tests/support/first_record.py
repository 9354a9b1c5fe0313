"""What a ledger's first record needs beside what a test is about."""

from __future__ import annotations

from typing import Any

from tacit.privacy.record.facts import DataRecord, ReleaseSize, SecureSumRecord
from tacit.privacy.record.reasons import Reason, Why

WORLD = DataRecord(world="keyboard", seed=1, users=200)
FACTS: dict[str, Any] = {"recipe": "ab" * 32, "release": ReleaseSize(10, 1), "data": WORLD}
NO_NOISE, SEEDED = Reason(Why.NO_NOISE), Reason(Why.SEEDED)


def secure_sum(**changes: Any) -> SecureSumRecord:
    """Constants of secure sums that widen no bound."""
    fields: dict[str, Any] = {
        "bits": 20,
        "scale": 1 + 2.0**-20,
        "element_clip": 10,
        "integers": 16,
        "norm_limit_squared": 1,
        "local_variance": 0,
    }
    return SecureSumRecord(**(fields | changes))
