"""Compare models on the keyboards of the same held-out users: an A/B experiment by replay.

A model is a run, an n-gram model that is counted for the comparison ("ngram", or "ngram+history" with the user's own history
mixed in), or a saved n-gram model (FILE.npz). The first model is the baseline. A comparison reads held-out users, so its
results are outside any guarantee and never feed training.
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
from tacit.keyboard.comparison_users import ComparisonUsers, open_comparison_users
from tacit.keyboard.history import WithHistory
from tacit.keyboard.jackknife import BUCKETS, Change, Ratio, assign_buckets, relative_change
from tacit.keyboard.ngram import Katz, load_katz, train_katz
from tacit.keyboard.replay import METRICS, ReplayCounts, record, replay
from tacit.keyboard.taps import Keyboard
from tacit.learning.pretrain import Reworded
from tacit.learning.stepwise import Neural, Stepwise
from tacit.numbers import finite_or_none
from tacit.runs.cost import cost_of
from tacit.runs.finding import by_name
from tacit.training.trained import load_trained

NGRAM, NGRAM_WITH_HISTORY = "ngram", "ngram+history"
_COUNTED = (NGRAM, NGRAM_WITH_HISTORY)
# N-grams of four and five words that occur once are dropped: the model is half as large and hardly worse.
LEAST_COUNTS = (1, 1, 1, 2, 2)


@dataclass(frozen=True)
class NgramSettings:
    """How n-gram models are counted: on the users who are not held out, or on the users of another store."""

    order: int = 5
    store: Path | None = None
    is_public: bool = False
    save: Path | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.order <= len(LEAST_COUNTS):
            raise DataError(f"Expected --ngram-order from 1 to {len(LEAST_COUNTS)}, got {self.order}.")
        if self.is_public and self.store is None:
            raise PrivacyError("--ngram-public needs --ngram-on: the users compared on are private.")


@dataclass(frozen=True)
class ComparedModel:
    """A model to compare, and its privacy: the run's statement, or whose text the n-grams were counted on."""

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
        """For JSON: numbers that are not finite are null."""
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
    """The results of all models, and the users and words they were measured on."""

    on: str
    users: int
    words: int
    buckets: int
    results: tuple[ModelResult, ...]


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
    """Replay the held-out users' typing with every model; `on_progress` is called with each step's name."""
    if len(models) < 2:
        raise RunError(f"Expected two or more models to compare, got {len(models)}.")
    if len(set(models)) < len(models):
        raise RunError("Every model can be named once only, and one is named twice.")
    runs = {name: by_name(Path(name)) for name in models if _is_run(name)}
    users = open_comparison_users(on, list(runs.values()), held_out=held_out, wanted=max(buckets, 1))
    bucket = assign_buckets(len(users.held_out), buckets, seed=seed)
    compared = _load_models(models, runs, users, ngram or NgramSettings(), on_progress)
    on_progress("recording the held-out users' typing")
    recording = record(users.held_out, Keyboard.of(users.words), seed=seed)
    counts = []
    for each in compared:
        on_progress(f"replaying with {each.name}")
        counts.append(replay(each.model, recording))
    results = []
    for each, own in zip(compared, counts, strict=True):
        changes = {}
        if each is not compared[0]:
            changes = {
                metric: relative_change(_ratio(own, metric), _ratio(counts[0], metric), bucket) for metric in METRICS
            }
        results.append(ModelResult(each.name, each.privacy, own.metrics(), changes))
    words = int(counts[0].counts["words"].sum())
    return KeyboardComparison(users.name, len(users.held_out), words, buckets, tuple(results))


def fingerprint_of(words: Sequence[str]) -> str:
    """The SHA-256 of the words in order; a saved n-gram model keeps it, to recognise its vocabulary."""
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def _load_models(
    models: Sequence[str],
    runs: Mapping[str, Path],
    users: ComparisonUsers,
    ngram: NgramSettings,
    on_progress: Callable[[str], None],
) -> list[ComparedModel]:
    found: dict[str, ComparedModel] = {}
    for name in models:  # what may be wrong with a file is told before n-grams are counted
        if name in runs:
            trained = load_trained(runs[name])
            _require_words(name, tuple(trained.words), users)
            privacy = cost_of(trained.folder).stated.as_dict()
            kept = {key: privacy[key] for key in ("epsilon", "delta", "rounds", "reasons_not_private", "reason_codes")}
            found[name] = ComparedModel(name, Neural(trained.model), kept)
        elif name not in _COUNTED:
            found[name] = _from_katz(name, load_katz(Path(name)), users)
    if len(found) < len(models):
        on_progress("counting n-grams")
        katz = _count(users, ngram)
        found |= {name: _from_katz(name, katz, users) for name in models if name in _COUNTED}
    return [found[name] for name in models]


def _from_katz(name: str, katz: Katz, users: ComparisonUsers) -> ComparedModel:
    if katz.fingerprint != fingerprint_of(users.words):
        raise DataError(
            f"Expected an n-gram model with the {len(users.words):,} words of {users.name}, got {name}, whose words are "
            "others."
        )
    privacy = {"counted_on": katz.provenance, "is_public": katz.is_public}
    return ComparedModel(name, WithHistory(katz, BOS) if name == NGRAM_WITH_HISTORY else katz, privacy)


def _require_words(name: str, words: tuple[str, ...], users: ComparisonUsers) -> None:
    if words != users.words:
        raise RunError(
            f"Expected a run with the {len(users.words):,} words of {users.name}, which the baseline is judged by, got "
            f"{name}, whose {len(words):,} words are others."
        )


def _count(users: ComparisonUsers, settings: NgramSettings) -> Katz:
    counted: Users = users.others
    source, is_public = users.name, False  # a world's users stand for private ones
    if settings.store is not None:
        store = open_store(settings.store)
        if store.vocabulary is None:
            raise DataError(f"Expected a store of text in --ngram-on, got {settings.store}, which has no words.")
        if store.store_id == users.store_id:
            raise PrivacyError(
                f"Expected another store than --on in --ngram-on, got {settings.store}: its held-out users would be counted."
            )
        words = store.vocabulary.decode(np.arange(len(store.vocabulary)))
        counted, source, is_public = (
            Reworded(store, words, users.words),
            f"the store {settings.store}",
            settings.is_public,
        )
    text = counted.gather(np.arange(len(counted), dtype=np.int64))
    model = train_katz(
        text.items,
        text.example_offsets,
        order=settings.order,
        vocabulary=len(users.words),
        bos=BOS,
        eos=EOS,
        never=(PAD, BOS),
        provenance=f"{len(counted):,} users of {source}",
        is_public=is_public,
        least_counts=LEAST_COUNTS[: settings.order],
        fingerprint=fingerprint_of(users.words),
    )
    if settings.save is not None:
        model.save(settings.save)
    return model


def _is_run(name: str) -> bool:
    return name not in _COUNTED and not name.endswith(".npz")


def _ratio(own: ReplayCounts, metric: str) -> Ratio:
    numerator, denominator = METRICS[metric]
    return Ratio(own.counts[numerator], own.counts[denominator])
