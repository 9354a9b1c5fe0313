"""From a recipe with [letters] to the setup of a run that finds users' words letter by letter."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from tacit.data.encoding import require_texts, word_counts
from tacit.data.remote import place_of
from tacit.data.spelling import SpelledUsers, Spelling, counts_of_ids
from tacit.data.store import open_store
from tacit.data.users import FIRST_WORD
from tacit.data.views import Subset
from tacit.data.vocabulary import Vocabulary, discovered_by, word_list
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.errors import RunError
from tacit.files import write_atomic
from tacit.learning.batches import TextBatches
from tacit.learning.letter_sums import secure_letters
from tacit.learning.loop import TrainingState
from tacit.learning.prefix_tree import (
    PrefixServer,
    PrefixState,
    PrefixWork,
    TreeShape,
    prefixes_of,
    seedling,
    words_of,
)
from tacit.learning.secure_sums import SecureSums
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, sampled_epsilon
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.discovery.prefix_threshold import prefix_threshold
from tacit.privacy.noise.strategies import Strategy
from tacit.privacy.noise.tail import apart_from_tail
from tacit.privacy.plan import LARGEST_COHORT, PrivacyPlan
from tacit.privacy.planning.calibration import calibrate_sampled, rounded_up
from tacit.privacy.planning.word_noise import word_noise
from tacit.privacy.record.facts import DataRecord, LettersRecord
from tacit.privacy.record.records import UPDATE, Opened
from tacit.recipe.letters import LettersSection
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.callbacks import Callback
from tacit.runs.folder import RunFolder
from tacit.runs.journal import Schedule
from tacit.runs.report.sections import write_section
from tacit.runs.word_discovery import TOTALS, words_section
from tacit.training.datasets import Dataset, check_population
from tacit.training.recipes import RecipeSetup
from tacit.training.vocabularies import known_words, public_words

# Words a batch: a chunk's users are padded to as many batches as its largest needs.
_ROWS = 8
_MEASURED = "the releases, which cost nothing more"


@dataclass(frozen=True, kw_only=True)
class LettersSetup(RecipeSetup):
    """What a recipe with [letters] builds. `listed` are public words that get a place unasked."""

    spelling: Spelling
    shape: TreeShape
    record: LettersRecord
    listed: tuple[str, ...]
    list_warnings: tuple[str, ...]

    @property
    def known(self) -> Vocabulary:
        """The words that are not looked for, as devices download them; a full stop, which is no word, if there are none."""
        return Vocabulary(tuple(sorted(self.spelling.known)) or (".",), word_list("words that are not looked for"))

    @classmethod
    def build(cls, recipe: Recipe, strategy: Strategy | None = None) -> Self:
        """Open the data and the public words. Whatever is wrong with the recipe is told here."""
        section, plan, rounds = recipe.letters, recipe.privacy, recipe.run.rounds
        assert section is not None
        warnings: list[str] = []
        listed = () if section.words is None else public_words(Path(section.words), warnings.append)
        listed = listed[: section.size - FIRST_WORD]
        known, reasons = (listed, ()) if section.outside is None else known_words(Path(section.outside))
        spelling = Spelling(section.alphabet, section.longest, section.words_per_user, frozenset(known))
        shape = TreeShape(len(section.alphabet), section.longest, section.coordinates, section.size - FIRST_WORD)
        shown_delta = plan.delta if section.shown_delta is None else section.shown_delta
        secure, margin = secure_letters(plan, shape.coordinates, rounds, shown_delta / 2)
        threshold = prefix_threshold(
            shown_delta if secure is None else shown_delta / 2,
            _noise(plan, secure),
            rounds * shape.coordinates,
            margin=margin,
        )
        dataset = _dataset(recipe, spelling)
        check_population(plan, dataset, rounds, counted=recipe.fleet is None)
        server = PrefixServer.of(shape, threshold=threshold, rounds=rounds, denominator=plan.denominator)
        mechanism, model = plan.build_mechanism(rounds, None), seedling(shape, rounds)
        return cls(
            recipe=recipe,
            settings=recipe.to_toml(),
            plan=plan,
            schedule=Schedule(rounds, 1, 1),
            seed=recipe.run.seed,
            dataset=dataset,
            store=None if recipe.data.store is None else place_of(recipe.data.store),
            work=PrefixWork(shape),
            batches=TextBatches("sentences", shape.longest + 1, _ROWS, -(-section.words_per_user // _ROWS)),
            start=TrainingState(
                0, model, server.init(model), plan.build_clipping().init(), mechanism.init({UPDATE: model.totals})
            ),
            server=server,
            strategy=None,
            mechanism=mechanism,
            secure=secure,
            evaluate=lambda model: {"measured_on": _MEASURED, **_sizes(model)},  # type: ignore[dict-item]
            summarise=lambda state, opened, spent: {"rounds": rounds, "privacy": spent.as_dict()},
            reasons_not_private=(*recipe.reasons_not_private(), *reasons),
            gate_audit=recipe.audit is None or recipe.audit.gate,
            simulated=recipe.fleet is None,
            chunk=recipe.engine.chunk,
            ray=recipe.engine.ray(),
            witness=None if recipe.witness is None else recipe.witness.witness(),
            spelling=spelling,
            shape=shape,
            record=LettersRecord(
                section.alphabet,
                section.longest,
                section.coordinates,
                section.words_per_user,
                threshold,
                shown_delta,
                hashlib.sha256("\n".join(known).encode()).hexdigest(),
            ),
            listed=listed,
            list_warnings=tuple(warnings),
        )

    def opened(self, folder: RunFolder) -> Opened:
        """The ledger's first record."""
        return dataclasses.replace(super().opened(folder), letters=self.record)

    def from_public_data(self, folder: RunFolder, callback: Callback | None = None) -> Self:
        """The same setup: there is nothing to pre-train."""
        return self

    def for_rounds(self, rounds: int) -> Self:
        """The same setup. RunError for more rounds: threshold and tree are made for those that were planned."""
        if rounds != self.schedule.rounds:
            raise RunError("Expected a run that trains a model, got one that finds words: it cannot be extended.")
        return self

    def warnings(self) -> list[str]:
        """What is wrong with the public list. Noise on single totals is what the threshold is for."""
        return list(self.list_warnings)

    def finish(self, folder: RunFolder, state: TrainingState, opened: Opened, spent: Spent) -> dict[str, Any]:
        """Write the words that were found, and return the run's summary."""
        section, places = self.recipe.letters, self.shape.places
        assert section is not None
        found = words_of(state.model, section.alphabet)
        words = (*self.listed[: max(places - len(found), 0)], *found)
        content = {
            "noise": _noise(self.plan, self.secure),
            "threshold": self.record.threshold,
            "listed": {},
            "found": found,
            "unfinished": prefixes_of(state.model, section.alphabet),
        }
        write_atomic(folder.path / TOTALS, json.dumps(content, ensure_ascii=False) + "\n")
        if words:
            write_atomic(folder.vocabulary_path, Vocabulary(words, discovered_by(folder.run_id)).as_text())
        write_section(folder, words_section(len(words), found, rare=section.outside is not None))
        return {
            "rounds": self.schedule.rounds,
            "words": len(words),
            "listed": len(self.listed),
            "found": len(found),
            "threshold": self.record.threshold,
            "warnings": list(self.list_warnings),
            "metrics": {},
            "privacy": spent.as_dict(),
        }


def recipe_for_store(
    section: LettersSection, store: Path, *, population: int, epsilon: float, delta: float, rounds: int
) -> Recipe:
    """The recipe of a discovery on the users of a store, everybody in every round, that costs at most `epsilon` at `delta`."""
    # A discovery of more users than rounding is proven for draws as many as it is proven for.
    cohort = min(population, LARGEST_COHORT)
    noise = _noise_for(epsilon, delta, population, cohort, rounds)
    return parse_recipe(
        {
            "name": "words",
            "data": {"store": str(store)},
            "letters": section.model_dump(exclude_none=True),
            "privacy": {
                "mechanism": "gaussian",
                "population": population,
                "cohort": cohort,
                "clip_norm": 1.0,
                "noise_multiplier": noise,
                "delta": delta,
            },
            "run": {"rounds": rounds},
        }
    )


def _noise_for(epsilon: float, delta: float, population: int, cohort: int, rounds: int) -> float:
    """A noise multiplier with which so many rounds cost at most ε at δ, as the ledger accounts for them.

    If everybody is in every round, they cost what one release with 1/√rounds of the noise costs, which needs no search. The
    accountant of sampled rounds gives a slightly larger bound than that, and it is the one that is stated.
    """
    if cohort == population:
        for more in (1.0, 1.0002, 1.004, 1.02):
            noise = rounded_up(more * math.sqrt(rounds) * word_noise(epsilon, delta, 0.0))
            everybody = SampledRounds({"kind": "poisson", "probability": 1.0}, noise, rounds)
            if sampled_epsilon([everybody], apart_from_tail(delta))[0] <= epsilon:
                return noise
    return calibrate_sampled(
        epsilon, delta, sampling="poisson", population=population, cohort=cohort, rounds=rounds
    ).value


def _noise(plan: PrivacyPlan, secure: SecureSums | None) -> float:
    """The standard deviation of the noise on a total."""
    return plan.noise_multipliers[UPDATE] * (1.0 if secure is None else secure.bound(1.0))


def _sizes(model: PrefixState) -> dict[str, float]:
    """What there is to see of a tree; a function of the releases."""
    return {
        "words_found": int((np.asarray(model.word_totals) > 0).sum()),
        "prefixes": int(model.tree.live),
        "letters": int(model.tree.depth),
    }


def _dataset(recipe: Recipe, spelling: Spelling) -> Dataset:
    """The users' words as letters. Nobody is held out of a world; of a store, those whom it holds out are not read."""
    nobody = np.zeros((0, spelling.longest + 2), np.int32)
    data = recipe.data
    if data.store is None:
        world = KeyboardWorld(data.world_seed, data.users, vocabulary_size=data.vocabulary)
        users = SpelledUsers(world, counts_of_ids(world, world.words), spelling)
        described = DataRecord(world="keyboard", seed=data.world_seed, users=data.users)
        return Dataset(users, len(users), nobody, (), described)
    store = require_texts(open_store(data.store))
    read = Subset(store, np.setdiff1d(np.arange(len(store), dtype=np.int64), store.held_out_users()))
    users = SpelledUsers(read, lambda chosen: word_counts(store, read.members[chosen]), spelling)
    return Dataset(users, len(users), nobody, (), DataRecord(store=store.store_id))
