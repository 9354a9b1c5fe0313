"""Users' words as rows of letters, for a discovery of words letter by letter (`tacit.learning.prefix_tree`).

A row is a word, laid out as a sentence of letters: the letter at place i of the alphabet has the number FIRST_WORD + i. Each
word counts once, however often a user wrote it. **Which words of a user count** depends on that user alone and on public
constants: words of the alphabet's letters, not too long, that are not known already; of these the most frequent, and among
equals those that come first in the alphabet's order of code points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import offsets_of
from tacit.data.text import tokenize
from tacit.data.users import FIRST_WORD, Examples, Names, Users
from tacit.errors import DataError

# The words of each of these users, with how often they have it.
Counts = Callable[[NDArray[np.int64]], Iterable[Mapping[str, int]]]


@dataclass(frozen=True)
class Spelling:
    """Which words of a user count, and their letters; public constants.

    >>> spelling = Spelling(alphabet="abc", longest=4, most_words=2, known=frozenset({"a"}))
    >>> spelling.words({"a": 9, "cab": 1, "bad": 5, "abc": 2, "bb": 1})
    ['abc', 'bb']
    """

    alphabet: str
    longest: int
    most_words: int
    known: frozenset[str] = field(default=frozenset(), repr=False)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {letter: FIRST_WORD + place for place, letter in enumerate(self.alphabet)}

    def words(self, counts: Mapping[str, int]) -> list[str]:
        """The words of a user that count, in their order."""
        numbers = self._numbers
        kept = [
            word
            for word, count in counts.items()
            if count > 0 and len(word) <= self.longest and word not in self.known and numbers.keys() >= set(word)
        ]
        return sorted(kept, key=lambda word: (-counts[word], word))[: self.most_words]

    def examples(self, people: Iterable[Mapping[str, int]]) -> Examples:
        """The words of several users, each given as the counts of their words."""
        numbers, items, lengths, sizes = self._numbers, list[int](), list[int](), list[int]()
        for counts in people:
            words = self.words(counts)
            sizes.append(len(words))
            lengths.extend(map(len, words))
            items.extend(numbers[letter] for word in words for letter in word)
        return Examples(
            np.array(items, np.int32),
            offsets_of(np.array(lengths, np.int64)),
            offsets_of(np.array(sizes, np.int64)),
        )


def checked_alphabet(alphabet: str) -> str:
    """The alphabet, if every letter of it can be part of a word and is there once; ValueError, without a full stop, if not."""
    for place, letter in enumerate(alphabet):
        if tokenize(f"a{letter}a") != [f"a{letter}a"]:
            raise ValueError(f"expected letters of words, in lower case, in letters.alphabet, got U+{ord(letter):04X}")
        if letter in alphabet[:place]:
            raise ValueError(f"expected each letter once in letters.alphabet, got {letter!r} twice")
    if len(alphabet) < 2:
        raise ValueError(f"expected at least two letters in letters.alphabet, got {len(alphabet)}")
    return alphabet


class SpelledUsers:
    """The same users under the same names, whose examples are their words as letters. `counts` reads their words."""

    def __init__(self, users: Users, counts: Counts, spelling: Spelling) -> None:
        self._users, self._counts, self._spelling = users, counts, spelling

    def __len__(self) -> int:
        return len(self._users)

    def names(self, users: NDArray[np.int64]) -> Names:
        """The names of these users."""
        return self._users.names(users)

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The words of these users as letters."""
        found = self._spelling.examples(self._counts(users))
        if len(found.user_offsets) != len(users) + 1:
            raise DataError("Expected the words of each user that was asked for.")
        return found


def counts_of_ids(users: Users, words: Sequence[str]) -> Counts:
    """How often users have each word, for users whose examples are ids of these words."""

    def counts(chosen: NDArray[np.int64]) -> Iterator[Mapping[str, int]]:
        found = users.gather(chosen)
        for first, last in pairwise(found.example_offsets[found.user_offsets].tolist()):
            ids = Counter(found.items[first:last].tolist())
            yield {words[number]: count for number, count in ids.items() if number >= FIRST_WORD}

    return counts
