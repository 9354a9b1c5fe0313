"""What a model of unknown words says, and what that means: a section of the report, and sentences for a person.

The words are the model's own, made up by a function of what was released; nobody's text is read for them. Where the run can
claim no privacy, the section is the owner's alone, because then a made-up word may as well be somebody's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from tacit.inspection.costs import price, price_at_scale, price_together
from tacit.inspection.fault_scores import share_with_capital, share_with_space
from tacit.inspection.text.primary import PrimaryFindings
from tacit.inspection.text.unknown_words import UnknownRates
from tacit.models.char_lm import CharLM, likely_words, sample_words
from tacit.recipe.text_inspection import TextLook
from tacit.runs.report.blocks import Block, Lines, Paragraph, Section, Series, Table

# From this share of the most likely words on, a trait is no accident of noise.
TELLING = 0.1
# First words that are unknown so many times as often as all words are worth a look.
MANY = 2.0
OUTSIDE = "The rates of unknown words were counted on held-out users, without noise: outside the guarantee."
OUTSIDE_ACCURACY = (
    "The accuracy was measured on held-out users, without noise: outside the guarantee. The sentences are functions of the "
    "released model."
)
NO_CLAIM = "No privacy is claimed for this run, so these words may be somebody's: they are for the owner alone."


@dataclass(frozen=True)
class WordFindings:
    """The most likely words with their joint probabilities, traits of them and of `drawn` random ones, unknown words' rates
    among held-out users, and what the primary model does and says, where one was given."""

    words: tuple[tuple[str, float], ...]
    drawn: int
    drawn_with_space: float
    drawn_with_capital: float
    rates: UnknownRates
    primary: PrimaryFindings | None = None

    @property
    def with_space(self) -> float:
        """The share of the most likely words that contain a space."""
        return share_with_space([word for word, _ in self.words])

    @property
    def with_capital(self) -> float:
        """The share of the most likely words that contain a capital letter."""
        return share_with_capital([word for word, _ in self.words])

    def released(self, *, claimed: bool) -> WordFindings:
        """What the summary of a run may hold, which is released under the run's statement if privacy is `claimed` for it.

        What a primary model without privacy says is then no part of it.
        """
        if self.primary is None or self.primary.claimed or not claimed:
            return self
        return replace(self, primary=self.primary.withheld())

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "words": [[word, probability] for word, probability in self.words],
            "with_space": self.with_space,
            "with_capital": self.with_capital,
            "drawn": self.drawn,
            "drawn_with_space": self.drawn_with_space,
            "drawn_with_capital": self.drawn_with_capital,
            "unknown_words": self.rates.as_dict(),
            "primary": None if self.primary is None else self.primary.as_dict(),
        }

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> WordFindings:
        """What `as_dict` gave."""
        return cls(
            tuple((str(word), float(probability)) for word, probability in tree["words"]),
            int(tree["drawn"]),
            float(tree["drawn_with_space"]),
            float(tree["drawn_with_capital"]),
            UnknownRates.from_dict(tree["unknown_words"]),
            None if tree["primary"] is None else PrimaryFindings.from_dict(tree["primary"]),
        )

    def conclusion(self) -> str:
        """What the words point to, in one paragraph."""
        count = len(self.words)
        first = f", {self.rates.by_place[0]:.1%} of the first words of sentences" if self.rates.by_place else ""
        counted = (
            f"Of the {count} most likely unknown words {round(self.with_space * count)} contain a space and "
            f"{round(self.with_capital * count)} a capital letter; of {self.drawn:,} drawn at random "
            f"{self.drawn_with_space:.1%} and {self.drawn_with_capital:.1%}. "
            f"{self.rates.overall:.1%} of all words are unknown{first}."
        )
        return f"{counted} {' '.join(self._pointers())}"

    def _pointers(self) -> list[str]:
        found = []
        if self.with_space >= TELLING:
            found.append(
                "No word of a sound tokenizer contains a space: somewhere tokens are joined that belong apart."
            )
        if self.with_capital >= TELLING:
            found.append("Text is lower-cased before it is looked up: somewhere that step is lost.")
        if self.rates.by_place and self.rates.by_place[0] >= MANY * self.rates.overall > 0:
            found.append(
                "Words that begin a sentence are unknown far more often than others: look at what happens there."
            )
        return found or [
            "Nothing in these words points to tokens that are joined, or to case that is kept; unless they look like words, "
            "the model has not learned enough to tell."
        ]

    def sections(self, summary: Mapping[str, Any]) -> list[Section]:
        """Sections of the report; `summary` says what the run has spent, by itself and together with the primary model's."""
        return [self._words_section(summary)] + ([] if self.primary is None else [self._primary_section(summary)])

    def _words_section(self, summary: Mapping[str, Any]) -> Section:
        claimed = summary["privacy"]["epsilon"] is not None
        blocks: list[Block] = [Paragraph(text=self.conclusion())]
        blocks.append(Table(columns=["unknown word", "probability × 1000"], rows=word_rows(self.words)))
        if self.rates.by_place:
            blocks.append(places([("unknown words", self.rates)]))
        notes = [OUTSIDE, price(summary["privacy"]) if claimed else NO_CLAIM]
        if scale := summary.get("at_scale"):
            notes.append(price_at_scale(scale))
        blocks += [Paragraph(text=note, note=True) for note in notes]
        title = "Unknown words, as a model makes them up"
        return Section(name="inspection", title=title, order=60, private=not claimed, blocks=blocks)

    def _primary_section(self, summary: Mapping[str, Any]) -> Section:
        assert self.primary is not None
        blocks: list[Block] = [
            Paragraph(text=self.primary.metric()),
            Table(columns=["sentences that it makes up"], rows=[[sentence] for sentence in self.primary.sentences]),
        ]
        if self.primary.rates is not None and self.primary.rates.by_place:
            blocks.append(places([("made-up sentences", self.primary.rates)]))
        notes = [OUTSIDE_ACCURACY, price_together(summary["together"])]
        blocks += [Paragraph(text=note, note=True) for note in notes]
        title = "The primary model, and what it says"
        return Section(
            name="inspection-primary", title=title, order=61, private=not self.primary.claimed, blocks=blocks
        )


def look_at(model: CharLM, look: TextLook, rates: UnknownRates, *, longest: int) -> WordFindings:
    """Ask a trained model for its words."""
    likely = likely_words(model, look.top + 1, longest=longest, width=look.width)
    drawn = sample_words(model, look.drawn, longest=longest, key=jax.random.key(look.seed))
    texts = [word for word, _ in drawn if word]
    words = [(_printable(word), probability) for word, probability in likely if word][: look.top]
    return WordFindings(tuple(words), len(texts), share_with_space(texts), share_with_capital(texts), rates)


def word_rows(words: Sequence[tuple[str, float]]) -> list[list[str]]:
    """Words and thousandfold probabilities, for a table; a space is made visible."""
    return [[visible(word), f"{1000 * probability:.3g}"] for word, probability in words]


def visible(word: str) -> str:
    """The word with its spaces shown."""
    return word.replace(" ", "␣")


def places(curves: Sequence[tuple[str, UnknownRates]]) -> Lines:
    """The rate by place in the sentence, a curve each."""
    series = [
        Series(name=name, points=[(float(place + 1), rate) for place, rate in enumerate(rates.by_place)])
        for name, rates in curves
    ]
    return Lines(x="place in the sentence", y="words that are unknown", series=series, percent=True)


def _printable(word: str) -> str:
    """The word without what a terminal would obey: bytes are made up freely, control characters among them."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in word)
