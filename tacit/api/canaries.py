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

    A fair coin decides for each whether it is in the data. One that is in holds `copies` copies of a random phrase of `length`
    words. Canary users take part as often as other users do, or with probability `device_rate` in each round. Without `seed` a
    secret one is drawn: whoever knows the seed knows the canaries, so keep the plan to yourself. For a recipe, save the plan
    with `plan.save(path)` and pass changes=[f"audit.plan={path}"].

    >>> import tacit
    >>> people = tacit.users({"ann": ["see you soon"], "bob": ["soon"]}, vocabulary=["see", "you", "soon", "on", "my", "way"])
    >>> len(tacit.canaries(people, coins=10).coin_canaries())
    10
    """
    from tacit.audit.plans import mixed_plan
    from tacit.training.arguments import whole_number
    from tacit.training.sources import data_of, words_of

    whole_number("coins", coins)
    words, named = words_of(users), data_of(users).name
    if not words:
        raise AuditError(
            "Canary phrases are made of words, and these users have no vocabulary.",
            hint="tacit.users(..., vocabulary=words) makes users with one.",
        )
    if not named:
        raise AuditError(
            f"Expected users of a store, of tacit.users(...) or of a world, got {type(users).__name__}.",
            hint="A plan of canaries is bound to the users it is for, so they need an identity that lasts.",
        )
    drawn = secrets.randbits(64) if seed is None else seed
    return mixed_plan(
        words, named, population=1, seed=drawn, coins=coins, copies=copies, length=length, device_rate=device_rate
    )
