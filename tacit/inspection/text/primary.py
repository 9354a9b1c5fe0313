"""The primary model: the next-word model whose metric dropped, looked into beside the model of its unknown words.

Two kinds of numbers. How well it predicts held-out people reads these people and is outside the guarantee. What it says of its
own accord (sentences, and where in them a word is unknown: Debugging, Figure 1 and Table 7) is a function of what its run
released, and free.
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
from tacit.runs.folder import RunFolder
from tacit.training.trained import load_trained

# How many made-up sentences are shown, and after how many words one is cut.
SHOWN, LONGEST = 10, 16


@dataclass(frozen=True)
class PrimaryFindings:
    """What a primary model does and says: its accuracy on `words` words of held-out people; `sentences`, and the `rates` of
    unknown words in them, of its own making (None: withheld); `epsilon` (None: no claim) and `delta` of the run that
    released it, which is in `run` and is named `run_id`."""

    run: str
    run_id: str
    accuracy: float
    words: int
    sentences: tuple[str, ...]
    rates: UnknownRates | None
    epsilon: float | None
    delta: float

    @property
    def claimed(self) -> bool:
        """Whether what it says may be shown to anybody."""
        return self.epsilon is not None

    def withheld(self) -> PrimaryFindings:
        """The same without what the model says of its own accord."""
        return replace(self, sentences=(), rates=None)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        rates = None if self.rates is None else self.rates.as_dict()
        return {**vars(self), "sentences": list(self.sentences), "rates": rates}

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> PrimaryFindings:
        """What `as_dict` gave."""
        rates = None if tree["rates"] is None else UnknownRates.from_dict(tree["rates"])
        return cls(**{**tree, "sentences": tuple(map(str, tree["sentences"])), "rates": rates})

    def metric(self) -> str:
        """What the model is good for, in two sentences."""
        right = f"The primary model ({self.run}) guesses {self.accuracy:.1%} of {self.words:,} words of held-out users right."
        if self.rates is None:
            return f"{right} No privacy is claimed for it: what it says is in the owner's report alone."
        first = f", and {self.rates.by_place[0]:.1%} of their first words" if self.rates.by_place else ""
        return f"{right} In sentences of its own making {self.rates.overall:.1%} of all words are unknown{first}."


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
        """RunError or RecipeError if it is no such run."""
        summary = RunFolder.open(path).summary()
        if summary is None:
            raise RunError(
                f"Expected a finished run as the primary model, got {path}, which is not.",
                hint=f"Train it further: tacit train --resume {path}",
            )
        trained = load_trained(path)
        ledger = trained.folder.accountable_ledger()
        return cls(path, trained.recipe, trained.model, tuple(trained.words), ledger, summary["privacy"])

    def require_words(self, words: Sequence[str]) -> None:
        """DataError unless the users' words are numbered as the model numbers its own."""
        if tuple(words) != self.words:
            raise DataError(
                f"Expected users with the {len(self.words):,} words of the run {self.path}, got users with "
                f"{'other words' if len(words) == len(self.words) else f'{len(words):,}'}.",
                hint="Import their texts with the vocabulary that the run's own users were imported with.",
            )

    def look(self, look: TextLook, users: Users, numbers: NDArray[np.int64]) -> PrimaryFindings:
        """Judge it by these users, who are to be held-out ones, and have it make up sentences."""
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
            scores.words,
            tuple(in_words(sentence, self.words) for sentence in drawn[:SHOWN]),
            drawn_rates(drawn),
            self.privacy["epsilon"],
            self.privacy["delta"],
        )
