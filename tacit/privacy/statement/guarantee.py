"""The guarantee of a run, as a statement a reviewer can sign: what is claimed, for whom, on what grounds, and how to check it.

It begins with one paragraph for everybody, and then takes up the subjects by which NIST SP 800-226 has a claim evaluated, from
the top of its pyramid to the bottom: parameters, unit, what is released, mechanism and accounting, accuracy and bias, trust,
implementation, access, collection of the data. What Gboard's appendix C lists for its models is in it too. All of it is made
from the run's ledger and what the run spent; accuracy alone is measured elsewhere and handed in. A mechanism,
a sampling or a plan that this version of Tacit does not know, and a ledger that departs from its own plan, make epsilon
infinite, with the reason: nothing is described by guessing. The sentences are in `guarantee_parts`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from tacit.privacy.accounting.spent import Spent
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.reasons import Reason, Why, distinct, in_words, reasons_as_json
from tacit.privacy.statement import deployment
from tacit.privacy.statement import guarantee_parts as parts
from tacit.privacy.statement.assumptions import Observed, assumptions_of, objections
from tacit.privacy.statement.guarantee_parts import ListedRuns
from tacit.privacy.statement.paragraph import paragraph
from tacit.privacy.statement.trust import trust
from tacit.privacy.statement.wording import (
    Line,
    Part,
    escaped,
    in_markdown,
    parts_as_html,
    parts_as_json,
    parts_as_markdown,
    plain,
    round_up,
    rounds_in_words,
)

__all__ = ["Guarantee", "ListedRuns"]


@dataclass(frozen=True)
class Guarantee:
    """What may be said about a run. `epsilon` is infinite exactly when `reasons` says why."""

    run_id: str
    tacit_version: str
    mechanism: str
    sampling: str
    unit: str
    adjacency: str
    accountant: str
    epsilon: float
    delta: float
    rho: float | None
    releases: int
    rounds_planned: int
    rounds_run: int
    computed_from: str
    reasons: tuple[Reason, ...]
    assumptions: tuple[Line, ...]
    head: str
    paragraph: str
    parts: tuple[Part, ...]

    @classmethod
    def of(
        cls,
        ledger: Ledger,
        spent: Spent,
        *,
        observed: Observed | None = None,
        happened: Spent | None = None,
        released: Sequence[str] = (),
        listed: ListedRuns | None = None,
        accuracy: Sequence[str] = (),
    ) -> Self:
        """The guarantee of the run with this ledger, which costs this.

        `observed` and `happened`, the cost from the participation that happened, make the statement one for the owner alone.
        `released` says which files of the run are the outcome that the statement speaks of, a line each. `listed` is the list
        of runs on the same users, where the reader can see it. `accuracy` are sentences about what was measured on held-out
        users.
        """
        reasons = distinct((*spent.reasons_not_private, *objections(ledger, spent)))
        epsilon = math.inf if reasons else spent.epsilon
        if math.isinf(epsilon) and not reasons:
            reasons = (Reason(Why.NO_FINITE_BOUND),)
        assumptions = assumptions_of(ledger, spent, observed, happened)
        opened = ledger.opened
        said = cls(
            run_id=opened.run_id,
            tacit_version=opened.tacit_version,
            mechanism=opened.mechanism,
            sampling=str(opened.plan.get("sampling")),
            unit=spent.unit,
            adjacency=opened.adjacency,
            accountant=spent.accountant,
            epsilon=epsilon,
            delta=spent.delta,
            rho=None if reasons else spent.rho,
            releases=spent.releases,
            rounds_planned=opened.rounds,
            rounds_run=spent.rounds_run,
            computed_from=spent.computed_from,
            reasons=reasons,
            assumptions=assumptions,
            head=ledger.head,
            paragraph="",
            parts=(),
        )
        return replace(
            said,
            paragraph=paragraph(said, ledger),
            parts=(
                Part("The formal statement", parts.formal(said, ledger)),
                Part("Unit of privacy and neighbours", parts.unit(said)),
                Part("What is released", parts.what_is_released(ledger, released)),
                Part("Data accesses covered", parts.covered(said, ledger)),
                Part("Not covered", parts.not_covered(ledger, listed)),
                Part("Mechanism and accounting", parts.accounting(said, ledger, happened)),
                Part(
                    "Bias" if opened.finds_words else "Accuracy and bias",
                    deployment.accuracy_and_bias(opened, accuracy),
                ),
                Part("Setting and trust", trust(said, ledger, observed)),
                Part("Arithmetic, randomness and side channels", deployment.implementation(opened)),
                Part("Security and access", deployment.access(opened)),
                Part("Collection of the data", deployment.collection(opened)),
                Part("What it rests on", assumptions),
                Part("How to check it", parts.how_to_check(said, ledger)),
            ),
        )

    @property
    def private(self) -> bool:
        """Whether a finite epsilon is claimed."""
        return math.isfinite(self.epsilon)

    @property
    def headline(self) -> str:
        """The claim in one sentence."""
        if not self.private:
            return f"No privacy is claimed: epsilon is infinite, because {in_words(self.reasons)}."
        rho = "" if self.rho is None else f", ρ = {round_up(self.rho, 4)}"
        return (
            f"ε = {round_up(self.epsilon)} at δ = {self.delta:g}{rho}, for all the data of any one {self.unit} "
            f"({self.adjacency}), for {self.rounds_in_words}."
        )

    @property
    def rounds_in_words(self) -> str:
        """Which rounds epsilon is that of."""
        return rounds_in_words(self.rounds_planned, self.rounds_run, self.releases - self.rounds_run)

    def as_json(self) -> dict[str, Any]:
        """Plain data for JSON: epsilon null where it is infinite, numbers not rounded."""
        return {
            "run_id": self.run_id,
            "tacit_version": self.tacit_version,
            "mechanism": self.mechanism,
            "sampling": self.sampling,
            "unit": self.unit,
            "adjacency": self.adjacency,
            "accountant": self.accountant,
            "epsilon": self.epsilon if self.private else None,
            "delta": self.delta,
            "rho": self.rho,
            "releases": self.releases,
            "rounds_planned": self.rounds_planned,
            "rounds_run": self.rounds_run,
            "computed_from": self.computed_from,
            **reasons_as_json(self.reasons),
            "assumptions": [{"text": plain(line.text), "mark": str(line.mark)} for line in self.assumptions],
            "ledger_head": self.head,
            "headline": plain(self.headline),
            "paragraph": plain(self.paragraph),
            "parts": parts_as_json(self.parts),
        }

    def as_markdown(self) -> str:
        """A document of its own."""
        return (
            f"# The guarantee of run {in_markdown(self.run_id)}\n\n**{in_markdown(self.headline)}**\n\n"
            f"{in_markdown(self.paragraph)}\n\n{parts_as_markdown(self.parts)}\n"
        )

    def as_html(self) -> str:
        """A fragment for a page: the headline, then parts under headings of the third level; everything escaped."""
        verdict = "claimed" if self.private else "not-claimed"
        top = f'<p class="headline {verdict}">{escaped(self.headline)}</p>\n<p>{escaped(self.paragraph)}</p>'
        return f"{top}\n{parts_as_html(self.parts)}"
