"""The words that a recipe's [vocabulary] asks for: found by a run of their own, and used by the run that trains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit.data.encoding import Encoded, require_texts, word_counts
from tacit.data.store import Store, open_store
from tacit.data.users import FIRST_WORD
from tacit.data.views import split_users
from tacit.data.vocabulary import Vocabulary, discovered_by, load_vocabulary
from tacit.errors import PrivacyError, RunError
from tacit.privacy.discovery.shares import SharesRule
from tacit.privacy.planning.word_noise import THRESHOLD_SHARE, word_noise
from tacit.privacy.record.facts import DataRecord, VocabularyRecord
from tacit.privacy.record.reasons import Reason
from tacit.recipe.reading import toml_of
from tacit.recipe.sections import VocabularySection
from tacit.recipe.training import Recipe
from tacit.runs.folder import RunFolder, by_name
from tacit.runs.word_discovery import Discovery, discover, discovered

# Of the δ of a run that trains, what the discovery of its words gets if nothing else is said.
DELTA_SHARE = 0.01


@dataclass(frozen=True)
class FoundWords:
    """The users of a store in the words of a discovery, what the ledger says of it, and why nothing may be claimed."""

    users: Encoded
    record: VocabularyRecord | None
    reasons_not_private: tuple[Reason, ...]


def found_words(section: VocabularySection, store: Store) -> FoundWords:
    """The words of the discovery that the section names, and the store's users in these words."""
    if section.run is None:
        raise RunError(
            "The words of [vocabulary] have not been discovered yet.",
            hint="`tacit train` and tacit.train discover them before they train; or name such a run in vocabulary.run.",
        )
    folder = RunFolder.open(by_name(Path(section.run)))
    words, record, reasons = discovered(folder)
    if (of := folder.ledger().opened.data.store) != store.store_id:
        raise PrivacyError(
            f"Expected a discovery of words on the users of {store.path}, got {folder.path}, which read those of another store "
            f"({of})."
        )
    vocabulary = Vocabulary(tuple(words), discovered_by(folder.run_id))
    return FoundWords(Encoded(store, vocabulary), record, reasons)


def discovery_of(section: VocabularySection, *, population: int, delta: float, seed: int | None = None) -> Discovery:
    """The discovery that the section asks for; δ is that of the discovery by itself."""
    listed = () if section.words is None else load_vocabulary(Path(section.words)).words
    places, threshold_delta = section.size - FIRST_WORD, THRESHOLD_SHARE * delta
    sure = places // 2 if section.sure is None else section.sure
    competing = listed[sure:]
    return Discovery(
        population=population,
        noise_multiplier=word_noise(section.epsilon, delta, threshold_delta),
        delta=delta,
        threshold_delta=threshold_delta,
        size=places,
        rule=SharesRule(section.words_per_user, section.largest_share),
        sure=listed[:sure],
        candidates=competing if section.candidates is None else competing[: section.candidates],
        seed=seed,
    )


def delta_of(section: VocabularySection, delta: float) -> float:
    """δ of the discovery by itself, as part of a run that trains with this δ."""
    return DELTA_SHARE * delta if section.delta is None else section.delta


def discover_words(
    section: VocabularySection, store_path: Path, out: Path, *, population: int, delta: float, seed: int | None = None
) -> RunFolder:
    """Discover the words of a store's users in a run of its own, in the new folder `out`. Held-out users are not read."""
    store = require_texts(open_store(store_path))
    train, _ = split_users(store)
    discovery = discovery_of(section, population=population, delta=delta, seed=seed)
    settings = {
        "name": "words",
        "data": {"store": str(store_path)},
        "vocabulary": section.model_dump(exclude_none=True) | {"delta": delta},
        "privacy": discovery.plan().model_dump(mode="json", exclude_none=True),
        "run": {"rounds": 1} | ({} if seed is None else {"seed": seed}),
    }
    return discover(
        discovery,
        out,
        toml_of(settings),
        data=DataRecord(store=store.store_id),
        store=store_path,
        users=np.arange(len(train), dtype=np.int64),
        words=lambda: word_counts(store, train.members),
    )


def words_folder(out: Path) -> Path:
    """Where the discovery for a run in `out` is made: beside it."""
    return out.with_name(f"{out.name}-words")


def with_words(recipe: Recipe, out: Path) -> Recipe:
    """The recipe with the words of its [vocabulary] discovered, in the new folder `out`."""
    section, privacy = recipe.vocabulary, recipe.privacy
    assert section is not None
    folder = discover_words(
        section,
        Path(str(recipe.data.store)),
        out,
        population=privacy.population,
        delta=delta_of(section, privacy.delta),
        seed=recipe.run.seed,
    )
    return recipe.model_copy(update={"vocabulary": section.model_copy(update={"run": str(folder.path.resolve())})})
