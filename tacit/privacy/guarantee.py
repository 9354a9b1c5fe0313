"""The guarantee of a run, as a statement a reviewer can sign: what is claimed, for whom, on what grounds, and how to check it.

Follows the outline of Gboard's appendix C (setting and trust; data accesses covered, what is released, unit, neighbours;
accounting, assumptions, the formal statement, verifiability) for any run, from its ledger and what it spent. A mechanism,
a sampling or a plan that this version of Tacit does not know, and a ledger that departs from its own plan, make epsilon
infinite, with the reason: nothing is described by guessing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from tacit.privacy.accounting.conventions import without_replacement_epsilon
from tacit.privacy.accounting.spent import Spent, rounds_of
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian
from tacit.privacy.assumptions import PROVEN_UNDER, SAMPLED, Observed, assumptions_of, objections
from tacit.privacy.discretisation import DISCRETE
from tacit.privacy.ledger import Ledger
from tacit.privacy.on_devices import fleet_of
from tacit.privacy.plan import CORRELATED
from tacit.privacy.statement import (
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
    times,
)
from tacit.privacy.tail import apart_from_tail, outweighs, tail_probability

_NOISE = {
    "gaussian": "Independent Gaussian noise on the sum of each round (DP-FedAvg)",
    "tree": "Gaussian noise on the nodes of a binary tree over the rounds (DP-FTRL)",
    "blt": "Gaussian noise correlated over the rounds by a buffered linear Toeplitz strategy (DP-FTRL)",
    "banded": "Gaussian noise correlated over the rounds by a banded strategy (DP-FTRL)",
    DISCRETE: "Discrete Gaussian noise that each device adds to its own integers, fresh in every round",
    "none": "No noise on the sum of each round",
}
_NEIGHBOURS = {
    "add or remove one user": "one is the other with all the data of one {unit} added or removed",
    "replace one user": "one is the other with all the data of one {unit} replaced by any other data",
    "zero out one user": "one is the other with the contributions of one {unit} replaced by zeros in every round; "
    "who is asked in which round is the same in both",
}
_ACCOUNTANTS = {
    "pld": "privacy loss distributions, discretised so that epsilon is never too small",
    "rdp": "Rényi differential privacy, converted to (epsilon, delta)",
}
_FALSE_ALARMS = 0.01
_CENTRAL = (
    "Central differential privacy: whoever runs the training sees single updates and adds the noise. That party "
    "is trusted to run this code and to keep the run's private folder to itself.",
)
_MASKED = (
    "Central differential privacy behind secure aggregation: the server sees the sum of a round's updates and no single one, "
    "and adds the noise. It is trusted to run this code and to keep sums and the run's private folder to itself. Devices are "
    "trusted to clip their entries: one that sends larger integers can make the sum wrap, and others' shares are then no "
    "longer bounded.",
)
_DISTRIBUTED = (
    "Distributed differential privacy: each device adds a share of the noise before anything leaves it, and secure "
    "aggregation shows the server the sum alone. This removes the assumption that the server adds noise and keeps it "
    "secret: the statement holds against the server too, if it follows the protocol, or if the round's parameters hold it "
    "to the smallest number of devices (docs/secagg.md).",
    "What is trusted instead: the secure aggregation, and that the stated share of a round's devices and no more are "
    "corrupt. A run in simulation is all devices in one process, whose owner is trusted to run this code.",
)


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
    reasons: tuple[str, ...]
    assumptions: tuple[Line, ...]
    head: str
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, ledger: Ledger, spent: Spent, *, observed: Observed | None = None) -> Self:
        """The guarantee of the run with this ledger, which has spent this.

        `observed` makes the statement one for the owner alone: for sampled users nobody else may know what the
        participation record shows.
        """
        reasons = tuple(dict.fromkeys((*spent.reasons_not_private, *objections(ledger, spent))))
        epsilon = math.inf if reasons else spent.epsilon
        if math.isinf(epsilon) and not reasons:
            reasons = ("the accountant found no finite bound",)
        assumptions = assumptions_of(ledger, spent, observed)
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
            reasons=reasons,
            assumptions=assumptions,
            head=ledger.head,
            parts=(),
        )
        parts = (
            Part("Setting and trust", _trust(said, ledger, observed)),
            Part("Data accesses covered", _covered(said)),
            Part("Not covered", _not_covered(ledger)),
            Part("What is released", _released(said)),
            Part("Unit of privacy and neighbours", _unit(said)),
            Part("Accounting", _accounting(said, ledger)),
            Part("What it rests on", assumptions),
            Part("The formal statement", _formal(said)),
            Part("How to check it", _verify(said, ledger)),
        )
        return replace(said, parts=parts)

    @property
    def private(self) -> bool:
        """Whether a finite epsilon is claimed."""
        return math.isfinite(self.epsilon)

    @property
    def headline(self) -> str:
        """The claim in one sentence."""
        if not self.private:
            return f"No privacy is claimed: epsilon is infinite, because {'; '.join(self.reasons)}."
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
            "reasons_not_private": list(self.reasons),
            "assumptions": [{"text": plain(line.text), "mark": str(line.mark)} for line in self.assumptions],
            "ledger_head": self.head,
            "headline": plain(self.headline),
            "parts": parts_as_json(self.parts),
        }

    def as_markdown(self) -> str:
        """A document of its own."""
        return (
            f"# The guarantee of run {in_markdown(self.run_id)}\n\n**{in_markdown(self.headline)}**\n\n"
            f"{parts_as_markdown(self.parts)}\n"
        )

    def as_html(self) -> str:
        """A fragment for a page: the headline, then parts under headings of the third level; everything escaped."""
        verdict = "claimed" if self.private else "not-claimed"
        return f'<p class="headline {verdict}">{escaped(self.headline)}</p>\n{parts_as_html(self.parts)}'


def _trust(said: Guarantee, ledger: Ledger, observed: Observed | None) -> tuple[Line, ...]:
    masked = fleet_of(ledger.opened) is not None and "secagg" in ledger.opened.data
    lines = [Line(text) for text in (_DISTRIBUTED if said.mechanism == DISCRETE else _MASKED if masked else _CENTRAL)]
    if "secagg" in ledger.opened.data and not masked and said.mechanism != DISCRETE:
        lines.append(
            Line(
                "Updates were turned into integers and summed as secure aggregation does it. A server that runs the protocol "
                "sees their sum alone; it still adds the noise, and is trusted to. Devices are trusted to clip their entries: "
                "one that sends larger integers can make the sum wrap, and others' shares are then no longer bounded."
            )
        )
    if said.mechanism in CORRELATED:
        lines.append(
            Line(
                "Whoever steals the private folder gets the state of the correlated noise and can take that noise off "
                "the releases: against them nothing is claimed."
            )
        )
    if said.private and said.sampling in SAMPLED:
        lines.append(Line(_stolen_record(said, ledger, observed)))
    elif said.private:
        lines.append(
            Line("Who takes part in which round is no secret the proof needs: it holds against those who know.")
        )
    if not (masked and said.mechanism == DISCRETE):  # where devices add the noise, there is nothing without it
        updates = "sums of updates" if masked else "updates"
        lines.append(
            Line(
                f"Whoever reads the memory of the process while it trains sees {updates} without noise and the key of the "
                "noise: against them nothing is claimed."
            )
        )
    return tuple(lines)


def _stolen_record(said: Guarantee, ledger: Ledger, observed: Observed | None) -> str:
    """Without the secrecy of the sample, k Gaussian releases about one user are left: rho = k Δ² / (2 z²)."""
    text = (
        f"Part of the protection comes from nobody knowing who was drawn. Whoever steals the participation record has that "
        f"knowledge, and against them the statement below does not hold: somebody who took part k times keeps rho = "
        f"{'k/(2z²)' if said.sampling == 'poisson' else '2k/z²'} with the noise multiplier z of a round"
    )
    noise = min((group.noise_multiplier for group in rounds_of(ledger.intents)), default=0.0)
    if observed is None or noise <= 0:
        return text + "."
    rho = observed.most_participations * (1 if said.sampling == "poisson" else 4) / (2 * noise**2)
    epsilon, data = epsilon_of_gaussian(rho, apart_from_tail(said.delta)), ledger.opened.data
    tail = tail_probability(int(data["coordinates"]), int(data["arrays"]), said.releases)
    if outweighs(tail, epsilon, said.delta):
        return f"{text}. Here that is more than any delta can make good: against them nothing is claimed."
    return (
        f"{text}. Here nobody took part more than {times(observed.most_participations)}, which makes rho {round_up(rho, 4)} "
        f"and epsilon {round_up(epsilon)} at the same delta."
    )


def _covered(said: Guarantee) -> tuple[Line, ...]:
    return (
        Line(
            f"Every time this run read the data of a {said.unit} it was training on: {_count(said.releases, 'release')}, "
            "rounds that were cut off or ran again among them."
        ),
        Line("All that follows from the releases alone: the models, their suggestions, attacks on them."),
    )


def _others(ledger: Ledger) -> Line:
    cost = "Other runs on the same users, those that tried out settings among them, cost on top."
    if fleet_of(ledger.opened) is None:
        return Line(cost)
    served = "Those served with the same --odometer are listed, and what all of them cost together is computed, by"
    return Line(f"{cost} {served}", code="tacit account odometer FOLDER")


def _not_covered(ledger: Ledger) -> tuple[Line, ...]:
    held_out = (
        "Accuracy and its baselines were measured on held-out users, who are not trained on. They are outside this statement."
        if "evaluates" not in ledger.opened.data
        else "The model that was measured was trained by another run, and what that cost is in the other run's statement."
    )
    lines = [Line(held_out)]
    if fleet_of(ledger.opened) is None:
        lines.append(
            Line(
                "Diagnostics such as update norms, the clipped share and the size of cohorts have no noise. They are written "
                "for the run's owner alone and steer nothing."
            )
        )
    lines.append(_others(ledger))
    if "vocabulary" in ledger.opened.data:
        source = ledger.opened.data["vocabulary"]
        lines.append(Line(f"The choice of the words the model knows ({source}) is no part of the mechanism."))
    if "pretraining" in ledger.opened.data:
        source = ledger.opened.data["pretraining"]["public"]
        lines.append(
            Line(
                f"Public data ({source}) was used for pre-training. It is not covered, and assumed to hold nothing of these "
                "users."
            )
        )
    if "audit" in ledger.opened.data:
        lines.append(Line(_canaries(ledger.opened.data["audit"])))
    return tuple(lines)


def _canaries(about: Mapping[str, Any]) -> str:
    """What planted phrases mean for the statement."""
    made_up = int(about["devices"]) + int(about["coin_users"])
    text = f"{int(about['canaries']):,} made-up phrases were planted for an audit"
    if not made_up:
        return (
            f"{text}, in place of some examples of some users. The statement holds for all users, with them or without."
        )
    way = (
        "were asked in the same way as people"
        if about["device_rate"] is None
        else f"were asked at a rate of their own, {about['device_rate']:g} a round, to which no epsilon stated here belongs"
    )
    return (
        f"{text}; {made_up:,} made-up users who hold them, or might have, {way}. They are nobody, and not who this is about: "
        "the statement holds for every real user, because whatever the others hold does not matter to it."
    )


def _released(said: Guarantee) -> tuple[Line, ...]:
    return (
        Line(
            "The noised sum of every round, so every model of every round and not the last one alone: each of them may be "
            "published, or be sent to those who take part."
        ),
        Line("The ledger, the recipe and the summary. Not released: the run's private folder."),
    )


def _unit(said: Guarantee) -> tuple[Line, ...]:
    neighbours = _NEIGHBOURS.get(said.adjacency, "this version of Tacit cannot say in what").format(unit=said.unit)
    return (
        Line(f"One {said.unit}: all the examples of it, however many, in all the rounds it takes part in."),
        Line(f"Neighbouring data sets ({said.adjacency}): {neighbours}."),
        Line(
            "For a person who is several users the protection is weaker; group privacy gives it.",
            code="tacit account group",
        ),
    )


def _accounting(said: Guarantee, ledger: Ledger) -> tuple[Line, ...]:
    if said.mechanism not in PROVEN_UNDER or said.sampling not in PROVEN_UNDER[said.mechanism]:
        return (Line("None: this version of Tacit does not know how the noise and the sampling of this run work."),)
    lines = [Line(f"{_NOISE[said.mechanism]}; {_law(said, ledger)}.")]
    if not said.private:
        return tuple(lines)
    lines.append(Line(f"Composed by {_ACCOUNTANTS.get(said.accountant, said.accountant)}."))
    if (
        said.sampling == "fixed"
        and (printed := _as_the_papers_print(said, ledger)) is not None
        and printed < said.epsilon
    ):
        lines.append(
            Line(
                f"Papers on fixed-size rounds would print ε = {printed:.2f} for this run. They use the noise over the clip S "
                "in a theorem about replacing one user, but replacing one user moves a sum by up to 2S. The bound stated "
                "here is the theorem's with 2S, and so larger."
            )
        )
    return tuple(lines)


def _law(said: Guarantee, ledger: Ledger) -> str:
    plan, law = ledger.opened.plan, ledger.intents[0].sampling if ledger.intents else {}
    if said.sampling == "poisson":
        chance = f" q = {law['probability']:.4g}" if "probability" in law else ""
        return f"each {said.unit} is drawn for each round independently, with the public probability{chance}"
    if said.sampling == "fixed":
        return f"each round draws exactly {plan.get('cohort', 0):,.0f} of {plan.get('population', 0):,} without replacement"
    gap, most = law.get("min_separation", "?"), law.get("max_participation", "?")
    return (
        "nobody is drawn, and nothing is gained by sampling: one user takes part again only after "
        f"{gap} rounds in between, and {times(most) if isinstance(most, int) else most} at most"
    )


def _as_the_papers_print(said: Guarantee, ledger: Ledger) -> float | None:
    """What the convention of Production and its kin gives, where all rounds are alike."""
    groups = rounds_of(ledger.intents)
    if len(groups) != 1:
        return None
    law = groups[0].sampling
    return without_replacement_epsilon(
        int(law["population"]), int(law["size"]), groups[0].noise_multiplier, groups[0].count, said.delta
    )


def _formal(said: Guarantee) -> tuple[Line, ...]:
    if not said.private:
        return (Line(f"None. Epsilon is infinite, because {'; '.join(said.reasons)}."),)
    lines = [
        Line(
            f"For any neighbouring D and D′ and any set O of outcomes, Pr[run(D) ∈ O] ≤ e^ε · Pr[run(D′) ∈ O] + δ, with "
            f"ε = {round_up(said.epsilon)} (rounded up) and δ = {said.delta:g}."
        )
    ]
    if said.rho is None:
        lines.append(Line("No ρ is stated: sampled users have no useful one (zero-concentrated privacy)."))
    else:
        lines.append(
            Line(f"The releases are ρ-zero-concentrated differentially private with ρ = {round_up(said.rho, 4)}.")
        )
    caught = min(
        math.exp(min(said.epsilon, 700.0)) * _FALSE_ALARMS + said.delta,
        1 - math.exp(-said.epsilon) * (1 - said.delta - _FALSE_ALARMS),
    )
    lines.append(
        Line(
            f"In other words: a test that is to tell D from D′ by everything that is released, and is wrong about D′ in "
            f"{_FALSE_ALARMS:.0%} of cases, is right about D in at most {round_up(100 * caught, 1)}% of cases."
        )
    )
    return tuple(lines)


def _verify(said: Guarantee, ledger: Ledger) -> tuple[Line, ...]:
    lines = [
        Line("Computed from the ledger alone; this computes it again:", code="tacit account run RUN"),
        Line("The ledger's last digest, which stands for all its records:", code=said.head),
        Line("With private/participation.bin, the owner can show that the recorded cohorts are those of the ledger."),
        Line(f"Made by Tacit {said.tacit_version}, whose source shows what is marked enforced."),
    ]
    if "recipe" in ledger.opened.data:
        lines.insert(2, Line("SHA-256 of recipe.toml, as the ledger has it:", code=str(ledger.opened.data["recipe"])))
    return tuple(lines)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
