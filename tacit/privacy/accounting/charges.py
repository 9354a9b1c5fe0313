"""What a job is charged to the account of the people it reads: a cost as plain data, which a file or a database can keep.

A charge is what `several_runs` would compose for the job, without δ and without other jobs: rounds on sampled users, a ρ, the δ
of thresholds, the probability that noise is outside its proof, and the discovery that chose the job's words. `budget_filter`
adds charges up. A charge without a bound says why (`unknown`).

The discovery of a vocabulary is named by its run, so that it counts once, however many jobs use its words, and whether or not
it is a job of the same account.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tacit.privacy.accounting.composition import Concentrated, Sampled, merged
from tacit.privacy.accounting.discovered_words import discovery_rho
from tacit.privacy.accounting.sampled_gaussian import ADJACENCY, SampledRounds
from tacit.privacy.accounting.several_runs import cost_of_run
from tacit.privacy.accounting.zcdp import gaussian_rho
from tacit.privacy.record.codec import Typed
from tacit.privacy.record.planned import charged_for
from tacit.privacy.record.reasons import in_words
from tacit.privacy.record.records import Intent, Opened

# A discovery's ρ is kept for these neighbours; for others it is computed from it.
_OF_WORDS = ADJACENCY["poisson"]
# Two ways of adding the same numbers up differ by less than this.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class ChargedRounds(Typed):
    """Rounds on sampled users, with the same sampling and noise."""

    sampling: dict[str, Any]
    noise_multiplier: float
    count: int


@dataclass(frozen=True)
class ChargedWords(Typed):
    """The discovery that chose a job's words: its run, its ρ for adding or removing a user, and its δ_T."""

    run: str
    rho: float
    threshold_delta: float

    def at_least(self, other: ChargedWords) -> ChargedWords:
        """The larger of the two in every part, for the same discovery."""
        return ChargedWords(self.run, max(self.rho, other.rho), max(self.threshold_delta, other.threshold_delta))


@dataclass(frozen=True)
class Charge(Typed):
    """What a job is charged for.

    `adjacency` is None for a discovery of words, which is proven for every kind of neighbours; `rho_of_words` is then its ρ for
    adding or removing a user. `unknown` says why there is no bound, without a full stop.
    """

    unit: str
    adjacency: str | None
    rounds: tuple[ChargedRounds, ...] = ()
    rho: float = 0.0
    rho_of_words: float = 0.0
    tail: float = 0.0
    threshold_delta: float = 0.0
    words: ChargedWords | None = None
    unknown: str | None = None

    @property
    def is_possible(self) -> bool:
        """Whether every number is one that a cost can have, finite and not below zero, and sampling is of a known kind."""
        words = () if self.words is None else (self.words.rho, self.words.threshold_delta)
        numbers = (self.rho, self.rho_of_words, self.tail, self.threshold_delta, *words)
        known = all(
            each.sampling.get("kind") in ADJACENCY and each.noise_multiplier > 0 and each.count >= 0
            for each in self.rounds
        )
        return known and all(0 <= each < math.inf for each in numbers)

    def covers_words(self, words: ChargedWords) -> bool:
        """Whether this is the charge of a discovery that costs no less than a run that uses its words says."""
        everybody = (each for each in self.rounds if each.sampling.get("probability") == 1)
        rho = self.rho + self.rho_of_words + sum(gaussian_rho(each.noise_multiplier, each.count) for each in everybody)
        return words.rho <= rho * (1 + _ROUNDING) and words.threshold_delta <= self.threshold_delta * (1 + _ROUNDING)

    def covers(self, other: Charge) -> bool:
        """Whether nothing in the other charge is more than here."""
        return self.at_least(other) == self

    def at_least(self, other: Charge) -> Charge:
        """The charge that holds both, of the same job: the larger of the two in every part."""
        counts: dict[tuple[tuple[Any, ...], float], ChargedRounds] = {}
        for each in (*self.rounds, *other.rounds):
            key = (tuple(sorted(each.sampling.items())), each.noise_multiplier)
            if key not in counts or counts[key].count < each.count:
                counts[key] = each
        names = ("rho", "rho_of_words", "tail", "threshold_delta")
        return Charge(
            unit=self.unit,
            adjacency=self.adjacency,
            rounds=tuple(counts.values()),
            **{name: max(getattr(self, name), getattr(other, name)) for name in names},
            words=_larger(self.words, other.words),
            unknown=self.unknown or other.unknown,
        )


def charge_of(opened: Opened, intents: Iterable[Intent] = (), *, start: int | None = None) -> Charge:
    """What a run with this first record and these releases is charged for, its planned rounds included.

    `start` is the round that it goes on with, where that is not the one after its last: rounds from there on run again.
    """
    charged = charged_for(opened, intents, start=start)
    any_neighbours = opened.discovery is not None
    adjacency = _OF_WORDS if any_neighbours else opened.adjacency
    cost = cost_of_run(opened, charged, adjacency)
    rho = math.fsum(part.rho for part in cost.parts if isinstance(part, Concentrated))
    groups = merged(part.rounds for part in cost.parts if isinstance(part, Sampled) and part.rounds.count > 0)
    unknown = in_words(cost.reasons) if cost.reasons else None
    if unknown is None and (math.isinf(rho) or any(group.noise_multiplier <= 0 for group in groups)):
        unknown = "a release has no noise"
    if unknown is not None:
        return Charge(opened.unit, None if any_neighbours else opened.adjacency, unknown=unknown)
    found = opened.vocabulary
    words = None
    if found is not None:
        of_words = discovery_rho(found.noise_multiplier, found.releases, _OF_WORDS)
        words = ChargedWords(found.run, of_words, found.threshold_delta)
    return Charge(
        unit=opened.unit,
        adjacency=None if any_neighbours else opened.adjacency,
        rounds=tuple(ChargedRounds(dict(g.sampling), float(g.noise_multiplier), g.count) for g in groups),
        rho=0.0 if any_neighbours else rho,
        rho_of_words=rho if any_neighbours else 0.0,
        tail=cost.tail,
        threshold_delta=cost.threshold_delta,
        words=words,
    )


def sampled_rounds(charge: Charge) -> list[SampledRounds]:
    """The charge's rounds as the accountants take them."""
    return [SampledRounds(each.sampling, each.noise_multiplier, each.count) for each in charge.rounds]


def _larger(words: ChargedWords | None, others: ChargedWords | None) -> ChargedWords | None:
    return words.at_least(others) if words is not None and others is not None else words or others


def rho_for(charge: Charge, adjacency: str) -> float:
    """The charge's ρ for these neighbours, the discovery of its words left out."""
    return charge.rho + _words(charge.rho_of_words, adjacency)


def rho_of_discovery(words: ChargedWords, adjacency: str) -> float:
    """ρ of the discovery that chose a job's words, for these neighbours."""
    return _words(words.rho, adjacency)


def _words(rho: float, adjacency: str) -> float:
    """ρ of releases of words for these neighbours, from that for adding or removing a user (`discovery_rho`)."""
    return 2 * rho if adjacency == ADJACENCY["fixed"] else rho
