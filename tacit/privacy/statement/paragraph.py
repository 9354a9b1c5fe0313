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
from tacit.privacy.record.records import Opened
from tacit.privacy.statement.guarantee_parts import FALSE_ALARMS, most_often_right
from tacit.privacy.statement.wording import round_up

if TYPE_CHECKING:
    from tacit.privacy.statement.guarantee import Guarantee

# What the comparison is with, and what somebody may try to tell, by the kind of neighbours.
_WITHOUT = {
    "add or remove one user": "with {everything} left out",
    "replace one user": "with {everything} replaced by anything else",
    "zero out one user": "with nothing taken from this person whenever their turn came",
}
_TOOK_PART = "whether this person took part"
_TELL = {"replace one user": "whether {everything} was used, or something else in its place"}
_LARGEST_FACTOR = 1e6


def paragraph(said: Guarantee, ledger: Ledger) -> str:
    """What is promised, in plain words; or that nothing is, and why."""
    outcome, source, everything = _in_words(ledger.opened)
    if not said.private:
        return (
            f"This {outcome} {source}. Nothing is promised about what it gives away of any of them. No number can be stated, "
            f"because {in_words(said.reasons)}."
        )
    without = _WITHOUT[said.adjacency].format(everything=everything)
    tell = _TELL.get(said.adjacency, _TOOK_PART).format(everything=everything)
    return (
        f"This {outcome} {source}. Random noise was added on the way, which limits how much it can depend on "
        f"any one person. Compare it with the {outcome} that would have been made {without}: the probability "
        "of anything that somebody may conclude from it differs between the two by at most a factor of "
        f"{_factor(said.epsilon)}, plus {_small(said.delta)} (ε = {round_up(said.epsilon)}, δ = {said.delta:g}). Suppose, for "
        f"example, that somebody tries to tell from it {tell}. If they wrongly say yes in "
        f"{_of_hundred(FALSE_ALARMS)} of 100 cases, they rightly say yes in at most "
        f"{_of_hundred(most_often_right(said.epsilon, said.delta))} of 100. This covers everything that the person contributed "
        f"to {said.rounds_in_words.split(';')[0]}. It does not hide what is true of many people together, and it does not "
        f"cover other uses of the same data. {_who_is_trusted(ledger)}, first of all that one person is one user."
    )


def _in_words(opened: Opened) -> tuple[str, str, str]:
    """What the outcome is, what it was made from, and what one person's whole part in that is."""
    data = opened.data
    on_devices = opened.fleet is not None  # which hold text; `data` is then what the server has
    is_text = on_devices or opened.finds_words or data.vocabulary is not None or data.world == "keyboard"
    people = "made-up people" if data.world is not None and not on_devices else "people"
    source = f"what {people} wrote" if is_text else f"data of {people}"
    everything = "everything that this person wrote" if is_text else "all the data of this person"
    if opened.finds_words:
        return "list of words", f"was made from {source}", everything
    if opened.evaluates is not None:
        return "measurement of a model", f"was made from {source}", everything
    return "model", f"was trained on {source}", everything


def _who_is_trusted(ledger: Ledger) -> str:
    opened = ledger.opened
    if kind_of(opened.mechanism).on_devices:
        devices = "people's own devices" if opened.fleet is not None else "simulated devices"
        return f"The noise was added by {devices}. The promise rests on assumptions that the full statement lists"
    did = (
        "made the list" if opened.finds_words else "measured it" if opened.evaluates is not None else "ran the training"
    )
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
