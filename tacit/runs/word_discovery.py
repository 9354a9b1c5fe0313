"""A run that discovers words: one release about which words people use, with a ledger like any other run's.

    run.json, recipe.toml, ledger.jsonl     as in every run: the plan, and the intent on disk before a word was read
    totals.json                             the release: noised totals of the listed words, and of the words that were found
    vocabulary.txt                          what is computed from it: the words that get a place
    summary.json                            how many words were found, and what that cost

The words of a run that was cut off are lost, and so is what it cost: it counts in the store's odometer, and another discovery
is another run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import __version__
from tacit.errors import DataError, PrivacyError, RunError
from tacit.files import write_atomic
from tacit.privacy.discovery.ranking import best_words
from tacit.privacy.discovery.release import WordTotals, release, summed
from tacit.privacy.discovery.shares import SharesRule
from tacit.privacy.noise.kinds.words import WORDS
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.log import ParticipationWriter
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import DataRecord, DiscoveryRecord, ReleaseSize, VocabularyRecord
from tacit.privacy.record.ledger import LedgerWriter
from tacit.privacy.record.reasons import Reason, Why
from tacit.privacy.record.records import FORMAT, UNIT, UPDATE, Closed, Intent, Opened
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder
from tacit.runs.odometer import Odometer

TOTALS = "totals.json"


@dataclass(frozen=True)
class Discovery:
    """What a discovery does, all of it public.

    `sure` are words that get a place without being asked for, and `candidates` further words of public lists, most frequent
    first: noise tells which of them people use. Any other word must reach the threshold. `size` is how many words there may be.
    """

    population: int
    noise_multiplier: float
    delta: float
    threshold_delta: float
    size: int
    rule: SharesRule = field(default_factory=SharesRule)
    sure: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    seed: int | None = None

    def plan(self) -> PrivacyPlan:
        """The plan of the run: everybody takes part in its one round."""
        return PrivacyPlan(
            mechanism=WORDS,
            population=self.population,
            cohort=self.population,
            clip_norm=1.0,
            noise_multiplier=self.noise_multiplier,
            delta=self.delta,
        )

    def record(self) -> DiscoveryRecord:
        """What the ledger's first record says of it."""
        listed = "\n".join([*self.sure, "", *self.candidates])
        return DiscoveryRecord(
            self.rule.words_per_user,
            self.rule.largest_share,
            self.threshold_delta,
            len(self.candidates),
            hashlib.sha256(listed.encode()).hexdigest(),
        )


def discover(
    discovery: Discovery,
    out: Path,
    settings: str,
    *,
    data: DataRecord,
    store: Path | None,
    users: NDArray[np.int64],
    words: Callable[[], Iterable[Mapping[str, int]]],
) -> RunFolder:
    """Run a discovery in a new folder; what is found is in the folder's vocabulary.

    `settings` is the run's recipe. `words` reads the word counts of `users`, one mapping each; it is called after the
    intent is on disk. `store` is the folder in whose odometer the run is entered.
    """
    plan = discovery.plan()
    folder = RunFolder.create(out, settings)
    opened = _opened(discovery, plan, folder, settings, data)
    listed = None if store is None else Odometer(store)
    if listed is not None:
        listed.register(run_id=folder.run_id, run=folder.path, claims_privacy=not opened.reasons_not_private)
    ledger = folder.create_ledger(opened)
    try:
        _record_head(listed, folder, ledger)
        _intend(plan, folder, ledger, users)
        randomness = Randomness.fresh() if discovery.seed is None else Randomness.from_seed(discovery.seed)
        sure = frozenset(discovery.sure)
        total = summed(({word: n for word, n in each.items() if word not in sure} for each in words()), discovery.rule)
        totals = release(
            total,
            discovery.candidates,
            noise=discovery.noise_multiplier,
            threshold_delta=discovery.threshold_delta,
            stream=randomness.noise_key(round=0, attempt=0).stream(0),
        )
        del total
        _record_head(listed, folder, ledger)
        _write(folder, discovery, totals)
        ledger.append(Closed(1, "finished"))
        _record_head(listed, folder, ledger)
    finally:
        ledger.close()
    return folder


def _opened(discovery: Discovery, plan: PrivacyPlan, folder: RunFolder, settings: str, data: DataRecord) -> Opened:
    reasons = () if discovery.seed is None else (Reason(Why.SEEDED),)
    return Opened(
        run_id=folder.run_id,
        format=FORMAT,
        tacit_version=__version__,
        plan=plan.model_dump(mode="json"),
        mechanism=plan.mechanism,
        strategy={},
        population=plan.population,
        rounds=1,
        seeded=discovery.seed is not None,
        reasons_not_private=reasons,
        recipe=hashlib.sha256(settings.encode()).hexdigest(),
        # How many words people have is secret, and exact noise has no tail that depends on it.
        release=ReleaseSize(1, 1),
        data=data,
        unit=UNIT,
        adjacency=plan.adjacency,
        discovery=discovery.record(),
    )


def _intend(plan: PrivacyPlan, folder: RunFolder, ledger: LedgerWriter, users: NDArray[np.int64]) -> None:
    """Write to disk that all of these users are about to be read."""
    participation = ParticipationWriter(folder.participation_path)
    try:
        digest = participation.append(0, 0, users)
    finally:
        participation.close()
    ledger.append(
        Intent(
            round=0,
            attempt=0,
            sampling=plan.sampling_constants,
            blocks={UPDATE: {"bound": 1.0, "noise_multiplier": plan.noise_multipliers[UPDATE]}},
            denominator=plan.denominator,
            participation=digest,
        )
    )


def _write(folder: RunFolder, discovery: Discovery, totals: WordTotals) -> None:
    """The release, what follows from it, and what it cost."""
    room = max(discovery.size - len(discovery.sure), 0)
    words = (*discovery.sure[: discovery.size], *best_words(totals, room))
    if not words:
        raise DataError(
            "No word was found: too few people use the same words for so much noise, and there is no public list.",
            hint="Give a public list of words, or spend more epsilon on the discovery.",
        )
    content = {"noise": totals.noise, "listed": totals.candidates, "found": totals.found}
    write_atomic(folder.path / TOTALS, json.dumps(content, ensure_ascii=False) + "\n")
    write_atomic(folder.vocabulary_path, "".join(f"{word}\n" for word in words))
    taken = frozenset(words)
    folder.write_summary(
        {
            "words": len(words),
            "listed": len(discovery.sure) + len(discovery.candidates),
            "found": sum(word in taken for word in totals.found),
            "privacy": cost_of(folder).stated.as_dict(),
        }
    )


def _record_head(listed: Odometer | None, folder: RunFolder, ledger: LedgerWriter) -> None:
    if listed is not None:
        listed.record_head(folder.run_id, ledger.length, ledger.head)


def totals_of(folder: RunFolder) -> WordTotals:
    """The release of a finished discovery; RunError if the folder has none."""
    try:
        content: dict[str, Any] = json.loads((folder.path / TOTALS).read_text(encoding="utf-8"))
        return WordTotals(content["listed"], content["found"], content["noise"])
    except (OSError, ValueError, KeyError):
        raise RunError(f"The run {folder.path} has no {TOTALS} that can be read.") from None


def discovered(folder: RunFolder) -> tuple[Sequence[str], VocabularyRecord | None, tuple[Reason, ...]]:
    """The words of a finished discovery, what the ledger of a run that uses them says, and why such a run claims nothing.

    RunError if the folder is that of another kind of run, or of a discovery that did not finish.
    """
    ledger = folder.accountable_ledger()
    opened, words = ledger.opened, folder.vocabulary()
    if opened.discovery is None:
        raise RunError(f"Expected a run that discovers words, got {folder.path}, which is another kind of run.")
    if ledger.closed is None or ledger.closed.outcome != "finished" or words is None:
        raise RunError(f"The discovery of words {folder.path} did not finish, so it has no words.")
    stated = cost_of(folder, ledger).stated
    if stated.reasons_not_private:
        return words, None, stated.reasons_not_private
    count = len(ledger.intents)
    noise = float(opened.plan["noise_multiplier"])
    if count < 1:
        raise PrivacyError(f"The discovery of words {folder.path} has released nothing.")
    return (
        words,
        VocabularyRecord(opened.run_id, ledger.head, noise, count, count * opened.discovery.threshold_delta),
        (),
    )
