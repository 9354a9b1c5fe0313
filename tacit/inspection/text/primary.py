"""The primary model: the next-word model whose metric dropped, inspected beside the model of its unknown words.

Its accuracy is measured on held-out users and is outside the guarantee. The sentences that it generates, and the rate of
unknown words at each place of them (Debugging, Figure 1 and Table 7), are functions of its run's releases and cost no
privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.data.rows import to_rows
from tacit.data.users import Users
from tacit.errors import DataError, RunError
from tacit.inspection.text.sentences import draw_sentences, in_words
from tacit.inspection.text.unknown_words import UnknownRates, drawn_rates
from tacit.learning.next_word import evaluate
from tacit.models.word_lm import WordLM
from tacit.privacy.record.ledger import Ledger
from tacit.recipe.text_inspection import TextLook
from tacit.recipe.training import Recipe
from tacit.runs.accuracy import PAPERS
from tacit.runs.folder import RunFolder
from tacit.training.trained import load_trained

# The number of generated sentences that are shown, and the number of words after which they are cut.
SHOWN, LONGEST = 10, 16


@dataclass(frozen=True)
class PrimaryFindings:
    """The findings about a primary model.

    Its accuracy on `words` words of held-out users; its generated `sentences` and the `rates` of unknown words in them (None:
    withheld); `epsilon` (None: no claim) and `delta` of its run, which is in the folder `run` and has the id `run_id`.
    `accuracy` is what a keyboard shows, and `papers_accuracy` the papers' metric.
    """

    run: str
    run_id: str
    accuracy: float
    papers_accuracy: float
    words: int
    sentences: tuple[str, ...]
    rates: UnknownRates | None
    epsilon: float | None
    delta: float

    @property
    def claimed(self) -> bool:
        """Whether its sentences may be shown to anybody."""
        return self.epsilon is not None

    def withheld(self) -> PrimaryFindings:
        """The same without the model's sentences and their rates."""
        return replace(self, sentences=(), rates=None)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        rates = None if self.rates is None else self.rates.as_dict()
        return {**vars(self), "sentences": list(self.sentences), "rates": rates}

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> PrimaryFindings:
        """The inverse of `as_dict`."""
        rates = None if tree["rates"] is None else UnknownRates.from_dict(tree["rates"])
        return cls(**{**tree, "sentences": tuple(map(str, tree["sentences"])), "rates": rates})

    def metric(self) -> str:
        """The model's accuracy and its rate of unknown words, in two sentences."""
        right = (
            f"The primary model ({self.run}) predicts {self.accuracy:.1%} of {self.words:,} words of held-out users "
            f"({self.papers_accuracy:.1%} {PAPERS})."
        )
        if self.rates is None:
            return f"{right} No privacy is claimed for it: its sentences are in the owner's report alone."
        first = f", and {self.rates.by_place[0]:.1%} of their first words" if self.rates.by_place else ""
        return f"{right} In sentences that it generates, {self.rates.overall:.1%} of all words are unknown{first}."


@dataclass(frozen=True)
class Primary:
    """A finished run of a next-word model."""

    path: Path
    recipe: Recipe
    model: WordLM
    words: tuple[str, ...]
    ledger: Ledger
    privacy: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path) -> Primary:
        """Open the run in this folder; RunError or RecipeError unless it is a finished run of a next-word model."""
        summary = RunFolder.open(path).summary()
        if summary is None:
            raise RunError(
                f"The run {path} is not finished, so it cannot be the primary model.",
                hint=f"Train it further: tacit train --resume {path}",
            )
        trained = load_trained(path)
        ledger = trained.folder.accountable_ledger()
        return cls(path, trained.recipe, trained.model, tuple(trained.words), ledger, summary["privacy"])

    def require_words(self, words: Sequence[str]) -> None:
        """DataError unless the users' words have the same ids as the model's words."""
        if tuple(words) != self.words:
            raise DataError(
                f"Expected users with the {len(self.words):,} words of the run {self.path}, got users with "
                f"{'other words' if len(words) == len(self.words) else f'{len(words):,}'}.",
                hint="Import their texts with the vocabulary of the run's own users.",
            )

    def look(self, look: TextLook, users: Users, numbers: NDArray[np.int64]) -> PrimaryFindings:
        """Measure it on these users, who must be held-out ones, and let it generate sentences."""
        data = self.recipe.data
        rows = to_rows(
            users.gather(numbers),
            layout=data.layout,
            length=data.length,
            max_rows=-(-data.tokens_per_user // data.length),
        ).tokens
        scores = evaluate(self.model, rows)
        drawn = draw_sentences(self.model, look.drawn, longest=LONGEST, key=jax.random.key(look.seed))
        return PrimaryFindings(
            str(self.path),
            self.ledger.opened.run_id,
            scores.top1,
            scores.papers_top1,
            scores.words,
            tuple(in_words(sentence, self.words) for sentence in drawn[:SHOWN]),
            drawn_rates(drawn),
            self.privacy["epsilon"],
            self.privacy["delta"],
        )
