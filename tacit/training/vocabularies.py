"""The words that a recipe's [vocabulary] asks for: found by a run of their own, and used by the run that trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit.data.encoding import Encoded, require_texts, word_counts
from tacit.data.remote import place_of
from tacit.data.store import Store, open_store
from tacit.data.users import FIRST_WORD
from tacit.data.vocabulary import Vocabulary, discovered_by, load_vocabulary, vocabulary_of_words
from tacit.errors import DataError, PrivacyError, RunError
from tacit.privacy.discovery.shares import SharesRule
from tacit.privacy.planning.word_noise import THRESHOLD_SHARE, word_noise
from tacit.privacy.record.facts import DataRecord, VocabularyRecord
from tacit.privacy.record.reasons import Reason, Why
from tacit.recipe.reading import toml_of
from tacit.recipe.sections import VocabularySection
from tacit.recipe.target import words_delta
from tacit.recipe.training import Recipe
from tacit.runs.cost import cost_of
from tacit.runs.finding import by_name, is_run
from tacit.runs.folder import RunFolder
from tacit.runs.witness import Witness
from tacit.runs.word_discovery import Discovery, discover, discovered, finished_words

# In the recipe of a discovery, and of one by letters: the vocabulary outside of which words were looked for.
RARE, OUTSIDE = "rare", "outside"


@dataclass(frozen=True)
class FoundWords:
    """The users of a store in the words of a discovery, what the ledger says of it, and why nothing may be claimed.

    `warnings` are those of the discovery, computed from its release and its public list.
    """

    users: Encoded
    record: VocabularyRecord | None
    reasons_not_private: tuple[Reason, ...]
    warnings: tuple[str, ...] = ()


def found_words(section: VocabularySection, store: Store) -> FoundWords:
    """The words of the discovery that the section names, and the store's users in these words."""
    if section.run is None:
        raise RunError(
            "The words of [vocabulary] have not been discovered yet.",
            hint="`tacit train` and tacit.train discover them before they train; or name such a run in vocabulary.run.",
        )
    folder = RunFolder.open(by_name(Path(section.run)))
    words, record, reasons = discovered(folder)
    if RARE in folder.recipe().get("vocabulary", {}) or OUTSIDE in folder.recipe().get("letters", {}):
        raise RunError(
            f"Expected a discovery of a whole vocabulary, got {folder.path}, which looked for words outside another one alone."
        )
    if (of := folder.ledger().opened.data.store) != store.store_id:
        raise PrivacyError(
            f"Expected a discovery of words on the users of {store.path}, got {folder.path}, which read those of another store "
            f"({of})."
        )
    vocabulary = Vocabulary(tuple(words), discovered_by(folder.run_id))
    warnings = tuple((folder.summary() or {}).get("warnings", ()))
    return FoundWords(Encoded(store, vocabulary), record, reasons, warnings)


def discovery_of(
    section: VocabularySection, *, population: int, delta: float, seed: int | None = None, outside: Path | None = None
) -> Discovery:
    """The discovery that the section asks for; δ is that of the discovery by itself. Whatever is wrong with it is told here.

    `outside`: look only for words that this vocabulary, or the model of this run, does not have.
    """
    warnings: list[str] = []
    listed = () if section.words is None else public_words(Path(section.words), warnings.append)
    places, threshold_delta = section.size - FIRST_WORD, THRESHOLD_SHARE * delta
    sure = places // 2 if section.sure is None else section.sure
    competing = listed[sure:]
    known, reasons = (None, ()) if outside is None else known_words(outside)
    discovery = Discovery(
        population=population,
        noise_multiplier=word_noise(section.epsilon, delta, threshold_delta),
        delta=delta,
        threshold_delta=threshold_delta,
        size=places,
        rule=SharesRule(section.words_per_user, section.largest_share),
        sure=listed[:sure],
        candidates=competing if section.candidates is None else competing[: section.candidates],
        known=known,
        seed=seed,
        reasons_not_private=reasons,
        warnings=tuple(warnings),
    )
    discovery.plan()
    _ = discovery.threshold  # there is none if δ is too small
    return discovery


def public_words(path: Path, on_warning: Callable[[str], None]) -> tuple[str, ...]:
    """The words of a public list; DataError if they are known to come from private users."""
    listed = load_vocabulary(path, on_warning=on_warning)
    if not listed.is_public:
        raise DataError(f"Expected a public word list, got {path}, whose words come from users ({listed.provenance}).")
    return listed.words


def known_words(outside: Path) -> tuple[tuple[str, ...], tuple[Reason, ...]]:
    """The words of a vocabulary file or of a run, and why nothing may be claimed that depends on them."""
    if not is_run(by_name(outside)):
        known = load_vocabulary(outside)
        return known.words, () if known.is_public else (Reason(Why.COUNTED_VOCABULARY),)
    folder = RunFolder.open(by_name(outside))
    opened = folder.ledger().opened
    if opened.finds_words:
        ledger = folder.accountable_ledger()
        return finished_words(folder, ledger), cost_of(folder, ledger).stated.reasons_not_private
    entries = folder.vocabulary()
    if entries is None:
        raise RunError(f"Expected a run whose model has words, got {outside}, which has none.")
    place = f"Line {{}} of {folder.vocabulary_path}".format
    reasons = opened.reasons_not_private
    if "vocabulary" not in folder.recipe() or opened.vocabulary is not None:
        # The words come from a public list, from the store or from a private discovery; only the store's may be counted.
        reasons = tuple(reason for reason in reasons if reason.code == Why.COUNTED_VOCABULARY)
    return vocabulary_of_words(entries, provenance=str(outside), place=place).words, reasons


def discover_words(
    section: VocabularySection,
    store_path: str | Path,
    out: Path,
    *,
    population: int,
    delta: float,
    seed: int | None = None,
    outside: Path | None = None,
    witness: Witness | None = None,
) -> RunFolder:
    """Discover the words of a store's users in a run of its own, in the new folder `out`. Held-out users are not read.

    `outside`: only words that this vocabulary, or the model of this run, does not have.
    """
    store = require_texts(open_store(store_path))
    users = np.setdiff1d(np.arange(len(store), dtype=np.int64), store.held_out_users())
    discovery = discovery_of(section, population=population, delta=delta, seed=seed, outside=outside)
    settings = {
        "name": "words",
        "data": {"store": str(store_path)},
        "vocabulary": section.model_dump(exclude_none=True)
        | {"delta": delta, "threshold_delta": discovery.threshold_delta}
        | ({} if outside is None else {RARE: str(outside)}),
        **({} if witness is None else witness.settings()),
        "privacy": discovery.plan().model_dump(mode="json", exclude_none=True),
        "run": {"rounds": 1} | ({} if seed is None else {"seed": seed}),
    }
    return discover(
        discovery,
        out,
        toml_of(settings),
        data=DataRecord(store=store.store_id),
        store=place_of(store_path),
        users=np.arange(len(users), dtype=np.int64),
        words=lambda: word_counts(store, users),
        witness=witness,
    )


def words_folder(out: Path) -> Path:
    """Where the discovery for a run in `out` is made: beside it."""
    return out.with_name(f"{out.name}-words")


def refuse_if_discovered(folder: Path) -> None:
    """RunError if there is a discovery in the folder: its words are paid for, and can be used."""
    if is_run(folder):
        raise RunError(
            f"There is a discovery of words in {folder} already, and another one would cost again.",
            hint=f"To train with its words: --set vocabulary.run={folder}; or choose another --out.",
        )


def with_words_of(recipe: Recipe, folder: RunFolder) -> Recipe:
    """The recipe with the discovery that the run in this folder used, where the recipe does not name one itself."""
    section, used = recipe.vocabulary, folder.recipe().get("vocabulary", {}).get("run")
    if section is None or section.run is not None or used is None:
        return recipe
    return recipe.model_copy(update={"vocabulary": section.model_copy(update={"run": used})})


def with_words(recipe: Recipe, out: Path) -> Recipe:
    """The recipe with the words of its [vocabulary] discovered, in the new folder `out`."""
    section, privacy = recipe.vocabulary, recipe.privacy
    assert section is not None
    folder = discover_words(
        section,
        str(recipe.data.store),
        out,
        population=privacy.population,
        delta=words_delta(section, privacy.delta),
        seed=recipe.run.seed,
        witness=None if recipe.witness is None else recipe.witness.witness(),
    )
    return recipe.model_copy(update={"vocabulary": section.model_copy(update={"run": str(folder.path.resolve())})})
