"""Whether the cohorts that took part can be those of the sampler the ledger names.

Amplification rests on the sampling constants, which the ledger states; the participation record, bound to the ledger by
digests, shows who really took part. Fixed-size cohorts must have their size, exactly. Everything else is a matter of
chance, so each of these is compared with its exact law, and only what is next to impossible is called false:

    each cohort's size, and their total    Binomial(N, q) and Binomial(N T, q), T cohorts drawn from N users (Poisson)
    the sizes' extremes all on one side    every size ≤ c, every size ≥ c, every size within d of N q: the
                                           T-th power of one cohort's chance (truncated, topped up, made equal)
    who was there the time before          given the cohort before, of size m: Binomial(m, q); for fixed-size
                                           cohorts the hypergeometric law of m among N (a draw repeated)
    how often one user was there           Binomial(T, q), for the most and the least frequent of N (users preferred
                                           or passed over)

**False alarms.** An honest sampler fails one test with probability at most its share of `FALSE_ALARM`: tails are exact, and
where a test looks at the most extreme of n chances, its tail is multiplied by n (union bound; tests need not be
independent). All shares add up to `FALSE_ALARM`, one run in a billion.

**Cyclic sampling.** In the rounds of one group, the users of that group are Poisson-sampled, so the cohorts of each group are
compared with that law. A user in a round of another group is no matter of chance. Where the users' names are
at hand, their groups are known, and so is N of each group; otherwise a user must not be in rounds of two groups.

**Without N.** The number of users sampled from is no public constant (neighbours differ in it), so the ledger does not
hold it. Where the data are not at hand, sizes cannot be judged; overlaps and frequent users can, taking N for a billion.

What this cannot find is a sampler whose law is only a little off: a relative error of η in q shows after some (6/η)²
participations, not before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import LedgerError
from tacit.privacy.participation.cyclic import CYCLIC, groups_of
from tacit.privacy.participation.log import RecordedCohort
from tacit.privacy.record.records import Intent

FALSE_ALARM = 1e-9
# More people than one service reaches; what the union over users is taken over where their number is not known.
MOST_USERS = 10**9


def check_sampler(
    pairs: Iterable[tuple[Intent, RecordedCohort]],
    users: int | None,
    *,
    whose: str = "The cohorts",
    names: NDArray[np.uint64] | None = None,
) -> None:
    """LedgerError unless the cohorts can have come from the sampling their intents name, `users` to draw from.

    `whose` begins the sentence of a refusal, where only some of the users are looked at. `names`: of all users, where they are
    at hand; cyclic sampling follows from them. Check-ins promise no law, and are passed over. The sentence says what is
    impossible about which round, and never who was there.
    """
    groups: dict[str, _Group] = {}
    turns: dict[int, _Turns] = {}
    for intent, cohort in pairs:
        if intent.sampling["kind"] == CYCLIC:
            count = int(intent.sampling["groups"])
            cohort = turns.setdefault(count, _Turns(count, users, names)).within_group(cohort)
            name = f"{sorted(intent.sampling.items())!r}, group {cohort.round % count}"
            if name not in groups:
                law = {"kind": "poisson", "probability": intent.sampling["probability"]}
                groups[name] = _Group(law, turns[count].size(cohort.round), before="its group's cohort before it")
            groups[name].add(cohort)
            continue
        if intent.sampling["kind"] not in ("poisson", "fixed"):
            continue
        name = repr(sorted(intent.sampling.items()))
        if name not in groups:
            groups[name] = _Group(intent.sampling, users)
        groups[name].add(cohort)
    findings = [finding for group in groups.values() for finding in group.findings()]
    if not findings:
        return
    worst = min(findings, key=lambda finding: finding.chance)
    if worst.chance < FALSE_ALARM / len(findings):
        raise LedgerError(
            f"{whose} are not those of the sampling in the ledger: {worst.what} "
            f"(chance below {max(worst.chance, 1e-300):.0e}); nothing can be claimed, epsilon is infinite."
        )


@dataclass(frozen=True)
class _Finding:
    what: str
    chance: float


class _Turns:
    """Whose turn it is in cyclic sampling: by the users' names, or by where each user was seen first."""

    def __init__(self, count: int, users: int | None, names: NDArray[np.uint64] | None) -> None:
        self.count, self.users, self.known = count, users, names is not None
        if names is not None and len(names) != users:
            raise LedgerError("Expected the name of every user to draw from, to know their groups.")
        self.group = np.full(users or 1024, -1, np.int64) if names is None else groups_of(names, count)
        self.number = np.zeros(len(self.group), np.int64)  # by user: their number among the users of their group
        if self.known:
            for group in range(count):
                members = self.group == group
                self.number[members] = np.arange(members.sum())

    def size(self, round: int) -> int | None:
        """How many users have their turn in this round; None if their groups are not known."""
        return int((self.group == round % self.count).sum()) if self.known else None

    def within_group(self, cohort: RecordedCohort) -> RecordedCohort:
        """The cohort, its users numbered within their group; LedgerError if it was not the turn of one of them."""
        users, turn = cohort.users, cohort.round % self.count
        highest = int(users[-1]) if len(users) else -1
        if self.users is not None and highest >= self.users:
            raise LedgerError(
                f"The cohort of round {cohort.round} names a user beyond those there are: it was not drawn from these data."
            )
        if highest >= len(self.group):
            more = max(highest + 1, 2 * len(self.group)) - len(self.group)
            self.group = np.concatenate([self.group, np.full(more, -1, np.int64)])
        if not self.known:
            self.group[users] = np.where(self.group[users] < 0, turn, self.group[users])
        if (self.group[users] != turn).any():
            raise LedgerError(
                f"The cohort of round {cohort.round} has a user whose group has its turn in other rounds: it was not drawn by "
                "the cyclic sampling in the ledger; nothing can be claimed, epsilon is infinite."
            )
        return replace(cohort, users=self.number[users]) if self.known else cohort


class _Group:
    """The cohorts of intents with the same sampling constants, and of the same group where groups take turns."""

    def __init__(self, sampling: dict[str, Any], users: int | None, before: str = "the cohort before it") -> None:
        self.kind = sampling["kind"]
        self.users, self.before = users, before
        self.fixed_size = int(sampling["size"]) if self.kind == "fixed" else None
        if self.fixed_size is not None and users is not None and users < int(sampling["population"]):
            raise LedgerError(
                f"Expected at least {sampling['population']} users to draw from, as the ledger's sampling says, got {users}: "
                "fewer are amplified less, epsilon is infinite."
            )
        # Drawn from more users than that, cohorts overlap less: without their number the smaller one is assumed.
        pool = None if self.fixed_size is None else int(sampling["population"]) if users is None else users
        self.pool = pool
        self.q = float(sampling["probability"]) if pool is None or self.fixed_size is None else self.fixed_size / pool
        self.rounds: list[int] = []
        self.sizes: list[int] = []
        self.overlaps: list[tuple[int, int, float]] = []  # round, users of the cohort before, chance of so many
        self.counts = np.zeros(users or 1024, np.int64)
        self.last = np.full(len(self.counts), -2, np.int64)  # when each user was last there, as a number of cohorts

    def add(self, cohort: RecordedCohort) -> None:
        """One more cohort; LedgerError for what no chance explains."""
        size = len(cohort.users)
        highest = int(cohort.users[-1]) if size else -1
        if self.users is not None and highest >= self.users:
            raise LedgerError(
                f"The cohort of round {cohort.round} names a user beyond the {self.users} there are: "
                "it was not drawn from these data."
            )
        if self.fixed_size is not None and size != self.fixed_size:
            raise LedgerError(
                f"Expected {self.fixed_size} users in the cohort of round {cohort.round}, as the ledger's sampling says, "
                f"got {size}: epsilon is infinite."
            )
        self._make_room(highest)
        self.counts[cohort.users] += 1
        number = len(self.sizes)
        repeated = int((self.last[cohort.users] == number - 1).sum())
        if number and repeated:
            self.overlaps.append((cohort.round, repeated, self._overlap_chance(repeated, self.sizes[-1])))
        self.last[cohort.users] = number
        self.rounds.append(cohort.round)
        self.sizes.append(size)

    def findings(self) -> Iterator[_Finding]:
        """Every test, with the chance of what was seen or anything as extreme."""
        if self.kind == "poisson" and self.users is not None:
            yield from self._size_findings(self.users)
        T = len(self.sizes)
        round, repeated, chance = min(self.overlaps, key=lambda each: each[2], default=(0, 0, 1.0))
        what = f"round {round} repeats {repeated} users of {self.before}"
        yield _Finding(what, min(1.0, chance * max(1, T - 1)))
        among = MOST_USERS if self.users is None else self.users
        most = int(self.counts.max(initial=0))
        yield _Finding(f"a user is in {most} of {T} cohorts", min(1.0, _at_least(most, T, self.q) * among))
        if self.users:
            least = int(self.counts.min())
            yield _Finding(f"a user is in only {least} of {T} cohorts", min(1.0, _at_most(least, T, self.q) * among))

    def _size_findings(self, users: int) -> Iterator[_Finding]:
        sizes, T, mean = np.asarray(self.sizes), len(self.sizes), users * self.q
        smallest, largest, total = int(sizes.min()), int(sizes.max()), int(sizes.sum())
        expected = f"where {mean:.6g} are expected"
        small = f"the cohort of round {self.rounds[int(sizes.argmin())]} has {smallest} users {expected}"
        large = f"the cohort of round {self.rounds[int(sizes.argmax())]} has {largest} users {expected}"
        yield _Finding(small, min(1.0, T * _at_most(smallest, users, self.q)))
        yield _Finding(large, min(1.0, T * _at_least(largest, users, self.q)))
        all_told = f"{T} cohorts have {total} users together where {mean * T:.6g} are expected"
        yield _Finding(all_told, _at_most(total, users * T, self.q))
        yield _Finding(all_told, _at_least(total, users * T, self.q))
        yield _Finding(f"none of {T} cohorts has more than {largest} users", _at_most(largest, users, self.q) ** T)
        yield _Finding(f"none of {T} cohorts has fewer than {smallest} users", _at_least(smallest, users, self.q) ** T)
        off = float(np.abs(sizes - mean).max())
        near = _at_most(math.floor(mean + off + 1e-9), users, self.q) - _at_most(
            math.ceil(mean - off - 1e-9) - 1, users, self.q
        )
        yield _Finding(f"all of {T} cohorts have nearly the same size", min(1.0, max(near, 0.0) + 1e-12) ** T)

    def _overlap_chance(self, repeated: int, before: int) -> float:
        if self.pool is None or self.fixed_size is None:
            return _at_least(repeated, before, self.q)
        return _hypergeometric_at_least(repeated, self.pool, before, self.fixed_size)

    def _make_room(self, highest: int) -> None:
        if highest >= len(self.counts):
            more = max(highest + 1, 2 * len(self.counts)) - len(self.counts)
            self.counts = np.concatenate([self.counts, np.zeros(more, np.int64)])
            self.last = np.concatenate([self.last, np.full(more, -2, np.int64)])


def _at_least(k: int, n: int, q: float) -> float:
    """P(Binomial(n, q) ≥ k)."""
    from scipy import special  # slow to import, and few commands need it

    if k <= 0:
        return 1.0
    return 0.0 if k > n else float(special.betainc(k, n - k + 1, min(q, 1.0)))


def _at_most(k: int, n: int, q: float) -> float:
    """P(Binomial(n, q) ≤ k)."""
    from scipy import special

    if k >= n:
        return 1.0
    return 0.0 if k < 0 else float(special.betaincc(k + 1, n - k, min(q, 1.0)))


def _hypergeometric_at_least(k: int, users: int, marked: int, drawn: int) -> float:
    """P(at least k of `marked` users among `drawn`, out of `users`, without replacement)."""
    if k > marked + drawn - users:
        hits = np.arange(k, min(marked, drawn) + 1)
        return float(
            np.exp(
                _log_choose(marked, hits)
                + _log_choose(users - marked, drawn - hits)
                - _log_choose(users, np.array(drawn))
            ).sum()
        )
    return 1.0


def _log_choose(n: int, k: np.ndarray) -> np.ndarray:
    from scipy import special

    return np.asarray(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1))
