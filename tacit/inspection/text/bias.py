"""Run an inspection of bias: what do people write that the public text does not have (Debugging, section 2.1, T6)?

A model is pre-trained on public text. Then it learns, as a run like any other, from those sentences of people that it finds
unlikely itself: P_private(x | P_public(x) ≤ e^-threshold per word). Which sentences these are is decided on the user's side, by
a public model and a public threshold. The sentences that it makes up afterwards, and the words that it uses more often than
the public model, are functions of released models.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.data.users import FIRST_WORD
from tacit.inspection.costs import price
from tacit.inspection.example_scores import word_likelihood
from tacit.inspection.record import InspectionRecord, Threshold
from tacit.inspection.selection import LikelihoodRatio, Selected
from tacit.inspection.text.sentences import draw_sentences, in_words
from tacit.learning.loop import TrainingState
from tacit.models.word_lm import WordLM
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.noise.strategies import Strategy, from_description
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.records import Opened
from tacit.recipe.bias_inspection import BiasInspection, BiasLook, bias_inspection_of
from tacit.runs.callbacks import Callback
from tacit.runs.driver import begin, go_on
from tacit.runs.finding import refuse_if_taken
from tacit.runs.folder import RunFolder
from tacit.runs.report.blocks import Bars, Block, Paragraph, Section, Table
from tacit.runs.report.sections import write_section
from tacit.simulation.choice import use_accelerators
from tacit.simulation.program import SimulatedProgram
from tacit.simulation.training import engine_of, program_of
from tacit.training.pretraining import open_public
from tacit.training.recipes import RecipeSetup

# What the ledger calls the model, and after how many words a made-up sentence is cut.
STAGE, LONGEST = "bias", 16
WORD_COLUMNS, DRAWN_BARS = ["word", "in a thousand words", "of the public model"], 10
WITHHELD = "No privacy is claimed for this run, so nothing that its model makes up is shown."


@dataclass(frozen=True)
class BiasFindings:
    """What the model makes up: `words` with how often they come in a thousand words, of it and of the public model.

    `sentences` are made up by it. Both are empty where no privacy is claimed.
    """

    threshold: float
    words: tuple[tuple[str, float, float], ...]
    sentences: tuple[str, ...]

    def conclusion(self) -> str:
        """What people write that the public text does not have, in a sentence."""
        if not self.sentences:
            return WITHHELD
        if not self.words:
            return "The model uses no word more often than a model of the public text: no bias shows in single words."
        shown = ", ".join(repr(word) for word, *_ in self.words[:5])
        return f"People's sentences that are foreign to the public text have more of: {shown}."

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "threshold": self.threshold,
            "words": [list(each) for each in self.words],
            "sentences": list(self.sentences),
            "conclusion": self.conclusion(),
        }

    def section(self, privacy: Mapping[str, Any]) -> Section:
        """A section of the report; for the owner alone unless privacy can be claimed. `privacy`: what the run has cost."""
        claimed = privacy["epsilon"] is not None
        blocks: list[Block] = [Paragraph(text=self.conclusion())]
        if self.words:
            bars = [(word, often) for word, often, _ in self.words[:DRAWN_BARS]]
            blocks.append(Bars(x="word", y="how often in a thousand words", bars=bars))
            rows = [[word, f"{often:.1f}", f"{public:.1f}"] for word, often, public in self.words]
            blocks.append(Table(columns=WORD_COLUMNS, rows=rows))
        if self.sentences:
            blocks.append(Table(columns=["sentences that it makes up"], rows=[[each] for each in self.sentences]))
        if claimed:
            blocks.append(Paragraph(text=price(privacy), note=True))
        title = "What people write that the public text does not have"
        return Section(name="inspection", title=title, order=5, private=not claimed, blocks=blocks)

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> BiasFindings:
        """The inverse of `as_dict`."""
        words = tuple((str(word), float(often), float(public)) for word, often, public in tree["words"])
        return cls(float(tree["threshold"]), words, tuple(map(str, tree["sentences"])))


def start_bias(recipe: BiasInspection, out: Path, callback: Callback) -> dict[str, Any]:
    """Pre-train and train the recipe's model in a new run folder and examine it; returns the run's summary."""
    refuse_if_taken(out)
    setup = _build(recipe)
    open_public(recipe, setup.dataset)  # so that what is wrong with it is told before there is a folder
    for sentence in setup.warnings():
        callback.on_warning(sentence)
    folder = RunFolder.create(out, setup.settings, vocabulary=setup.dataset.words, provenance=setup.dataset.provenance)
    return begin(_program(setup, recipe, folder, callback), folder, callback)


def resume_bias(path: Path, callback: Callback) -> dict[str, Any]:
    """Resume an inspection of bias, under the promise that its ledger was begun with."""
    folder = RunFolder.open(path)
    recipe = bias_inspection_of(folder)
    if not folder.begun:
        return begin(_program(_build(recipe), recipe, folder, callback), folder, callback)
    described = read_ledger(folder.ledger_path).opened.strategy
    setup = _build(recipe, from_description(described) if described else None)
    return go_on(_program(setup, recipe, folder, callback), folder, callback)


def _build(recipe: BiasInspection, strategy: Strategy | None = None) -> RecipeSetup:
    use_accelerators(recipe.engine.ray())
    return RecipeSetup.build(recipe, strategy)


def _program(setup: RecipeSetup, recipe: BiasInspection, folder: RunFolder, callback: Callback) -> SimulatedProgram:
    """The program that learns from the selected sentences and examines the model at the end."""
    setup = selecting(setup.from_public_data(folder, callback), recipe)
    public, words = setup.start.model, setup.dataset.words
    program = program_of(setup, folder, engine_of(setup))

    def finish(state: TrainingState, opened: Opened, spent: Spent) -> dict[str, Any]:
        summary = program.finish(state, opened, spent)
        claimed = summary["privacy"]["epsilon"] is not None
        empty = BiasFindings(recipe.bias.threshold, (), ())
        found = look_at(state.result, public, words, recipe.look, recipe.bias.threshold) if claimed else empty
        shown = ("rounds", "parameters", "metrics", "privacy", "at_scale")
        kept: dict[str, Any] = {name: summary[name] for name in shown if name in summary}
        write_section(folder, found.section(summary["privacy"]))
        return {**kept, "bias": found.as_dict()}

    return dataclasses.replace(program, finish=finish)


def selecting(setup: RecipeSetup, recipe: BiasInspection) -> RecipeSetup:
    """The setup whose users have only those sentences that its first model, the public one, finds unlikely."""
    likelihood = word_likelihood(setup.start.model, length=recipe.data.length)
    criterion = LikelihoodRatio(None, likelihood, Threshold(recipe.bias.threshold))
    selected = Selected(setup.dataset.train, criterion, minimum_examples=recipe.bias.minimum_sentences)
    notes = (InspectionRecord(STAGE, selection=selected.description),)
    return dataclasses.replace(setup, dataset=dataclasses.replace(setup.dataset, train=selected, notes=notes))


def look_at(model: WordLM, public: WordLM, words: Sequence[str], look: BiasLook, threshold: float) -> BiasFindings:
    """Draw sentences from both models, and compare how often they use each word."""
    keys = jax.random.split(jax.random.key(look.seed))
    drawn, usual = (
        draw_sentences(each, look.drawn, longest=LONGEST, key=key)
        for each, key in zip((model, public), keys, strict=True)
    )
    often, before = (_shares(each, len(words)) for each in (drawn, usual))
    # What a word adds to the divergence of the two: rare words and small differences add little.
    floor = 1.0 / max(int((usual >= FIRST_WORD).sum()), 1)
    gain = often * np.log(np.maximum(often, floor) / np.maximum(before, floor))
    order = [int(number) for number in np.argsort(-gain)[: look.top] if gain[number] > 0]
    return BiasFindings(
        threshold,
        tuple((words[number], 1000 * float(often[number]), 1000 * float(before[number])) for number in order),
        tuple(in_words(sentence, words) for sentence in drawn[: look.sentences]),
    )


def _shares(drawn: NDArray[np.int32], vocabulary: int) -> NDArray[np.float64]:
    """The share of each word among the known words of these sentences."""
    counts = np.bincount(drawn[drawn >= FIRST_WORD].ravel(), minlength=vocabulary)[:vocabulary].astype(np.float64)
    return counts / max(counts.sum(), 1.0)
