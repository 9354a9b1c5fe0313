"""Why a run may claim no finite epsilon: an enum of reasons, and the sentence of each.

The code of a reason is a stable name, which the ledger's first record holds. Decisions look at codes. People read the sentence,
which is made from the code and a detail here and nowhere else. One reason is enough to make epsilon infinite, whatever
it is: a code that this version of Tacit does not know is a reason like any other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tacit.privacy.record.codec import Typed
from tacit.privacy.statement.wording import plain


class Why(StrEnum):
    """The codes. A code never changes its meaning; a retired one is not used again."""

    # What the settings and the data say.
    NO_NOISE = "no-noise"
    SEEDED = "seeded"
    COUNTED_VOCABULARY = "counted-vocabulary"
    MIXED_USERS = "mixed-users"
    # What was not built from the plan (`tacit.runs.provenance`).
    FOREIGN_PROGRAM = "foreign-program"
    FOREIGN_PLAN = "foreign-plan"
    FOREIGN_MECHANISM = "foreign-mechanism"
    FOREIGN_SAMPLER = "foreign-sampler"
    FOREIGN_ENGINE = "foreign-engine"
    FOREIGN_BATCHES = "foreign-batches"
    UNDESCRIBED_BATCHES = "undescribed-batches"
    FOREIGN_SECURE_SUM = "foreign-secure-sum"
    ENGINE_OF_OTHER_PLAN = "engine-of-other-plan"
    UNDESCRIBED_PLAN = "undescribed-plan"
    UNDESCRIBED_RELEASE = "undescribed-release"
    UNDESCRIBED_OUTSIDE = "undescribed-outside"
    FROM_OUTSIDE = "from-outside"
    NOT_LISTED = "not-listed"
    NOT_FRESH = "not-fresh"
    # What earlier steps did to users.
    CLASSIFIER_NOT_PRIVATE = "classifier-not-private"
    ACCURACIES_NOT_PRIVATE = "accuracies-not-private"
    # What the accounting finds in the ledger.
    UNREADABLE_PLAN = "unreadable-plan"
    UNPROVEN_RELEASES = "unproven-releases"
    UNPROVEN_MECHANISM = "unproven-mechanism"
    DEPARTS_FROM_PLAN = "departs-from-plan"
    BROKEN_PROMISE = "broken-promise"
    NOISE_TAIL = "noise-tail"
    NO_FINITE_BOUND = "no-finite-bound"
    NO_FINITE_COST = "no-finite-cost"
    WRONG_ACCOUNT = "wrong-account"
    # What several runs, or a figure without a run, cannot be added up or converted to.
    NOT_COMPARABLE = "not-comparable"
    UNKNOWN_COST = "unknown-cost"
    DELTA_TOO_LARGE = "delta-too-large"


_SENTENCES: dict[str, str] = {
    Why.NO_NOISE: "no noise is added",
    Why.SEEDED: "the noise can be replayed by anybody who knows the seed (run.seed)",
    Why.COUNTED_VOCABULARY: "the vocabulary was counted on the private users themselves",
    Why.MIXED_USERS: "users are synthetic (data.iid): the examples of one person are spread over many of them",
    Why.FOREIGN_PROGRAM: "the program is not one of Tacit's, so it is not known who takes part and what is summed",
    Why.FOREIGN_PLAN: "the plan is not one of Tacit's, so nothing is proven about what it builds",
    Why.FOREIGN_MECHANISM: "the mechanism is not the one that the plan builds",
    Why.FOREIGN_SAMPLER: "the sampler is not the one that the plan builds, so it is not known how it draws users",
    Why.FOREIGN_ENGINE: "the users' side of the gate is not Tacit's, so it is not known what it clips and sums",
    Why.FOREIGN_BATCHES: "the code that cuts users' examples into batches is not Tacit's, and may mix users",
    Why.UNDESCRIBED_BATCHES: "the ledger's first record does not name what cuts users' examples into batches",
    Why.FOREIGN_SECURE_SUM: "sums are not made as the plan's secure aggregation makes them",
    Why.ENGINE_OF_OTHER_PLAN: "the users' side of the gate clips and weighs by another plan",
    Why.UNDESCRIBED_PLAN: "the ledger's first record does not describe the plan that is followed",
    Why.UNDESCRIBED_RELEASE: "the ledger's first record does not describe how many numbers a release has",
    Why.UNDESCRIBED_OUTSIDE: "the ledger's first record does not describe what comes from outside Tacit",
    Why.FROM_OUTSIDE: "something that the run uses comes from outside Tacit, and is not what the ledger names",
    Why.NOT_LISTED: "the run is not entered into the odometer of the store that it reads",
    Why.NOT_FRESH: "the run starts with a state that is not the one before the first round",
    Why.CLASSIFIER_NOT_PRIVATE: "the classifier was trained on users without privacy",
    Why.ACCURACIES_NOT_PRIVATE: "users' accuracies were counted in a run that can claim no privacy",
    Why.UNREADABLE_PLAN: "the plan in the ledger is not one this version of Tacit can read",
    Why.UNPROVEN_RELEASES: "the releases in the ledger are not ones whose cost is proven",
    Why.UNPROVEN_MECHANISM: "nothing is proven here for the mechanism and the sampling in the ledger",
    Why.DEPARTS_FROM_PLAN: "the ledger departs from its own plan",
    Why.BROKEN_PROMISE: "users took part in another way than the plan promises",
    Why.NOISE_TAIL: "the proof does not cover draws of noise that are extremely far out",
    Why.NO_FINITE_BOUND: "the accountant found no finite bound",
    Why.NO_FINITE_COST: "its mechanism states no finite cost",
    Why.WRONG_ACCOUNT: "the cost was not computed for the releases in the ledger",
    Why.NOT_COMPARABLE: "the runs are stated for different units or neighbours",
    Why.UNKNOWN_COST: "what a run cost is not known",
    Why.DELTA_TOO_LARGE: "the group's delta reaches 1, where nothing is promised",
}
# Of these the detail is the whole sentence, where there is one.
_TOLD_BY_DETAIL = frozenset(
    {
        Why.FROM_OUTSIDE,
        Why.UNPROVEN_RELEASES,
        Why.UNPROVEN_MECHANISM,
        Why.DEPARTS_FROM_PLAN,
        Why.BROKEN_PROMISE,
        Why.NOISE_TAIL,
        Why.WRONG_ACCOUNT,
        Why.NOT_COMPARABLE,
        Why.UNKNOWN_COST,
    }
)
_UNKNOWN = "the ledger gives a reason that this version of Tacit does not know ({code})"


@dataclass(frozen=True)
class Reason(Typed):
    """One reason: its code, what is particular to this case, and the run it is about (empty: the run that states it)."""

    code: str
    detail: str = ""
    run: str = ""

    @property
    def sentence(self) -> str:
        """The reason in plain English, without a capital letter and a full stop."""
        text, detail = _SENTENCES.get(self.code) or _UNKNOWN.format(code=plain(self.code)), plain(self.detail)
        if detail:
            text = detail if self.code in _TOLD_BY_DETAIL else f"{text}: {detail}"
        return f"{text} (run {plain(self.run)})" if self.run else text

    def in_run(self, run_id: str) -> Reason:
        """The same reason, said of this run where several are added up."""
        return dataclasses.replace(self, run=run_id)


def distinct(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """The reasons in their order, each once."""
    return tuple(dict.fromkeys(reasons))


def in_words(reasons: Iterable[Reason]) -> str:
    """All sentences, one after another."""
    return "; ".join(each.sentence for each in reasons)


def reasons_as_json(reasons: Iterable[Reason]) -> dict[str, list[str]]:
    """What JSON for people and programs holds: the sentences, and the codes in the same order."""
    found = list(reasons)
    return {
        "reasons_not_private": [each.sentence for each in found],
        "reason_codes": [str(each.code) for each in found],
    }
