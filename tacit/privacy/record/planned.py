"""What a run is charged for: the releases in its ledger, and the planned rounds that have not run.

**Stopping early.** A run may end before its planned rounds are over: somebody presses Ctrl-C, the model diverges, or a person
looks at a release and has seen enough. When it ends may therefore depend on what was released, and what was released depends
on users. Take a run of T planned rounds with releases y_1, ..., y_T, and let τ be the round after which it ends, decided by
looking at y_1, ..., y_τ. What is published, (y_1, ..., y_τ), is a function of (y_1, ..., y_T): cut the sequence where the rule
says so. A function of a release costs nothing more, so **ε of the T planned rounds holds for a run that ends early**, whatever
the rule. ε of the τ rounds that ran does not hold. It bounds the excess of the loss over ε(t) by δ for each fixed t, but a rule
that watches the loss ends the run at the first t at which the loss is above ε(t). With 200 rounds of z = 5 the true δ is then
5.7 times the stated one, and 6.2 times with 400 (`tests/privacy/accounting/test_stopping_early.py`).

So every statement charges a run for its planned rounds, at the plan's noise and sampling. The number of planned rounds is a
public constant of the ledger's first record, and a run with a round beyond it claims nothing.

**What would allow more.** A filter is a theorem for rounds that are chosen adaptively: Rényi differential privacy of one fixed
order, or ρ, may be spent as one goes while the sum stays below a budget that was fixed beforehand (Feldman and Zrnic 2021).
It is not in force for a single run of Tacit: ε is computed with privacy loss distributions or at the best of many orders. A run
that was given more rounds after it had finished (`record.records.Extended`) is charged by an odometer
(`accounting.adaptive`), for all the rounds that are planned now.

**Rounds that ran again.** An attempt that was cut off and its repetition are both in the ledger and both count. That more
attempts were made must not depend on what had been released, and statements with lost attempts say so (`CUT_OFF`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError

from tacit.privacy.accounting.noise_split import BIT_BOUND
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.reasons import Reason, Why
from tacit.privacy.record.records import UPDATE, WEIGHT, WITHIN, Intent, Opened

CUT_OFF = "rounds were cut off and run again for reasons that did not depend on what had been released"


def planned_intents(plan: PrivacyPlan, rounds: int, *, start: int = 0) -> list[Intent]:
    """The intents that rounds `start` to `rounds` - 1 of this plan would write, without a cohort."""
    sampling, noise = plan.sampling_constants, plan.noise_multipliers
    side_bounds = {WEIGHT: 1.0, WITHIN: BIT_BOUND}
    found = []
    for round in range(start, rounds):
        clip = plan.clip_norm_at(round)
        bounds = {UPDATE: clip if math.isfinite(clip) else None} | side_bounds
        blocks = {name: {"bound": bounds[name], "noise_multiplier": z} for name, z in noise.items()}
        found.append(Intent(round, 0, sampling, blocks, plan.denominator, "", round in plan.restarts))
    return found


@dataclass(frozen=True)
class Charged:
    """The releases that happened, lost attempts among them, and those of the planned rounds that have not run."""

    happened: tuple[Intent, ...]
    to_come: tuple[Intent, ...] = ()
    objection: Reason | None = None

    @property
    def releases(self) -> tuple[Intent, ...]:
        """Everything the run is charged for; the rounds to come follow the last one that ran."""
        return self.happened + self.to_come

    @property
    def rounds_run(self) -> int:
        """How many of the planned rounds have run."""
        return len({intent.round for intent in self.happened})

    @property
    def ran_again(self) -> int:
        """How many attempts are counted in addition to the first one of their round."""
        return len(self.happened) - self.rounds_run


def charged_for(opened: Opened, intents: Iterable[Intent], *, start: int | None = None) -> Charged:
    """What a run with this first record is charged for; `objection` says why it can claim nothing, where that is so.

    `start` is the round that it goes on with, where that is not the one after its last: rounds from there on run again.
    """
    happened = tuple(intents)
    last = max((intent.round for intent in happened), default=-1)
    if last >= opened.rounds:
        beyond = f"round {last} ran, and the {opened.rounds} rounds that were planned end before it"
        return Charged(happened, (), Reason(Why.DEPARTS_FROM_PLAN, beyond))
    following = start if start is not None else (happened[-1].round + 1 if happened else 0)
    if following == opened.rounds:
        return Charged(happened)
    try:
        plan = PrivacyPlan.model_validate(opened.plan)
    except ValidationError:
        return Charged(happened, (), Reason(Why.UNREADABLE_PLAN))
    return Charged(happened, tuple(planned_intents(plan, opened.rounds, start=following)))
