"""The guarantee in one paragraph, for readers who have never heard of differential privacy.

Each sentence is true as it stands: "changes by at most the factor e^ε, plus δ" is the definition, and the odds of a test follow
from it (`guarantee_parts.most_often_right`). It says what is protected, against whom, and what the promise is not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tacit.privacy.noise.kinds import kind_of
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.reasons import in_words
from tacit.privacy.statement.guarantee_parts import FALSE_ALARMS, most_often_right
from tacit.privacy.statement.wording import round_up

if TYPE_CHECKING:
    from tacit.privacy.statement.guarantee import Guarantee

# What the comparison is with, by the kind of neighbours.
_WITHOUT = {
    "add or remove one user": "with everything that this person wrote left out",
    "replace one user": "with everything that this person wrote replaced by anything else",
    "zero out one user": "with nothing taken from this person whenever their turn came",
}
_LARGEST_FACTOR = 1e6


def paragraph(said: Guarantee, ledger: Ledger) -> str:
    """What is promised, in plain words; or that nothing is, and why."""
    opened = ledger.opened
    outcome = "list of words" if opened.finds_words else "model"
    made = "was made from" if opened.finds_words else "was trained on"
    if not said.private:
        return (
            f"Nothing is promised about what this {outcome} gives away of the people whose text it {made}. No number can be "
            f"stated, because {in_words(said.reasons)}."
        )
    return (
        f"This {outcome} {made} what people wrote. Random noise was added on the way, which limits how much it can depend on "
        f"any one person. Compare it with the {outcome} that would have been made {_WITHOUT[said.adjacency]}: the probability "
        "of anything that somebody may conclude from what was published differs between the two by at most a factor of "
        f"{_factor(said.epsilon)}, plus {_small(said.delta)} (ε = {round_up(said.epsilon)}, δ = {said.delta:g}). Suppose, for "
        "example, that somebody tries to tell from it whether this person took part. If they wrongly say yes in "
        f"{_of_hundred(FALSE_ALARMS)} of 100 cases, they rightly say yes in at most "
        f"{_of_hundred(most_often_right(said.epsilon, said.delta))} of 100. This covers everything that the person contributed "
        f"to {said.rounds_in_words.split(';')[0]}. It does not hide what is true of many people together, and it does not "
        f"cover other uses of the same text. {_who_is_trusted(ledger)}, first of all that one person is one user."
    )


def _who_is_trusted(ledger: Ledger) -> str:
    opened = ledger.opened
    if kind_of(opened.mechanism).on_devices:
        devices = "people's own devices" if opened.fleet is not None else "simulated devices"
        return f"The noise was added by {devices}. The promise rests on assumptions that the full statement lists"
    did = "made the list" if opened.finds_words else "ran the training"
    return (
        f"Whoever {did} saw more than was published, and is trusted to have done it as recorded. The full statement lists this "
        "and every other assumption"
    )


def _factor(epsilon: float) -> str:
    """e^ε, rounded up."""
    value = math.exp(min(epsilon, 700.0))
    if value > _LARGEST_FACTOR:
        return "more than a million, which promises very little"
    decimals = 2 if value < 10 else 0
    rounded = math.ceil(value * 10**decimals) / 10**decimals
    return f"{rounded:,.{decimals}f}"


def _small(delta: float) -> str:
    """δ as one in so many, rounded so that the probability is never understated."""
    return f"one in {math.floor(1 / delta * (1 + 1e-12)):,}"


def _of_hundred(share: float) -> str:
    rounded = math.ceil(1000 * share * (1 - 1e-12)) / 10
    return f"{rounded:.0f}" if rounded.is_integer() else f"{rounded:.1f}"
