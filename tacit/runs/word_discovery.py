"""A run that discovers words: one release about which words people use, with a ledger like any other run's.

    run.json, recipe.toml, ledger.jsonl     as in every run: the plan, and the intent on disk before a word was read
    totals.json                             the release: noised totals of the listed words, and of the words that were found
    vocabulary.txt                          what is computed from it: the words that get a place; its first line names the run
    summary.json                            how many words were found, and what that cost

The words of a run that was cut off are lost, and so is what it cost: it counts in the store's odometer, and another discovery
is another run.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import __version__
from tacit.data.vocabulary import Vocabulary, discovered_by, load_vocabulary
from tacit.errors import DataError, PrivacyError, RunError
from tacit.files import write_atomic
from tacit.privacy.discovery.ranking import STANDS_OUT, best_words
from tacit.privacy.discovery.release import WordTotals, release, summed
from tacit.privacy.discovery.shares import SharesRule
from tacit.privacy.discovery.threshold import threshold_for
from tacit.privacy.noise.kinds.words import WORDS
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.log import ParticipationWriter
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import DataRecord, DiscoveryRecord, ReleaseSize, VocabularyRecord
from tacit.privacy.record.ledger import Ledger, LedgerWriter
from tacit.privacy.record.reasons import Reason, Why
from tacit.privacy.record.records import FORMAT, UNIT, UPDATE, Closed, Intent, Opened
from tacit.privacy.statement.wording import counted
from tacit.runs.budget.reservation import Reservation
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder
from tacit.runs.heads import Heads
from tacit.runs.odometer import Odometer
from tacit.runs.report.blocks import Paragraph, Section, Table
from tacit.runs.report.sections import write_section
from tacit.runs.witness import Witness

TOTALS = "totals.json"
# So many first candidates tell whether a list is one of the users' language.
_FIRST = 1_000
_SHOWN = 100


@dataclass(frozen=True)
class Discovery:
    """What a discovery does, all of it public.

    `sure` are words that get a place without being asked for, and `candidates` further words of public lists, most frequent
    first: noise tells which of them people use. Any other word must reach the threshold. `size` is how many words there may be.

    With `known`, the words of an earlier vocabulary, only words outside it are looked for: a user's whole contribution goes to
    these. `reasons_not_private` is why nothing may be claimed, `warnings` what is wrong with the list.
    """

    population: int
    noise_multiplier: float
    delta: float
    threshold_delta: float
    size: int
    rule: SharesRule = field(default_factory=SharesRule)
    sure: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    known: tuple[str, ...] | None = None
    seed: int | None = None
    reasons_not_private: tuple[Reason, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def threshold(self) -> float:
        """The noised total that a word on no public list must reach."""
        return threshold_for(self.threshold_delta, self.noise_multiplier, self.rule)

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
        listed = "\n".join([*self.sure, "", *self.candidates, *(() if self.known is None else ("", *self.known))])
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
    witness: Witness | None = None,
) -> RunFolder:
    """Run a discovery in a new folder; what is found is in the folder's vocabulary.

    `settings` is the run's recipe. `words` reads the word counts of `users`, one mapping each; it is called after the
    intent is on disk. `store` is the folder in whose odometer the run is entered. `witness` countersigns the ledger's heads;
    of one that is not required and does not sign, the run that trains with the words says so.
    """
    plan = discovery.plan()
    folder = RunFolder.create(out, settings)
    opened = _opened(discovery, plan, folder, settings, data, witness)
    listed = None if store is None else Odometer(store)
    if listed is not None:
        listed.register(run_id=folder.run_id, run=folder.path, claims_privacy=not opened.reasons_not_private)
    heads = Heads(listed, folder, witness, opened)
    reservation = Reservation(folder, store)
    reservation.reserve(opened)
    ledger = folder.create_ledger(opened)
    try:
        reservation.again()
        heads.record(ledger)
        _intend(plan, folder, ledger, users)
        randomness = Randomness.fresh() if discovery.seed is None else Randomness.from_seed(discovery.seed)
        unasked = frozenset((*discovery.sure, *(discovery.known or ())))
        asked = ({word: n for word, n in each.items() if word not in unasked} for each in words())
        total = summed(asked, discovery.rule)
        totals = release(
            total,
            discovery.candidates,
            noise=discovery.noise_multiplier,
            threshold_delta=discovery.threshold_delta,
            stream=randomness.noise_key(round=0, attempt=0).stream(0),
        )
        del total
        heads.record(ledger)
        _write(folder, discovery, totals)
        ledger.append(Closed(1, "finished"))
        heads.record_end(ledger)
    finally:
        reservation.settle(ledger)
        ledger.close()
    return folder


def _opened(
    discovery: Discovery, plan: PrivacyPlan, folder: RunFolder, settings: str, data: DataRecord, witness: Witness | None
) -> Opened:
    reasons = discovery.reasons_not_private + (() if discovery.seed is None else (Reason(Why.SEEDED),))
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
        witness=None if witness is None else witness.record(),
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
    if not words and discovery.known is None:
        raise DataError(
            "No word was found: too few people use the same words for so much noise, and there is no public list.",
            hint="Give a public list of words, or spend more epsilon on the discovery.",
        )
    content = {
        "noise": totals.noise,
        "threshold": discovery.threshold,
        "listed": totals.candidates,
        "found": totals.found,
    }
    write_atomic(folder.path / TOTALS, json.dumps(content, ensure_ascii=False) + "\n")
    if words:
        write_atomic(folder.vocabulary_path, Vocabulary(words, discovered_by(folder.run_id)).as_text())
    taken = frozenset(words)
    found = {word: value for word, value in totals.found.items() if word in taken}
    write_section(folder, words_section(len(words), found, rare=discovery.known is not None))
    folder.write_summary(
        {
            "words": len(words),
            "listed": len(discovery.sure) + len(discovery.candidates),
            "found": len(found),
            "threshold": discovery.threshold,
            "warnings": [*discovery.warnings, *unused_list(totals)],
            "privacy": cost_of(folder).stated.as_dict(),
        }
    )


def unused_list(totals: WordTotals) -> list[str]:
    """A warning if people do not use the first words that compete; it is computed from the release alone."""
    first = list(totals.candidates.values())[:_FIRST]
    if not first or sum(first) > STANDS_OUT * totals.noise * math.sqrt(len(first)):
        return []
    return [
        f"The first {len(first):,} words of the public list that compete for a place are used no more than noise explains: the "
        "list may be in another alphabet or language than the texts, or there are too few users."
    ]


def words_section(words: int, found: Mapping[str, float], *, rare: bool) -> Section:
    """The part of the report that shows what was found."""
    where = "outside the earlier vocabulary" if rare else "with a place"
    text = f"{counted(words, 'word')} {where}, {len(found):,} of them on no public list."
    most = sorted(found.items(), key=lambda each: (-each[1], each[0]))
    rows = [[word, f"{value:,.1f}"] for word, value in most[:_SHOWN]]
    table = [Table(columns=["word found", "noised total"], rows=rows)] if rows else []
    return Section(name="words", title="The words", order=10, blocks=[Paragraph(text=text), *table])


def totals_of(folder: RunFolder) -> WordTotals:
    """The release of a finished discovery; RunError if the folder has none."""
    try:
        content: dict[str, Any] = json.loads((folder.path / TOTALS).read_text(encoding="utf-8"))
        return WordTotals(content["listed"], content["found"], content["noise"])
    except (OSError, ValueError, KeyError):
        raise RunError(f"The run {folder.path} has no {TOTALS} that can be read.") from None


def words_of(folder: RunFolder) -> tuple[str, ...]:
    """The words of a finished discovery; DataError if the file was changed.

    There are none, and no file, where words outside another vocabulary were looked for and none was found.
    """
    return load_vocabulary(folder.vocabulary_path).words if folder.vocabulary_path.exists() else ()


def finished_words(folder: RunFolder, ledger: Ledger) -> tuple[str, ...]:
    """The words of a discovery; RunError if it did not finish."""
    if ledger.closed is None or ledger.closed.outcome != "finished":
        raise RunError(f"The discovery of words {folder.path} did not finish, so it has no words.")
    return words_of(folder)


def discovered(folder: RunFolder) -> tuple[Sequence[str], VocabularyRecord | None, tuple[Reason, ...]]:
    """The words of a finished discovery, what the ledger of a run that uses them says, and why such a run claims nothing.

    RunError if the folder is that of another kind of run, or of a discovery that did not finish. PrivacyError for words that
    were found letter by letter on some of the users in each round: what that costs is not composed with training here.
    """
    ledger = folder.accountable_ledger()
    opened = ledger.opened
    if not opened.finds_words:
        raise RunError(f"Expected a run that discovers words, got {folder.path}, which is another kind of run.")
    words = finished_words(folder, ledger)
    stated = cost_of(folder, ledger).stated
    if stated.reasons_not_private:
        return words, None, stated.reasons_not_private
    count = len(ledger.intents)
    noise = float(opened.plan["noise_multiplier"])
    if count < 1:
        raise PrivacyError(f"The discovery of words {folder.path} has released nothing.")
    if opened.discovery is None and any(intent.sampling.get("probability") != 1 for intent in ledger.intents):
        raise PrivacyError(
            f"Expected a discovery of words that everybody took part in, got {folder.path}: how much one costs in which users "
            "are drawn or check in cannot be made part of the cost of training.",
            hint=f"What several runs cost together: tacit account compose {folder.path} RUN",
        )
    threshold_delta = 0.0 if opened.discovery is None else count * opened.discovery.threshold_delta
    return words, VocabularyRecord(opened.run_id, ledger.head, noise, count, threshold_delta), ()
