"""Secure sums of a discovery by letters, and how far their rounding can lift the total of what one user alone has."""

from __future__ import annotations

from tacit.learning.secure_sums import SecureSums
from tacit.privacy.plan import PrivacyPlan


def secure_letters(
    plan: PrivacyPlan, coordinates: int, rounds: int, shown_delta: float
) -> tuple[SecureSums | None, float]:
    """The secure sums that the plan asks for, and the margin that the threshold needs for them."""
    return SecureSums.of_plan(plan, coordinates), 0.0
