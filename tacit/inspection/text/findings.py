"""The words that a model of unknown words generates, and what they point to: a section of the report and sentences.

The words are functions of the released model; no user's text is read for them. If the run cannot claim privacy, the section is
for the owner alone, because a generated word may then be somebody's.
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

# A trait of at least this share of the most likely words is not an accident of noise.
TELLING = 0.1
# If first words are unknown this many times as often as all words, the report points it out.
MANY = 2.0
OUTSIDE = "The rates of unknown words were counted on held-out users without noise: they are outside the guarantee."
OUTSIDE_ACCURACY = (
    "The accuracy was measured on held-out users without noise: it is outside the guarantee. The sentences are functions of "
    "the released model."
)
NO_CLAIM = "No privacy is claimed for this run, so these words may be somebody's: they are for the owner alone."


@dataclass(frozen=True)
class WordFindings:
    """The findings of an inspection of text.

    The most likely words with their joint probabilities; traits of them and of `drawn` random words; the rates of unknown
    words among held-out users; and the findings about the primary model, if there is one.
    """

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
        """The findings for the run's summary, which is released under the run's statement if privacy is `claimed`.

        Sentences of a primary model without privacy are then left out.
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
        """The inverse of `as_dict`."""
        return cls(
            tuple((str(word), float(probability)) for word, probability in tree["words"]),
            int(tree["drawn"]),
            float(tree["drawn_with_space"]),
            float(tree["drawn_with_capital"]),
            UnknownRates.from_dict(tree["unknown_words"]),
            None if tree["primary"] is None else PrimaryFindings.from_dict(tree["primary"]),
        )

    def conclusion(self) -> str:
        """The fault that the words point to, in one paragraph."""
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
            found.append("No word of a correct tokenizer contains a space: somewhere, separate tokens are joined.")
        if self.with_capital >= TELLING:
            found.append("Text should be lower-cased before it is looked up: somewhere, that step is missing.")
        if self.rates.by_place and self.rates.by_place[0] >= MANY * self.rates.overall > 0:
            found.append(
                "Words that begin a sentence are unknown far more often than others: check how they are processed."
            )
        return found or [
            "Nothing in these words points to joined tokens or to missing lower-casing. If they do not look like words, the "
            "model has not learned enough to tell."
        ]

    def sections(self, summary: Mapping[str, Any]) -> list[Section]:
        """Sections of the report; `summary` has the cost of the run, alone and together with the primary model's run."""
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
        title = "Unknown words, as a model generates them"
        return Section(name="inspection", title=title, order=5, private=not claimed, blocks=blocks)

    def _primary_section(self, summary: Mapping[str, Any]) -> Section:
        assert self.primary is not None
        blocks: list[Block] = [
            Paragraph(text=self.primary.metric()),
            Table(columns=["sentences that it generates"], rows=[[sentence] for sentence in self.primary.sentences]),
        ]
        if self.primary.rates is not None and self.primary.rates.by_place:
            blocks.append(places([("generated sentences", self.primary.rates)]))
        notes = [OUTSIDE_ACCURACY, price_together(summary["together"])]
        blocks += [Paragraph(text=note, note=True) for note in notes]
        title = "The primary model and its sentences"
        return Section(name="inspection-primary", title=title, order=6, private=not self.primary.claimed, blocks=blocks)


def look_at(model: CharLM, look: TextLook, rates: UnknownRates, *, longest: int) -> WordFindings:
    """Examine a trained model: its most likely words, and random ones."""
    likely = likely_words(model, look.top + 1, longest=longest, width=look.width)
    drawn = sample_words(model, look.drawn, longest=longest, key=jax.random.key(look.seed))
    texts = [word for word, _ in drawn if word]
    words = [(_printable(word), probability) for word, probability in likely if word][: look.top]
    return WordFindings(tuple(words), len(texts), share_with_space(texts), share_with_capital(texts), rates)


def word_rows(words: Sequence[tuple[str, float]]) -> list[list[str]]:
    """Words and their probabilities times 1000, for a table; spaces are made visible."""
    return [[visible(word), f"{1000 * probability:.3g}"] for word, probability in words]


def visible(word: str) -> str:
    """The word with its spaces shown."""
    return word.replace(" ", "␣")


def places(curves: Sequence[tuple[str, UnknownRates]]) -> Lines:
    """A plot of the rate by place in the sentence, one curve each."""
    series = [
        Series(name=name, points=[(float(place + 1), rate) for place, rate in enumerate(rates.by_place)])
        for name, rates in curves
    ]
    return Lines(x="place in the sentence", y="words that are unknown", series=series, percent=True)


def _printable(word: str) -> str:
    """The word without control characters, which a model can generate and a terminal would obey."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in word)
