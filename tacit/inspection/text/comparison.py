"""Compare two inspections, before and after a change, as Debugging does in Table 2 and Figure 1.

A comparison only reads the runs' summaries and ledgers. The words are functions of released models, so it costs no privacy. The
cost of all models together, primary models included, is composed from the ledgers, as if every user had been in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from tacit.errors import RunError
from tacit.inspection.costs import cost_together, price_together
from tacit.inspection.text.findings import NO_CLAIM, OUTSIDE, TELLING, WordFindings, places, word_rows
from tacit.inspection.text.primary import PrimaryFindings
from tacit.inspection.text.unknown_words import UnknownRates
from tacit.privacy.record.ledger import Ledger
from tacit.runs.folder import RunFolder
from tacit.runs.report.blocks import Block, Paragraph, Section, Table


@dataclass(frozen=True)
class InspectionComparison:
    """The findings of two finished inspections, and their total cost."""

    before: WordFindings
    after: WordFindings
    cost: Mapping[str, Any]  # of all models together, from `cost_together`

    @property
    def new_words(self) -> list[str]:
        """The most likely words of the later model that are not among those of the earlier one, most likely first."""
        known = {word for word, _ in self.before.words}
        return [word for word, _ in self.after.words if word not in known]

    def conclusion(self) -> str:
        """The differences, in one paragraph."""
        before, after = self.before, self.after
        facts = (
            f"Of the most likely unknown words {before.with_space:.0%} contained a space before and {after.with_space:.0%} do "
            f"now, {before.with_capital:.0%} a capital letter before and {after.with_capital:.0%} now; {len(self.new_words)} "
            f"of {len(after.words)} are new. The share of unknown words was "
            f"{before.rates.overall:.1%} before and is {after.rates.overall:.1%} now{self._first_place()}."
        )
        found = []
        if after.with_space - before.with_space >= TELLING:
            found.append("Words with a space are new: tokens are joined now that were separate before.")
        if after.with_capital - before.with_capital >= TELLING:
            found.append("Capital letters are new: text is no longer lower-cased before it is looked up.")
        return f"{facts} {' '.join(found) or 'Neither spaces nor capitals have become more frequent.'}"

    def price(self) -> str:
        """The cost of all models, or why none can be claimed."""
        return price_together(self.cost)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; an infinite epsilon is null."""
        return {
            "before": self.before.as_dict(),
            "after": self.after.as_dict(),
            "new_words": self.new_words,
            "conclusion": self.conclusion(),
            "privacy": dict(self.cost),
        }

    def rows(self) -> list[list[str]]:
        """The words of both, side by side, with their probabilities times 1000."""
        sides = zip_longest(word_rows(self.before.words), word_rows(self.after.words), fillvalue=["", ""])
        return [[*one, *other] for one, other in sides]

    def place_rows(self) -> list[list[str]]:
        """The share of unknown words by place in the sentence, before and after: of held-out users and, where both
        inspections have a primary model, of the sentences that it generates."""
        curves = [self.before.rates, self.after.rates, *(each.rates for each in self._primaries())]
        longest = max(len(curve.by_place) for curve in curves)
        return [
            [str(place + 1)]
            + [f"{curve.by_place[place]:.1%}" if place < len(curve.by_place) else "" for curve in curves]
            for place in range(longest)
        ]

    def place_columns(self) -> list[str]:
        """The column heads of `place_rows`."""
        return ["place", "before", "after"] + (["generated before", "generated after"] if self._primaries() else [])

    def section(self) -> Section:
        """A section of the later run's report; for the owner alone unless privacy can be claimed for all models."""
        claimed = self.cost["epsilon"] is not None
        blocks: list[Block] = [
            Paragraph(text=self.conclusion()),
            Table(columns=["before", "× 1000", "after", "× 1000"], rows=self.rows()),
        ]
        if self.before.rates.by_place and self.after.rates.by_place:
            blocks.append(places([("before", self.before.rates), ("after", self.after.rates)]))
        if primaries := self._primaries():
            before, after = primaries
            blocks.append(places([("generated before", before.rates), ("generated after", after.rates)]))
            said = [list(pair) for pair in zip_longest(before.sentences, after.sentences, fillvalue="")]
            blocks.append(Table(columns=["generated before", "generated after"], rows=said))
        blocks += [Paragraph(text=OUTSIDE, note=True), Paragraph(text=self.price() if claimed else NO_CLAIM, note=True)]
        title = "Unknown words, before and after"
        return Section(name="inspection-compared", title=title, order=7, private=not claimed, blocks=blocks)

    def _primaries(self) -> tuple[_Said, _Said] | tuple[()]:
        before, after = _said(self.before.primary), _said(self.after.primary)
        return () if before is None or after is None else (before, after)

    def _first_place(self) -> str:
        said = _of_first_words("of the first words of sentences", self.before.rates, self.after.rates)
        if primaries := self._primaries():
            before, after = primaries
            said += _of_first_words("of those that the primary models generate", before.rates, after.rates)
        return said


class _Said(NamedTuple):
    """The generated sentences of a primary model, and their rates of unknown words."""

    sentences: tuple[str, ...]
    rates: UnknownRates


def _said(primary: PrimaryFindings | None) -> _Said | None:
    """None without a primary model, or if its sentences were withheld."""
    return None if primary is None or primary.rates is None else _Said(primary.sentences, primary.rates)


def _of_first_words(whose: str, before: UnknownRates, after: UnknownRates) -> str:
    if not (before.by_place and after.by_place):
        return ""
    return f"; {whose} {before.by_place[0]:.1%} and {after.by_place[0]:.1%}"


def compare_inspections(before: Path, after: Path) -> InspectionComparison:
    """Read two finished inspections; RunError for any other run."""
    (found_before, ledgers_before), (found_after, ledgers_after) = _read(before), _read(after)
    return InspectionComparison(found_before, found_after, cost_together(ledgers_before + ledgers_after))


def _read(path: Path) -> tuple[WordFindings, list[Ledger]]:
    """The inspection's findings, and the ledgers of its models."""
    folder = RunFolder.open(path)
    tree = (folder.summary() or {}).get("inspection")
    if tree is None:
        raise RunError(f"The run {path} is not a finished inspection of text.")
    try:
        found = WordFindings.from_dict(tree)
    except (KeyError, TypeError, ValueError):
        raise RunError(f"The run {path} is damaged: its summary.json does not hold an inspection's findings.") from None
    if found.primary is None:
        return found, [folder.accountable_ledger()]
    primary = RunFolder.open(Path(found.primary.run))
    if primary.run_id != found.primary.run_id:
        raise RunError(
            f"Expected the run {found.primary.run_id} in {primary.path}, the primary model of {path}, got the run "
            f"{primary.run_id}: the total cost cannot be computed without the ledger of the primary model."
        )
    return found, [folder.accountable_ledger(), primary.accountable_ledger()]
