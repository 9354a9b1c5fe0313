"""Two inspections held against each other: before and after something changed, as Debugging does in Table 2.

Only what the runs left behind is read: their summaries and their ledgers. The words are functions of two released models, so
the comparison costs nothing more; what both models cost together is composed from the ledgers, as if everybody had been in
both.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tacit.errors import RunError
from tacit.inspection.findings import NO_CLAIM, OUTSIDE, TELLING, WordFindings, places, word_rows
from tacit.privacy.accounting.several_runs import Together, together
from tacit.privacy.ledger import Ledger
from tacit.privacy.statement import up
from tacit.runs.folder import RunFolder
from tacit.runs.report.blocks import Block, Paragraph, Section, Table


@dataclass(frozen=True)
class Comparison:
    """What two finished inspections found, and what they cost together."""

    before: WordFindings
    after: WordFindings
    cost: Together

    @property
    def new_words(self) -> list[str]:
        """The most likely words of the later model that are not among those of the earlier one, most likely first."""
        known = {word for word, _ in self.before.words}
        return [word for word, _ in self.after.words if word not in known]

    def conclusion(self) -> str:
        """What differs, in one paragraph."""
        before, after = self.before, self.after
        facts = (
            f"Of the most likely unknown words {before.with_space:.0%} contained a space before and {after.with_space:.0%} do "
            f"now, {before.with_capital:.0%} a capital letter before and {after.with_capital:.0%} now; {len(self.new_words)} "
            f"of {len(after.words)} are new. Unknown were {before.rates.overall:.1%} of all words before and are "
            f"{after.rates.overall:.1%} now{self._first_place()}."
        )
        found = []
        if after.with_space - before.with_space >= TELLING:
            found.append("What is new is words with a space in them: tokens are joined now that were apart before.")
        if after.with_capital - before.with_capital >= TELLING:
            found.append("What is new is capital letters: text is no longer lower-cased before it is looked up.")
        return f"{facts} {' '.join(found) or 'Neither spaces nor capitals have become more frequent.'}"

    def price(self) -> str:
        """What both models cost the users, or why nothing can be said."""
        if math.isinf(self.cost.epsilon):
            return f"No privacy can be claimed for both models together: {'; '.join(self.cost.reasons_not_private)}."
        return (
            f"Both models together: ε = {up(self.cost.epsilon)} at δ = {self.cost.delta:g}, for all the data of any one "
            f"{self.cost.unit} ({self.cost.adjacency}), over {self.cost.releases} releases."
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON; an infinite epsilon is null."""
        cost = asdict(self.cost)
        cost["epsilon"] = cost["epsilon"] if math.isfinite(self.cost.epsilon) else None
        return {
            "before": self.before.as_dict(),
            "after": self.after.as_dict(),
            "new_words": self.new_words,
            "conclusion": self.conclusion(),
            "privacy": cost,
        }

    def rows(self) -> list[list[str]]:
        """The words of both, side by side, with thousandfold probabilities."""
        sides = zip_longest(word_rows(self.before.words), word_rows(self.after.words), fillvalue=["", ""])
        return [[*one, *other] for one, other in sides]

    def section(self) -> Section:
        """A section of the later run's report; the owner's alone unless privacy can be claimed for both."""
        claimed = math.isfinite(self.cost.epsilon)
        blocks: list[Block] = [
            Paragraph(text=self.conclusion()),
            Table(columns=["before", "× 1000", "after", "× 1000"], rows=self.rows()),
        ]
        if self.before.rates.by_place and self.after.rates.by_place:
            blocks.append(places([("before", self.before.rates), ("after", self.after.rates)]))
        blocks += [Paragraph(text=OUTSIDE, note=True), Paragraph(text=self.price() if claimed else NO_CLAIM, note=True)]
        title = "Unknown words, before and after"
        return Section(name="inspection-compared", title=title, order=62, private=not claimed, blocks=blocks)

    def _first_place(self) -> str:
        if not (self.before.rates.by_place and self.after.rates.by_place):
            return ""
        return f"; of the first words of sentences {self.before.rates.by_place[0]:.1%} and {self.after.rates.by_place[0]:.1%}"


def compare_inspections(before: Path, after: Path) -> Comparison:
    """Read two finished inspections; RunError for any other run."""
    (found_before, ledger_before), (found_after, ledger_after) = _read(before), _read(after)
    return Comparison(found_before, found_after, together([ledger_before, ledger_after]))


def _read(path: Path) -> tuple[WordFindings, Ledger]:
    folder = RunFolder.open(path)
    found = (folder.summary() or {}).get("inspection")
    if found is None:
        raise RunError(f"Expected a finished inspection of text, got {path}, which is none.")
    try:
        return WordFindings.from_dict(found), folder.ledger()
    except (KeyError, TypeError, ValueError):
        raise RunError(f"The run {path} is damaged: its summary.json does not hold an inspection's findings.") from None
