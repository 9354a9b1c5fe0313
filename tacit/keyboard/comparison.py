"""Several models on the keyboards of the same held-out users: an A/B experiment without the wait.

A model is a run, an n-gram model counted for the occasion ("ngram", or "ngram+history" with the user's own history mixed
in), or one saved before (FILE.npz). The first is the baseline. Held-out users are read here: what comes out is outside any
guarantee and feeds no training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.store import open_store
from tacit.data.users import BOS, EOS, PAD, Users
from tacit.errors import DataError, PrivacyError, RunError
from tacit.figures import finite_or_none
from tacit.keyboard.comparison_users import ComparisonUsers, open_comparison_users
from tacit.keyboard.history import WithHistory
from tacit.keyboard.jackknife import BUCKETS, Change, Ratio, deal, relative_change
from tacit.keyboard.ngram import Katz, load_katz, train_katz
from tacit.keyboard.replay import METRICS, ReplayCounts, record, replay
from tacit.keyboard.taps import Keyboard
from tacit.learning.pretrain import Reworded
from tacit.learning.stepwise import Neural, Stepwise
from tacit.runs.cost import cost_of
from tacit.runs.folder import by_name
from tacit.training.trained import load_trained

NGRAM, NGRAM_WITH_HISTORY = "ngram", "ngram+history"
_COUNTED = (NGRAM, NGRAM_WITH_HISTORY)
# N-grams of four and five words that came only once are dropped: half the size, hardly any difference.
LEAST_COUNTS = (1, 1, 1, 2, 2)


@dataclass(frozen=True)
class NgramSettings:
    """How the n-gram models of a comparison are made: on the users who are not held out, or on another store's."""

    order: int = 5
    store: Path | None = None
    is_public: bool = False
    save: Path | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.order <= len(LEAST_COUNTS):
            raise DataError(f"Expected --ngram-order from 1 to {len(LEAST_COUNTS)}, got {self.order}.")
        if self.is_public and self.store is None:
            raise PrivacyError("Expected --ngram-public with --ngram-on only: the users compared on are private.")


@dataclass(frozen=True)
class Contestant:
    """A model, and what it claims about privacy: the run's own statement, or where the n-grams come from."""

    name: str
    model: Stepwise
    privacy: Mapping[str, Any]


@dataclass(frozen=True)
class ModelResult:
    """One model's metrics, and their change against the baseline (the baseline itself has none)."""

    name: str
    privacy: Mapping[str, Any]
    metrics: Mapping[str, float]
    changes: Mapping[str, Change]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what is not a number is null."""
        return {
            "model": self.name,
            "privacy": dict(self.privacy),
            "metrics": {name: finite_or_none(value) for name, value in self.metrics.items()},
            "changes": {
                name: {k: finite_or_none(v) for k, v in vars(each).items()} for name, each in self.changes.items()
            },
        }


@dataclass(frozen=True)
class KeyboardComparison:
    """What came out, for whom."""

    on: str
    users: int
    words: int
    buckets: int
    outcomes: tuple[ModelResult, ...]


def compare(
    models: Sequence[str],
    on: str,
    *,
    held_out: int | None = None,
    buckets: int = BUCKETS,
    seed: int = 0,
    ngram: NgramSettings | None = None,
    on_progress: Callable[[str], None] = lambda doing: None,
) -> KeyboardComparison:
    """Replay the held-out users' typing with every model; `on_progress` hears what is being done."""
    if len(models) < 2:
        raise RunError(f"Expected two or more models to compare, got {len(models)}.")
    if len(set(models)) < len(models):
        raise RunError("Expected every model to be named once, got one twice.")
    runs = {name: by_name(Path(name)) for name in models if _is_run(name)}
    context = open_comparison_users(on, list(runs.values()), held_out=held_out, wanted=max(buckets, 1))
    bucket = deal(len(context.held_out), buckets, seed=seed)
    contestants = _contestants(models, runs, context, ngram or NgramSettings(), on_progress)
    on_progress("recording the held-out users' typing")
    recording = record(context.held_out, Keyboard.of(context.words), seed=seed)
    tallies = []
    for contestant in contestants:
        on_progress(f"replaying with {contestant.name}")
        tallies.append(replay(contestant.model, recording))
    outcomes = []
    for contestant, tally in zip(contestants, tallies, strict=True):
        changes = {}
        if contestant is not contestants[0]:
            changes = {
                metric: relative_change(_ratio(tally, metric), _ratio(tallies[0], metric), bucket) for metric in METRICS
            }
        outcomes.append(ModelResult(contestant.name, contestant.privacy, tally.metrics(), changes))
    words = int(tallies[0].counts["words"].sum())
    return KeyboardComparison(context.name, len(context.held_out), words, buckets, tuple(outcomes))


def fingerprint_of(words: Sequence[str]) -> str:
    """The SHA-256 of the words in their order, by which a saved n-gram model knows its vocabulary."""
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def _contestants(
    models: Sequence[str],
    runs: Mapping[str, Path],
    context: ComparisonUsers,
    ngram: NgramSettings,
    on_progress: Callable[[str], None],
) -> list[Contestant]:
    found: dict[str, Contestant] = {}
    for name in models:  # what may be wrong with a file is on_progress before n-grams are counted
        if name in runs:
            trained = load_trained(runs[name])
            _require_words(name, tuple(trained.words), context)
            privacy = cost_of(trained.folder).stated.as_dict()
            kept = {key: privacy[key] for key in ("epsilon", "delta", "rounds", "reasons_not_private")}
            found[name] = Contestant(name, Neural(trained.model), kept)
        elif name not in _COUNTED:
            found[name] = _from_katz(name, load_katz(Path(name)), context)
    if len(found) < len(models):
        on_progress("counting n-grams")
        katz = _count(context, ngram)
        found |= {name: _from_katz(name, katz, context) for name in models if name in _COUNTED}
    return [found[name] for name in models]


def _from_katz(name: str, katz: Katz, context: ComparisonUsers) -> Contestant:
    if katz.fingerprint != fingerprint_of(context.words):
        raise DataError(
            f"Expected an n-gram model with the {len(context.words):,} words of {context.name}, got {name}, whose words are "
            "others."
        )
    privacy = {"counted_on": katz.provenance, "is_public": katz.is_public}
    return Contestant(name, WithHistory(katz, BOS) if name == NGRAM_WITH_HISTORY else katz, privacy)


def _require_words(name: str, words: tuple[str, ...], context: ComparisonUsers) -> None:
    if words != context.words:
        raise RunError(
            f"Expected a run with the {len(context.words):,} words of {context.name}, which the baseline is judged by, got "
            f"{name}, whose {len(words):,} words are others."
        )


def _count(context: ComparisonUsers, settings: NgramSettings) -> Katz:
    users: Users = context.others
    source, is_public = context.name, False  # a world's users stand for private ones
    if settings.store is not None:
        store = open_store(settings.store)
        if store.vocabulary is None:
            raise DataError(f"Expected a store of text in --ngram-on, got {settings.store}, which has no words.")
        if store.store_id == context.store_id:
            raise PrivacyError(
                f"Expected another store than --on in --ngram-on, got {settings.store}: its held-out users would be counted."
            )
        words = store.vocabulary.decode(np.arange(len(store.vocabulary)))
        users, source, is_public = (
            Reworded(store, words, context.words),
            f"the store {settings.store}",
            settings.is_public,
        )
    text = users.gather(np.arange(len(users), dtype=np.int64))
    model = train_katz(
        text.items,
        text.example_offsets,
        order=settings.order,
        vocabulary=len(context.words),
        bos=BOS,
        eos=EOS,
        never=(PAD, BOS),
        provenance=f"{len(users):,} users of {source}",
        is_public=is_public,
        least_counts=LEAST_COUNTS[: settings.order],
        fingerprint=fingerprint_of(context.words),
    )
    if settings.save is not None:
        model.save(settings.save)
    return model


def _is_run(name: str) -> bool:
    return name not in _COUNTED and not name.endswith(".npz")


def _ratio(tally: ReplayCounts, metric: str) -> Ratio:
    numerator, denominator = METRICS[metric]
    return Ratio(tally.counts[numerator], tally.counts[denominator])
