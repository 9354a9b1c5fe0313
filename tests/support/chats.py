"""Stores of what made-up people wrote, small enough to find words in within a moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tacit.data.importing import import_text
from tacit.data.sources import TextSource
from tacit.data.store import Store
from tacit.data.vocabulary import Vocabulary, word_list
from tests.support.store_keys import KEY

PEOPLE = 80
SHARE = 0.2
# The public list, most frequent first. People also say "lol", which is on no list.
LISTED = ("the", "cat", "sat", "on", "mat", "dog", "ran", "far", "xylem", "yttrium")


def chat(people: int = PEOPLE) -> dict[str, list[str]]:
    """What each of these people wrote: words of the list, one on no list, and one that is theirs alone."""
    return {
        f"person {number}": [f"the cat sat lol {own(number)}", "lol the dog ran"]
        + ["on the mat"] * (number % 3)
        + ["far"] * (number % 2)
        for number in range(people)
    }


def own(number: int) -> str:
    """A word that only one person has."""
    return f"own{number:03d}"


def write_chat(
    path: Path,
    wrote: Mapping[str, Sequence[str]] | None = None,
    *,
    words: Sequence[str] = LISTED,
    held_out: float = SHARE,
    key: bytes = KEY,
) -> Store:
    """The store of these people's texts, encoded with these words."""
    given = chat() if wrote is None else wrote
    rows = [(place, user, text) for place, (user, text) in enumerate((u, t) for u in given for t in given[u])]
    source = TextSource("chat", "made up", "row", iter(rows))
    return import_text(
        [source], path, vocabulary=Vocabulary(tuple(words), word_list("listed")), held_out=held_out, key=key
    )


def write_list(path: Path, words: Sequence[str] = LISTED) -> Path:
    """A public word list as a file."""
    path.write_text("".join(f"{word}\n" for word in words))
    return path
