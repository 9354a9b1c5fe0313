"""How often one user takes part, and how far apart: the two promises correlated noise rests on (Gboard, section 2.2)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gap:
    """The smallest distance between two participations of one user, which the literature counts in two ways.

    Gboard and TF-Privacy count the rounds strictly between (`rounds_between`, their MinS); jax-privacy and the papers
    on banded matrices count the difference of round numbers (`index_difference`), which is one more. A user in rounds 3
    and 7 has three rounds between, and an index difference of four. Nothing else in Tacit adds or subtracts that one.
    """

    rounds_between: int

    def __post_init__(self) -> None:
        if self.rounds_between < 0:
            raise ValueError(f"Expected at least 0 rounds between two participations, got {self.rounds_between}.")

    @classmethod
    def of_index_difference(cls, difference: int) -> Gap:
        """The gap of users whose participations are `difference` round numbers apart or more."""
        return cls(difference - 1)

    @property
    def index_difference(self) -> int:
        """The smallest difference of the round numbers of two participations."""
        return self.rounds_between + 1


def most_participations(rounds: int, gap: Gap, max_participation: int) -> int:
    """How often a user can take part in so many rounds: MaxP, or fewer where the gap leaves no room for it."""
    return min(max_participation, -(-rounds // gap.index_difference))
