"""Who is trusted with what in a guarantee, and against whom nothing is claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.privacy.accounting.cost import Cost
from tacit.privacy.accounting.cyclic import squared_norms
from tacit.privacy.accounting.discovered_words import with_vocabulary
from tacit.privacy.accounting.releases import branches_of, rounds_of
from tacit.privacy.noise.kinds import kind_of
from tacit.privacy.noise.strategies.base import numbers
from tacit.privacy.noise.tail import apart_from_tail, tail_objection, tail_probability
from tacit.privacy.outside import is_path
from tacit.privacy.participation.cyclic import CYCLIC
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.statement.assumptions import SAMPLED, Observed
from tacit.privacy.statement.wording import Line, round_up, times

if TYPE_CHECKING:
    from tacit.privacy.statement.guarantee import Guarantee

_CENTRAL = (
    "This is central differential privacy: whoever runs the training sees each user's update and adds the noise. That party "
    "is trusted to run this code and to keep the run's private folder secret.",
)
_CENTRAL_WORDS = (
    "This is central differential privacy: whoever runs the discovery reads each user's words and adds the noise. That party "
    "is trusted to run this code and to keep the run's private folder secret.",
)
_MASKED = (
    "This is central differential privacy with secure aggregation: the server sees the sum of a round's updates and no single "
    "update, and it adds the noise. The server is trusted to run this code and to keep the sums and the run's private folder "
    "secret. Devices are trusted to clip their entries: a device that sends larger integers can make the sum wrap around, and "
    "then the share of every other user is no longer bounded.",
)
_DISTRIBUTED = (
    "This is distributed differential privacy: each device adds a share of the noise before anything leaves the device, and "
    "secure aggregation shows the server only the sum. Nobody has to trust the server to add noise or to keep it secret: the "
    "statement holds against the server too, if the server follows the protocol, or if the round's parameters force the "
    "server to include the smallest allowed number of devices (see secure aggregation in Tacit's documentation).",
    "What is trusted instead is the secure aggregation, and that no more than the stated share of a round's devices is "
    "corrupt. A simulated run holds all devices in one process, whose owner is trusted to run this code.",
)
_SECRET_SAMPLE = (
    "Part of the protection may come from the secrecy of the sample. Nothing is claimed against somebody who steals the "
    "participation record and knows who was drawn."
)
_BOUNDED_OUTSIDE = (
    "The adversary is computationally bounded. How well the noise hides what it should is up to the mechanism's author."
)
_BOUNDED = (
    "The adversary is computationally bounded. The noise comes from a cipher with a 256-bit key; an adversary who cannot break "
    "the cipher cannot tell the noise from true randomness."
)


def trust(said: Guarantee, ledger: Ledger, observed: Observed | None) -> tuple[Line, ...]:
    """Who is trusted with what, and against whom nothing is claimed."""
    secure, kind = ledger.opened.secure_sum is not None, kind_of(said.mechanism)
    masked, words = secure and ledger.opened.fleet is not None, ledger.opened.discovery is not None
    central = _CENTRAL_WORDS if words else _CENTRAL
    lines = [Line(text) for text in (_DISTRIBUTED if kind.on_devices else _MASKED if masked else central)]
    if secure and not masked and not kind.on_devices:
        lines.append(
            Line(
                "Updates were turned into integers and summed as secure aggregation sums them. A server that runs the protocol "
                "sees only their sum; it still adds the noise and is trusted to do so. Devices are trusted to clip their "
                "entries: a device that sends larger integers can make the sum wrap around, and then the share of every other "
                "user is no longer bounded."
            )
        )
    if kind.correlated:
        lines.append(
            Line(
                "Whoever steals the private folder gets the state of the correlated noise and can subtract that noise from "
                "the releases. Nothing is claimed against such a thief."
            )
        )
    outside = is_path(said.mechanism)
    if said.private and said.sampling in SAMPLED and not ledger.opened.reads_everybody:
        lines.append(Line(_SECRET_SAMPLE if outside else _stolen_record(said, ledger, observed)))
    elif said.private and not outside:
        lines.append(Line("The proof also holds against an adversary who knows who takes part in which round."))
    if not (masked and kind.on_devices):  # where devices add the noise, the server holds nothing without it
        sees = "words of users and totals" if words else "sums of updates" if masked else "updates"
        does = "runs" if ledger.opened.finds_words else "trains"
        lines.append(
            Line(
                f"Whoever reads the memory of the process while it {does} sees {sees} without noise "
                "and the key of the noise. Nothing is claimed against such an adversary."
            )
        )
    if said.private:
        lines.append(Line(_BOUNDED_OUTSIDE if outside else _BOUNDED))
    return tuple(lines)


def _stolen_record(said: Guarantee, ledger: Ledger, observed: Observed | None) -> str:
    """Without the secrecy of the sample, k Gaussian releases about one user are left: rho = k Δ² / (2 z²).

    The discovery of the run's words, if there was one, comes on top.
    """
    found, words = ledger.opened.vocabulary, ""
    if found is not None:
        words = ", to which the discovery of the words adds its own"
    text = (
        "Part of the protection comes from the secrecy of the sample. Whoever steals the participation record knows who was "
        "drawn, and against them the statement below does not hold: a user who took part k times then has rho = "
        f"{_STOLEN_RHO[said.sampling]}{words}"
    )
    noise = min((group.noise_multiplier for group in rounds_of(ledger.intents)), default=0.0)
    if observed is None or noise <= 0:
        return text + "."
    rho = observed.most_participations * _known_sensitivity_squared(said, ledger) / (2 * noise**2)
    alone = with_vocabulary(Cost.of_rho(rho, gaussian=True), found, said.adjacency)
    epsilon, size = alone.epsilon(apart_from_tail(said.delta))[0], ledger.opened.release
    tail = tail_probability(size.coordinates, size.arrays, said.releases)
    if tail_objection(tail, epsilon, said.delta):
        return f"{text}. In this run that is too much for any statement: nothing is claimed against them."
    return (
        f"{text}. In this run nobody took part more than {times(observed.most_participations)}, which makes "
        f"{f'rho {round_up(rho, 4)} and ' if found is None else ''}epsilon {round_up(epsilon)} at the same delta"
        f"{'' if found is None else ', the words included'}."
    )


_STOLEN_RHO = {
    "poisson": "k/(2z²) with the noise multiplier z of a round",
    "fixed": "2k/z² with the noise multiplier z of a round",
    CYCLIC: "k s²/(2z²) with the noise multiplier z of a round and the norm s of the rows in which one round appears",
}


def _known_sensitivity_squared(said: Guarantee, ledger: Ledger) -> float:
    """Δ² of one participation for whoever knows that it happened, in units of the clip."""
    if said.sampling == CYCLIC:
        coefficients = numbers(ledger.opened.strategy, "coefficients")
        return max(squared_norms(ledger.intents, branches_of(ledger.intents), coefficients), default=1.0)
    return 1.0 if said.sampling == "poisson" else 4.0
