"""Noise on the totals of words, in a run that discovers words (`tacit.privacy.discovery`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tacit.errors import PrivacyError
from tacit.privacy.accounting.cost import Cost
from tacit.privacy.accounting.discovered_words import discovery_rho
from tacit.privacy.accounting.releases import Releases
from tacit.privacy.noise.kinds.base import SYSTEM_ENTROPY, MechanismKind
from tacit.privacy.noise.kinds.gaussian import IDEAL
from tacit.privacy.record.records import Intent, Opened

if TYPE_CHECKING:
    from tacit.privacy.noise.mechanisms import Mechanism
    from tacit.privacy.noise.strategies import Strategy
    from tacit.privacy.plan import PrivacyPlan


WORDS = "words"


class WordsKind(MechanismKind):
    """Gaussian noise on how much each word is used, and a threshold for words that no public list has.

    Everybody takes part: each user is drawn with probability 1.
    """

    name = WORDS
    noise = "Gaussian noise on the totals of words, and a threshold for words that are not on the public list"
    proven_under = ("poisson",)
    trains = False
    gaussian_noise = False  # how many totals there are is secret, so the gate-level audit has nothing to compare

    def build(self, plan: PrivacyPlan, rounds: int, strategy: Strategy | None) -> Mechanism:
        raise PrivacyError("The mechanism 'words' discovers words, and trains no model.")

    def cost(self, releases: Releases) -> Cost:
        """The ρ of the noise, and the delta of the threshold, for every attempt. The noise is exact: no tail is charged."""
        record, rounds = releases.opened.discovery, releases.rounds
        if record is None:
            return Cost.unknown("the ledger does not say how words were discovered")
        if any(group.sampling["probability"] != 1 for group in rounds):
            return Cost.unknown("words were discovered on some of the users, and the proof is about all of them")
        count = len(releases.all)
        rho = discovery_rho(releases.noise_multiplier, count, releases.adjacency)
        found = Cost.of_rho(rho, gaussian=True, draws=0, threshold_delta=min(1.0, count * record.threshold_delta))
        return found if count else Cost.of_rho(0.0, gaussian=True, draws=0)

    def enforced(self) -> tuple[str, ...]:
        return (
            SYSTEM_ENTROPY + "no two discoveries share a draw",
            IDEAL.partition(";")[0],
            "the squares of one user's shares add up to at most 1: shares are whole numbers of 2⁻³⁰, rounded down, and their "
            "sums are exact",
        )

    def least_rho(self, opened: Opened, intents: Sequence[Intent]) -> float:
        return 0.0
