"""Canary users for an audit: made-up users whose phrases `Run.audit` looks for."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from tacit.errors import AuditError

if TYPE_CHECKING:
    from tacit.data.canaries.plan import CanaryPlan


def canaries(
    users: Any,
    coins: int,
    *,
    copies: int = 20,
    length: int = 5,
    device_rate: float | None = None,
    seed: int | None = None,
) -> CanaryPlan:
    """A plan of `coins` canary users for `tacit.train(..., canaries=plan)` on these users.

    Each is in or out by a fair coin, and holds `copies` copies of a random phrase of `length` words if in. They take part as
    often as everybody does, or with the probability `device_rate` in each round. Without `seed` a secret one is drawn;
    whoever knows it knows the canaries, so the plan is the owner's. For a recipe: `plan.save(path)`, and
    changes=[f"audit.plan={path}"].

    >>> import tacit
    >>> people = tacit.users({"ann": ["see you soon"], "bob": ["soon"]}, vocabulary=["see", "you", "soon", "on", "my", "way"])
    >>> len(tacit.canaries(people, coins=10).coin_canaries())
    10
    """
    from tacit.audit.plans import mixed_plan
    from tacit.training.calls import data_of, words_of

    words, named = words_of(users), data_of(users).name
    if not words:
        raise AuditError("Expected users with words for canary phrases, got users without a vocabulary.")
    if not named:
        raise AuditError(
            f"Expected users with a name that a plan can be made for, got {type(users).__name__}.",
            hint="A store, tacit.users(...) and a world have one.",
        )
    drawn = secrets.randbits(64) if seed is None else seed
    return mixed_plan(
        words, named, population=1, seed=drawn, coins=coins, copies=copies, length=length, device_rate=device_rate
    )
