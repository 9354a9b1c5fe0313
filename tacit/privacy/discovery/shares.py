"""What one user contributes to the discovery of words: a share for each of their words, with a bounded L2 norm.

A user with the word counts c has the shares √c / ‖√c‖₂, over at most `words_per_user` of their words and none above
`largest_share`. So the squares of the shares add up to at most 1, however much the user wrote. The square root makes a
word's total grow with how often it is used without letting the most frequent words take up the whole bound.

Shares are whole numbers of `UNIT`, rounded down. Their sums are exact, so the bound of 1 on a user's share needs no room
for rounding.

**Which words of a user count** depends on that user alone: their most frequent ones, and among equals those that come first
in the alphabet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tacit.errors import PrivacyError

# Shares are multiples of this.
UNIT = 2.0**-30


@dataclass(frozen=True)
class SharesRule:
    """How a user's word counts become shares; public constants.

    `words_per_user`: how many words of a user count at most. `largest_share`: no share is above this. Both limit how likely it
    is that a word of one user alone is found (`threshold`).

    >>> SharesRule(words_per_user=100, largest_share=0.5).shares({"hello": 1, "world": 1})
    {'hello': 536870912, 'world': 536870912}
    """

    words_per_user: int = 1000
    largest_share: float = 0.5

    def __post_init__(self) -> None:
        if self.words_per_user < 1:
            raise PrivacyError(f"Expected words_per_user of at least 1, got {self.words_per_user}.")
        if not 0 < self.largest_share <= 1:
            raise PrivacyError(f"Expected largest_share above 0 and at most 1, got {self.largest_share:g}.")

    def shares(self, counts: Mapping[str, int]) -> dict[str, int]:
        """The shares of one user, as whole numbers of `UNIT`; a word whose share is below one unit has none."""
        kept = sorted(
            ((word, count) for word, count in counts.items() if count > 0), key=lambda each: (-each[1], each[0])
        )
        kept = kept[: self.words_per_user]
        norm = math.sqrt(sum(count for _, count in kept))
        found = {}
        for word, count in kept:
            # 2⁻⁴⁰ makes up for the error of two square roots and a division, each below 2⁻⁵² of the result.
            share = min(math.sqrt(count) / norm * (1 - 2.0**-40), self.largest_share)
            if (units := math.floor(share / UNIT)) > 0:
                found[word] = units
        return found
