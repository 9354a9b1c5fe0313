"""Count how often each canary was expected in training, and how often training read it (Production, Table 3).

A canary is read once for every copy that a user or device holds, every round they take part in, and every local epoch. The
counts come from the run's private participation record, so they appear in the audit's own report and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tacit.data.canaries.plan import Canary, CanaryPlan, Sharers, encode
from tacit.data.canaries.planting import count_copies, holders
from tacit.data.users import Users
from tacit.errors import AuditError

# The number of users whose examples are counted to estimate the mean, if the users keep no counts.
_LOOKED_AT = 5_000


@dataclass(frozen=True)
class Exposure:
    """One canary. `holders` have at least one copy; `copies` are those trained on; `seen` counts passes over copies."""

    canary: int
    setting: str
    holders: int
    copies: int
    expected: float
    seen: int


@dataclass(frozen=True)
class SettingExposure:
    """A row of Production's Table 3: the mean over the canaries of one setting."""

    setting: str
    canaries: int
    holders: float
    copies: float
    expected: float
    seen: float


def exposures(
    plan: CanaryPlan,
    users: Users,
    words: Sequence[str],
    participations: NDArray[np.int64],
    *,
    rounds: int,
    rate: float,
    epochs: int = 1,
    dealt_anew: bool = False,
) -> list[Exposure]:
    """The exposure of each of the plan's canaries, in order.

    `users` are the planted users as training saw them: if a recipe truncates users, with a view on top that drops the copies
    beyond the cut. Set `dealt_anew` if users were reshuffled: then anybody may hold a copy, and all users are searched.
    `participations` is how often each user took part (`tacit.privacy.participation.log.participations`) in `rounds` rounds, in
    which a user takes part with probability `rate` and reads their examples `epochs` times. The expectation is over the rounds'
    sampling, given the copies of a synthetic user. For sharers it is also over the plan's draws, with the mean number of
    examples per user in `users`, and ignores that two canaries may claim the same example.
    """
    if len(participations) != len(users):
        raise AuditError(f"Expected participations of {len(users)} users and devices, got {len(participations)}.")
    who = np.arange(len(users), dtype=np.int64) if dealt_anew else np.unique(np.concatenate(holders(plan, users)))
    held = np.zeros((3, len(plan.canaries)), np.int64)
    for block, copies in count_copies(users, who, encode(plan.canaries, words)):
        held += np.stack([(copies > 0).sum(axis=0), copies.sum(axis=0), participations[block] @ copies])
    people = len(users) - plan.synthetic_users
    per_person = _examples_a_person(plan, users, people)
    return [
        Exposure(
            canary=number,
            setting=str(canary.sharing),
            holders=int(held[0, number]),
            copies=int(held[1, number]),
            expected=rounds * epochs * _copies_a_round(plan, canary, int(held[1, number]), rate, people * per_person),
            seen=epochs * int(held[2, number]),
        )
        for number, canary in enumerate(plan.canaries)
    ]


def _examples_a_person(plan: CanaryPlan, users: Users, people: int) -> float:
    """The mean over the real users, or over an even sample of them; 0 if no canary depends on it."""
    if not any(isinstance(canary.sharing, Sharers) for canary in plan.canaries):
        return 0.0
    known = getattr(users, "example_counts", None)
    if known is not None:
        return float(known()[:people].mean())
    some = np.unique(np.linspace(0, people - 1, _LOOKED_AT).astype(np.int64))
    return float(np.diff(users.gather(some).user_offsets).mean())


def _copies_a_round(plan: CanaryPlan, canary: Canary, copies: int, rate: float, examples: float) -> float:
    """The expected number of copies that a round reads; `examples` is the number of the real users' examples."""
    how = canary.sharing
    if isinstance(how, Sharers):
        return examples * how.user_probability * how.example_probability * rate
    return copies * (rate if plan.device_rate is None else plan.device_rate)


def by_setting(rows: Sequence[Exposure]) -> list[SettingExposure]:
    """The mean over the canaries of each setting, settings in the plan's order."""
    table = []
    for setting, group in groupby(rows, key=lambda row: row.setting):
        same = list(group)
        figures = np.array([[row.holders, row.copies, row.expected, row.seen] for row in same], np.float64)
        table.append(SettingExposure(setting, len(same), *figures.mean(axis=0).tolist()))
    return table
