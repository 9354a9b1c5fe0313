"""Made-up users who are planted among the real ones, so that an attack on the model can be measured."""

from __future__ import annotations

import secrets
from typing import Any

from tacit.audit.plans import mixed_plan
from tacit.data.canaries.plan import CanaryPlan
from tacit.errors import AuditError
from tacit.training.calls import source_of


def canaries(
    users: Any,
    coins: int,
    *,
    copies: int = 20,
    length: int = 5,
    device_rate: float | None = None,
    seed: int | None = None,
) -> CanaryPlan:
    """A plan of `coins` canary users for an audit of a run on these users. Each is in or out by a fair coin.

    A canary user holds `copies` of a phrase of `length` random words and takes part in a round with probability
    `device_rate` (None: as often as everybody). `train(canaries=plan)` plants them; for a recipe, `plan.save(path)` and
    `changes=[f"audit.plan={path}"]`. Keep the plan secret: whoever knows `seed`, which is secret by default, knows the coins.

    >>> import tacit
    >>> people = tacit.users({"ann": ["see you"]}, vocabulary=["see", "you", "soon", "on", "my", "way"])
    >>> len(tacit.canaries(people, coins=10, seed=1).canaries)
    10
    """
    words = tuple(getattr(users, "words", ()))
    vocabulary = getattr(users, "vocabulary", None)
    if vocabulary is not None:
        words = tuple(vocabulary.decode(range(len(vocabulary))))
    if not words:
        raise AuditError("Expected users with a vocabulary, of whose words canaries are made, got users without one.")
    return mixed_plan(
        words,
        source_of(users).name,
        population=1,
        seed=secrets.randbits(64) if seed is None else seed,
        coins=coins,
        length=length,
        copies=copies,
        device_rate=device_rate,
    )
