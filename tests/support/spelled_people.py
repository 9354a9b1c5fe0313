"""Words as letters, in plain Python: what `tacit.learning.prefix_tree` computes, one user and one dictionary at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from tacit.data.spelling import Spelling
from tacit.learning.batches import TextBatches
from tacit.learning.prefix_tree import TreeShape

ALPHABET = "abc"
SHAPE = TreeShape(letters=3, longest=4, coordinates=64, places=20)
END = "$"


def batches_of(people: Iterable[Mapping[str, int]], shape: TreeShape = SHAPE, alphabet: str = ALPHABET) -> np.ndarray:
    """The users' rows of letters [users, steps, rows, longest + 2]."""
    examples = Spelling(alphabet, shape.longest, 16).examples(people)
    laid_out = TextBatches("sentences", shape.longest + 1, 4, 4).lay_out(examples)
    found: np.ndarray = laid_out.batches(np.arange(len(laid_out.sizes)))
    return found


def extensions(words: Iterable[str], prefixes: Iterable[str], letters: int) -> set[str]:
    """The extensions that these words have: a live prefix and the letters after it, with the end of the word as $."""
    found = set()
    for word in words:
        for prefix in prefixes:
            if word.startswith(prefix):
                found.add((word + END * 9)[: len(prefix) + letters])
    return found


def contribution(words: Iterable[str], prefixes: Iterable[str], letters: int) -> dict[str, float]:
    """What a user with these words contributes to each extension."""
    found = extensions(words, prefixes, letters)
    return {each: 1 / math.sqrt(len(found)) for each in found}


def coordinate(extension: str, prefixes: list[str], letters: int, alphabet: str = ALPHABET) -> int:
    """The place of an extension in a user's vector; `prefixes` are sorted."""
    begins, rest = extension[:-letters], extension[-letters:]
    number = prefixes.index(begins)
    for symbol in rest:
        number = number * (len(alphabet) + 1) + (0 if symbol == END else alphabet.index(symbol) + 1)
    return number
