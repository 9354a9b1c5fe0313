"""Run an inspection of text: train a private model of the words that a vocabulary does not have (Debugging, section 5).

It is a run like any other, with the same loop, gate, journal and ledger, a guarantee of its own and an entry in the store's
odometer. Three things differ: users hold their unknown words, the model is a character model, and after the last round the
model generates its words. If the recipe names a primary model, it is inspected as well, and the summary has the cost of both
models.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.data.faults import CaseKept, Concatenated
from tacit.data.rows import to_rows
from tacit.data.store import open_store
from tacit.data.users import Users
from tacit.data.views import split_users
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.errors import DataError
from tacit.inspection.costs import cost_together
from tacit.inspection.held_out import require_held_out
from tacit.inspection.record import InspectionRecord, fault_record
from tacit.inspection.selection import UnknownWords
from tacit.inspection.text.findings import look_at
from tacit.inspection.text.primary import Primary
from tacit.inspection.text.unknown_words import UnknownRates, symbol_scores, unknown_rates
from tacit.learning.loop import TrainingState
from tacit.models.char_lm import CharLMConfig, NextSymbol, build, preset
from tacit.models.word_lm import parameter_count
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.noise.strategies import Strategy, from_description
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.records import Opened
from tacit.recipe.text_inspection import TextFault, TextInspection, text_inspection_of
from tacit.runs.callbacks import Callback
from tacit.runs.driver import begin, go_on
from tacit.runs.folder import RunFolder
from tacit.runs.report.sections import write_section
from tacit.simulation.choice import use_accelerators
from tacit.simulation.engine import Engine
from tacit.simulation.program import SimulatedProgram
from tacit.simulation.training import engine_of, program_of
from tacit.training.datasets import Dataset, open_dataset
from tacit.training.recipes import RecipeSetup
from tacit.training.summary import at_scale
from tacit.training.vocabularies import found_words

# What the ledger calls the model of unknown words.
STAGE = "words"


@dataclass(frozen=True)
class HeldOut:
    """Held-out users, with the fault: their `numbers` among `users`, and their rates of unknown words."""

    users: Users
    numbers: NDArray[np.int64]
    rates: UnknownRates


@dataclass(frozen=True)
class Inspector:
    """An inspection, built from its recipe and ready to run; nothing is on disk yet."""

    recipe: TextInspection
    setup: RecipeSetup
    held_out: HeldOut
    primary: Primary | None

    @classmethod
    def build(cls, recipe: TextInspection, strategy: Strategy | None = None) -> Inspector:
        """Open the data and build a character model; a resumed run keeps the noise `strategy` that it began with."""
        use_accelerators(recipe.engine.ray())
        primary = None if recipe.primary is None else Primary.open(Path(recipe.primary))
        dataset, held_out = _open(recipe)
        if primary is not None:
            primary.require_words(dataset.words)
            require_held_out(recipe.data, dataset.description, RunFolder.open(primary.path))
        model = build(model_config(recipe), key=jax.random.key(recipe.model.init_seed))
        setup = RecipeSetup.of(recipe, dataset, model, NextSymbol(recipe.engine.precision), strategy)
        return cls(recipe, setup, held_out, primary)

    def program(self, folder: RunFolder, engine: Engine | None = None) -> SimulatedProgram:
        """The inspection as a program, for `tacit.runs.driver`: the model is evaluated by symbols, and examined at the end.

        With `engine`, users are trained by that one, which is open already.
        """
        rows = self.setup.dataset.held_out

        def finish(state: TrainingState, opened: Opened, spent: Spent) -> dict[str, Any]:
            summary: dict[str, Any] = {
                "rounds": self.recipe.run.rounds,
                "parameters": parameter_count(state.model),
                "metrics": symbol_scores(state.model, rows),
                "privacy": spent.as_dict(),
            }
            if self.recipe.scale is not None:
                summary["at_scale"] = at_scale(self.recipe, opened)
            found = look_at(state.model, self.recipe.look, self.held_out.rates, longest=self.recipe.longest)
            if self.primary is not None:
                own = self.primary.look(self.recipe.look, self.held_out.users, self.held_out.numbers)
                found = dataclasses.replace(found, primary=own)
                summary["together"] = cost_together([self.primary.ledger, folder.accountable_ledger()])
            summary["inspection"] = found.released(claimed=summary["privacy"]["epsilon"] is not None).as_dict()
            for section in found.sections(summary):
                write_section(folder, section)
            return summary

        return dataclasses.replace(
            program_of(self.setup, folder, engine), evaluate=lambda model: symbol_scores(model, rows), finish=finish
        )


def model_config(recipe: TextInspection) -> CharLMConfig:
    """The shape of the recipe's model."""
    changes = recipe.model.model_dump(include={"layers", "embedding", "units", "projection"}, exclude_none=True)
    return dataclasses.replace(preset(recipe.model.preset), **changes)


def start_inspection(recipe: TextInspection, out: Path, callback: Callback) -> dict[str, Any]:
    """Train the recipe's model in a new run folder and examine it; returns the run's summary."""
    inspector = Inspector.build(recipe)
    engine = engine_of(inspector.setup)
    engine.open()  # so that what is wrong with workers is told before there is a folder
    for sentence in inspector.setup.warnings():
        callback.on_warning(sentence)
    folder = RunFolder.create(
        out, recipe.to_toml(), vocabulary=inspector.setup.dataset.words, provenance=inspector.setup.dataset.provenance
    )
    return begin(inspector.program(folder, engine), folder, callback)


def resume_inspection(path: Path, callback: Callback, *, older_if_damaged: bool = False) -> dict[str, Any]:
    """Resume an inspection of text, under the promise that its ledger was begun with; see `tacit.runs.driver`."""
    folder = RunFolder.open(path)
    recipe = text_inspection_of(folder)
    if not folder.begun:
        return begin(Inspector.build(recipe).program(folder), folder, callback)
    described = read_ledger(folder.ledger_path).opened.strategy
    inspector = Inspector.build(recipe, from_description(described) if described else None)
    return go_on(inspector.program(folder), folder, callback, older_if_damaged=older_if_damaged)


def _open(recipe: TextInspection) -> tuple[Dataset, HeldOut]:
    """A dataset of users' unknown words, with those of held-out users as rows; and the held-out users."""
    known = open_dataset(recipe)
    everybody, numbers = _held_out(recipe)
    aside = with_fault(everybody, recipe.fault, known.words)
    shape = {"longest": recipe.longest}
    unknown = UnknownWords(with_fault(known.train, recipe.fault, known.words), known.words, **shape)
    found = UnknownWords(aside, known.words, **shape).gather(numbers)
    if not len(found.items):
        raise DataError("The held-out users have no unknown words to evaluate on.")
    rows = to_rows(found, layout="sentences", length=recipe.data.length, max_rows=recipe.data.tokens_per_user).tokens
    wanted = min(len(rows), -(-recipe.run.evaluate_words // recipe.data.length))
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, wanted).astype(np.int64))]
    note = InspectionRecord(STAGE, selection=unknown.description, fault=fault_record(recipe.fault))
    return (
        dataclasses.replace(known, train=unknown, held_out=rows, notes=(note,)),
        HeldOut(aside, numbers, unknown_rates(aside, numbers)),
    )


def _held_out(recipe: TextInspection) -> tuple[Users, NDArray[np.int64]]:
    """Users that contain the held-out users, and the numbers of the held-out users among them."""
    data = recipe.data
    if data.store is None:
        world = KeyboardWorld(data.world_seed, data.users + data.held_out, vocabulary_size=data.vocabulary)
        return world, np.arange(data.users, data.users + data.held_out, dtype=np.int64)
    store = open_store(data.store)
    words = recipe.vocabulary
    aside = split_users(store if words is None else found_words(words, store).users, data.held_out)[1]
    return aside, np.arange(len(aside), dtype=np.int64)


def with_fault(users: Users, fault: TextFault | None, words: Sequence[str]) -> Users:
    """These users with the fault, if there is one; `words[i]` has the id i."""
    if fault is None:
        return users
    if fault.kind == "case_kept":
        return CaseKept(users, words, fault.share, seed=fault.seed)
    return Concatenated(users, fault.share, seed=fault.seed)
