"""The parts of a guarantee, sentence by sentence. `tacit.privacy.statement.guarantee` puts them together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.privacy.accounting.conventions import without_replacement_epsilon
from tacit.privacy.accounting.releases import rounds_of
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.noise.kinds import kind_of
from tacit.privacy.outside import is_path
from tacit.privacy.participation.cyclic import CYCLIC
from tacit.privacy.record.facts import DiscoveryRecord, LettersRecord, PlantedCanaries, VocabularyRecord
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.planned import charged_for
from tacit.privacy.record.reasons import in_words
from tacit.privacy.record.records import Opened
from tacit.privacy.statement.assumptions import SAMPLED
from tacit.privacy.statement.wording import Line, plain, round_up, times

if TYPE_CHECKING:
    from tacit.privacy.statement.guarantee import Guarantee

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
# The share of false alarms at which the power of a test is told.
FALSE_ALARMS = 0.01
_MODELS = (
    "The outcome is the noised sum of every round, and therefore the model of every round and not only the last one: each of "
    "them may be published or sent to those who take part."
)
_WORD_TOTALS = (
    "The outcome is a noised total for every word of the public list, and for those other words whose noised total reaches the "
    "threshold. The vocabulary is computed from these totals alone."
)
_LETTER_TOTALS = (
    "The outcome is the noised totals of every round, one for each extension of each prefix that was asked for, whether "
    "anybody has it or not. The prefixes that live on and the words that were found are computed from these totals alone."
)
_CHARGED_AS_PLANNED = (
    "A run that ends early is charged for all planned rounds, so the decision to end it may depend on what was released. "
    "Rounds that are added to the ledger without an extension make epsilon infinite."
)
_CHARGED_AS_EXTENDED = (
    "The run was extended. The decision to add rounds may depend on what was released: all rounds are charged by a bound that "
    "holds for rounds that are chosen in that way (a Rényi odometer)."
)
_QUERIES = (
    "Nobody can ask these data questions of their own: the recipe says what each round computes. What one round released may "
    "decide what the next one computes, which the proof allows. Any other question is another run."
)


@dataclass(frozen=True)
class ListedRuns:
    """The list of runs on the same users, as far as the reader can see it: how many others there are, and its folder.

    `budget` is a sentence on what all of them may spend together, if that is limited.
    """

    others: int
    folder: str
    budget: str | None = None


def covered(said: Guarantee, ledger: Ledger) -> tuple[Line, ...]:
    """What the statement is about, and who may ask the data what."""
    return (*_covered(said, ledger), Line(_QUERIES))


def _covered(said: Guarantee, ledger: Ledger) -> tuple[Line, ...]:
    if ledger.opened.discovery is not None:
        return (
            Line(
                f"Every time this run reads the words of a {said.unit}, in {said.rounds_in_words}. A discovery that was cut "
                "off counts like one that finished."
            ),
            Line("Everything that is computed from the noised totals alone: the vocabulary, and what is chosen by it."),
        )
    if ledger.opened.letters is not None:
        return (
            Line(
                f"Every time this run reads the words of a {said.unit}, in {said.rounds_in_words}. Rounds that were cut off "
                "count as releases too, and a run that ends early is charged for all planned rounds."
            ),
            Line("Everything that is computed from the noised totals alone: the prefixes, the words, the vocabulary."),
        )
    vocabulary = ledger.opened.vocabulary
    found = () if vocabulary is None else (Line(_words_found(vocabulary)),)
    return (
        *found,
        Line(
            f"Every time this run reads the data of a {said.unit} whom it trains on, in {said.rounds_in_words}. Rounds that "
            "were cut off count as releases too."
        ),
        Line(_CHARGED_AS_EXTENDED if ledger.opened.extended_from else _CHARGED_AS_PLANNED),
        Line("Everything that is computed from the releases alone: the models, their suggestions, attacks on them."),
    )


def _words_found(found: VocabularyRecord) -> str:
    if found.threshold_delta == 0:
        return (
            f"The choice of the words that the model knows, by the run {plain(found.run)}, which read the same users. It found "
            f"them letter by letter, with noise of the multiplier {found.noise_multiplier:.4g} in each of "
            f"{found.releases:,} releases. What that cost is part of epsilon."
        )
    return (
        f"The choice of the words that the model knows, by the run {plain(found.run)}, which read the same users. It added "
        f"noise with the multiplier {found.noise_multiplier:.4g} to how much each word is used, {times(found.releases)}, and "
        f"shows a word that only one user has with a probability of at most {found.threshold_delta:.3g}. What that cost is "
        "part of epsilon and delta."
    )


def not_covered(ledger: Ledger, listed: ListedRuns | None) -> tuple[Line, ...]:
    """What the statement says nothing about."""
    opened = ledger.opened
    if opened.discovery is not None:
        return (Line("Held-out users, whom the run does not read."), _other_runs(ledger, listed))
    if opened.letters is not None:
        aside = [Line("Held-out users, whom the run does not read.")] if opened.data.store is not None else []
        return (*aside, *_diagnostics(opened), _other_runs(ledger, listed), *_made_up_contributions(opened))
    held_out = (
        "Accuracy and its baselines were measured on held-out users. The run does not train on them, and this statement does "
        "not cover them."
        if opened.evaluates is None
        else "The model that was measured was trained by another run. What that training cost is in the other run's statement."
    )
    lines = [Line(held_out), *_diagnostics(opened)]
    lines.append(_other_runs(ledger, listed))
    if opened.data.vocabulary is not None and opened.vocabulary is None:
        lines.append(
            Line(
                f"The choice of the words that the model knows ({opened.data.vocabulary}) is not part of the mechanism."
            )
        )
    if opened.pretraining is not None:
        lines.append(
            Line(
                f"Public data ({opened.pretraining.public}) was used for pre-training. It is not covered, and is assumed "
                "to hold nothing of these users."
            )
        )
    if opened.planted is not None:
        lines.append(Line(_canaries(opened.planted)))
    return (*lines, *_made_up_contributions(opened))


def _diagnostics(opened: Opened) -> list[Line]:
    """What a simulation writes for its owner alone."""
    if opened.fleet is not None:
        return []
    text = (
        "Diagnostics such as update norms, the clipped share and the sizes of cohorts have no noise. They are written to the "
        "private folder, for the run's owner alone, and training does not use them."
    )
    return [Line(text)]


def _made_up_contributions(opened: Opened) -> list[Line]:
    """What passed the gate to audit it."""
    if opened.gate_audit is None:
        return []
    text = (
        f"In some or all rounds up to {opened.gate_audit.canaries} made-up contributions passed the gate to audit it, and were "
        "subtracted from the release again. They do not depend on users, so the statement is the same with and without them."
    )
    return [Line(text)]


def _other_runs(ledger: Ledger, listed: ListedRuns | None) -> Line:
    """The odometer: which other runs read these users, and who can say what all of them cost."""
    cost = "Other runs on the same users, tuning runs included, cost more in addition."
    total = "The total is computed by"
    if listed is not None:
        runs = (
            "1 other run on these users is"
            if listed.others == 1
            else f"{listed.others:,} other runs on these users are"
        )
        budget = "" if listed.budget is None else f"{listed.budget} "
        return Line(f"{cost} {runs} listed. {budget}{total}", code=f"tacit account odometer {listed.folder}")
    if ledger.opened.fleet is not None:
        keeps = "The operator of the server has a list of every run that was served with the same --odometer."
        return Line(f"{cost} {keeps} {total}", code="tacit account odometer FOLDER")
    if ledger.opened.data.store is not None:
        keeps = "Whoever holds the store of these users has a list of every run on them."
        return Line(f"{cost} {keeps} {total}", code="tacit account odometer STORE")
    if ledger.opened.data.world is None:
        return Line(f"{cost} Tacit keeps no list of them, because these users are not in a store.")
    return Line(f"{cost} No list of them is kept, because the users of a generated world are not people.")


def _canaries(planted: PlantedCanaries) -> str:
    """What planted phrases mean for the statement."""
    made_up = planted.made_up_users
    text = f"{planted.canaries:,} made-up phrases were planted for an audit"
    if not made_up:
        return (
            f"{text}, in place of some examples of some users. The statement holds for all users, those with planted phrases "
            "included."
        )
    way = (
        "took part in the same way as people"
        if planted.device_rate is None
        else f"took part at a rate of their own, {planted.device_rate:g} a round, and no epsilon stated here applies to them"
    )
    return (
        f"{text}. {made_up:,} made-up users, who hold such phrases or could have held them, {way}. They are not people, and "
        "the statement is not about them. It holds for every real user, because it does not depend on what other users hold."
    )


def what_is_released(ledger: Ledger, released: Sequence[str]) -> tuple[Line, ...]:
    """The outcome that the statement speaks of."""
    opened = ledger.opened
    lines = [Line(_LETTER_TOTALS if opened.letters is not None else _WORD_TOTALS if opened.finds_words else _MODELS)]
    if ledger.opened.vocabulary is not None:
        lines.append(
            Line(
                "The words of the model are part of the outcome, and so is everything that the run that found them released."
            )
        )
    if released:
        lines.append(Line("It lies in these files of the run, all of which may be published:"))
        lines += [Line(each) for each in released]
    lines.append(Line("The private/ folder of the run is not released, and this statement does not cover it."))
    return tuple(lines)


def unit(said: Guarantee) -> tuple[Line, ...]:
    """Who is protected, and what neighbouring data sets are."""
    neighbours = _NEIGHBOURS.get(said.adjacency, "this version of Tacit does not know how they differ")
    return (
        Line(f"One {said.unit}: all their examples, however many, in all the rounds in which they take part."),
        Line(f"Neighbouring data sets ({said.adjacency}): {neighbours.format(unit=said.unit)}."),
        Line(
            "A person who is several users is protected less. How much less is computed by", code="tacit account group"
        ),
    )


def accounting(said: Guarantee, ledger: Ledger, happened: Spent | None) -> tuple[Line, ...]:
    """How epsilon was computed, and from which participation."""
    kind = kind_of(said.mechanism)
    if not kind.known or said.sampling not in kind.proven_under:
        return (Line("None: this version of Tacit does not know how the noise and the sampling of this run work."),)
    lines = [Line(f"{kind.noise}; {_law(said, ledger)}.")]
    if not said.private:
        return tuple(lines)
    lines.append(Line(f"Composed by {_ACCOUNTANTS.get(said.accountant, said.accountant)}."))
    if ledger.opened.discovery is not None:
        lines.append(Line(f"Epsilon is that of {said.rounds_in_words}."))
        lines.append(Line(_threshold_in_words(ledger.opened.discovery, said)))
    else:
        lines.append(Line(f"Epsilon is that of {said.rounds_in_words}. It was computed from {said.computed_from}."))
    if ledger.opened.letters is not None:
        lines.append(Line(_shown_in_words(ledger.opened.letters, said, masked=ledger.opened.secure_sum is not None)))
    if happened is not None:
        lines.append(Line(f"{what_happened(happened)}."))
    if (
        said.sampling == "fixed"
        and not is_path(said.mechanism)
        and (printed := _as_the_papers_print(said, ledger)) is not None
        and printed < said.epsilon
    ):
        lines.append(
            Line(
                f"Papers on fixed-size rounds would print ε = {printed:.2f} for this run. They divide the noise by the clip S "
                "in a theorem about replacing one user, but replacing one user moves a sum by up to 2S. Tacit uses a bound "
                "that is proven with 2S, and so states a larger number."
            )
        )
    return tuple(lines)


def _threshold_in_words(record: DiscoveryRecord, said: Guarantee) -> str:
    return (
        f"At most {record.words_per_user:,} words of a {said.unit} count, each with a share of at most "
        f"{record.largest_share:g}. A word that is on no public list and that only one {said.unit} has is shown with a "
        f"probability of at most {record.threshold_delta:.3g} in each release. That is part of delta."
    )


def _shown_in_words(record: LettersRecord, said: Guarantee, *, masked: bool) -> str:
    drawn = " It assumes that the server draws the random signs of secure aggregation as it should." if masked else ""
    return (
        f"A prefix or a word is shown if its noised total reaches {record.threshold:.4g}. One that only one {said.unit} has is "
        f"shown with a probability of at most {record.shown_delta:.3g}, in all rounds together. That promise is not part of "
        f"delta.{drawn}"
    )


def what_happened(happened: Spent) -> str:
    """The owner's second figure, named so that nobody takes it for the headline."""
    if math.isinf(happened.epsilon):
        return f"From {happened.computed_from}: no finite ε, because {in_words(happened.reasons_not_private)} (for the owner)"
    rho = "" if happened.rho is None else f", ρ = {round_up(happened.rho, 4)}"
    return f"From {happened.computed_from}: ε = {round_up(happened.epsilon)}{rho} (for the owner)"


def _law(said: Guarantee, ledger: Ledger) -> str:
    plan, law = ledger.opened.plan, ledger.intents[0].sampling if ledger.intents else {}
    if ledger.opened.discovery is not None:
        return f"every {said.unit} takes part"
    if said.sampling == "poisson":
        chance = f" q = {law['probability']:.4g}" if "probability" in law else ""
        return f"each {said.unit} is drawn for each round independently, with the public probability{chance}"
    if said.sampling == CYCLIC:
        groups, turns = int(plan["bands"]), -(-said.rounds_planned // int(plan["bands"]))
        chance = f" {law['probability']:.4g}" if "probability" in law else ""
        return (
            f"each {said.unit} belongs to one of {groups:,} groups that take turns, so a group has {turns:,} of the "
            f"planned rounds at most; a round draws each {said.unit} of its group independently, with the public "
            f"probability{chance}"
        )
    if said.sampling == "fixed":
        return f"each round draws exactly {plan.get('cohort', 0):,.0f} of {plan.get('population', 0):,} without replacement"
    gap, most = law.get("min_separation", "?"), law.get("max_participation", "?")
    return (
        f"users are not sampled, so sampling does not reduce epsilon; a {said.unit} takes part "
        f"{times(most) if isinstance(most, int) else most} at most, with at least {gap} rounds between two participations"
    )


def _as_the_papers_print(said: Guarantee, ledger: Ledger) -> float | None:
    """What the convention of Production and its kin gives, where all rounds are alike."""
    groups = rounds_of(charged_for(ledger.opened, ledger.intents, start=ledger.next_round).releases)
    if len(groups) != 1:
        return None
    law = groups[0].sampling
    return without_replacement_epsilon(
        int(law["population"]), int(law["size"]), groups[0].noise_multiplier, groups[0].count, said.delta
    )


def _why_no_rho(said: Guarantee, ledger: Ledger) -> str:
    vocabulary = ledger.opened.vocabulary
    if ledger.opened.discovery is not None or (vocabulary is not None and vocabulary.threshold_delta > 0):
        return "because a threshold shows what one user alone has with a small probability, which ρ does not allow"
    if said.sampling in SAMPLED:
        return "because zero-concentrated privacy gives no useful bound for sampled users"
    return "because the author of the mechanism states epsilon alone"


def formal(said: Guarantee, ledger: Ledger) -> tuple[Line, ...]:
    """The inequality, and what it means for a test."""
    if not said.private:
        return (Line(f"None. Epsilon is infinite, because {in_words(said.reasons)}."),)
    lines = [
        Line(
            f"For any neighbouring D and D′ and any set O of outcomes, Pr[run(D) ∈ O] ≤ e^ε · Pr[run(D′) ∈ O] + δ, with "
            f"ε = {round_up(said.epsilon)} (rounded up) and δ = {said.delta:g}. An outcome run(D) is everything that is "
            "listed below under “What is released”, of all rounds together."
        )
    ]
    if said.rho is None:
        lines.append(Line(f"No ρ is stated, {_why_no_rho(said, ledger)}."))
    else:
        lines.append(
            Line(f"The releases are ρ-zero-concentrated differentially private with ρ = {round_up(said.rho, 4)}.")
        )
    caught = most_often_right(said.epsilon, said.delta)
    lines.append(
        Line(
            f"In other words: take any test that sees everything that is released and decides between D and D′. If it is wrong "
            f"about D′ in {FALSE_ALARMS:.0%} of cases, it is right about D in at most {round_up(100 * caught, 1)}% of cases."
        )
    )
    return tuple(lines)


def most_often_right(epsilon: float, delta: float) -> float:
    """How often a test between neighbours that is wrong about D′ in `FALSE_ALARMS` of cases can be right about D.

    Both bounds follow from the inequality, one for the test's set of outcomes and one for all others.
    """
    return min(
        math.exp(min(epsilon, 700.0)) * FALSE_ALARMS + delta,
        1 - math.exp(-epsilon) * (1 - delta - FALSE_ALARMS),
    )


def how_to_check(said: Guarantee, ledger: Ledger) -> tuple[Line, ...]:
    """What a reader can compute or compare."""
    return (
        Line("Epsilon is computed from the ledger alone. To compute it again:", code="tacit account run RUN"),
        Line(
            "Without Tacit, the file verifier/tacit_verify.py computes it again from the run's certificate, where it knows the "
            "mechanism. To make the certificate:",
            code="tacit certify RUN",
        ),
        Line("The ledger's last digest, which stands for all its records:", code=said.head),
        Line("SHA-256 of recipe.toml, as the ledger has it:", code=ledger.opened.recipe),
        Line("With private/participation.bin the owner can show that the recorded cohorts are those of the ledger."),
        Line(
            f"The run was made by Tacit {said.tacit_version}. Its source code shows how it enforces what is marked as enforced."
        ),
    )
