"""Faults of the pipelines that prepare users' data, as views: the users beneath stay as they are.

    Concatenated     the first two tokens of a sentence become one ("i have"), in a share of all sentences
    CaseKept         words are no longer lower-cased, in a share of all sentences
    Inverted         light and dark are exchanged, on a share of the users' devices
    Rotated          images lie on their side, on a share of the users' devices
    Relabelled       every label is that of the next class, on a share of the users' devices

Whether a sentence or device has the fault is decided by a hash of (seed, fault, the user's name, sentence). So the answer never
changes, one user's does not depend on another's, and a larger share includes all that a smaller one did. Faults of text also
change how sentences are spelled, so that a model of characters reads the tokens that the broken pipeline makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import offsets_of, ranges
from tacit.data.store import split_texts
from tacit.data.text import tokenize
from tacit.data.users import FIRST_WORD, OOV, Examples, Names, Users
from tacit.data.views import View, example_counts
from tacit.data.worlds.randomness import uniform
from tacit.errors import DataError

_CONCATENATED, _CASE_KEPT, _INVERTED, _ROTATED, _RELABELLED = range(5)

# What a user wrote: sentences, each a list of tokens.
Sentences = list[list[str]]


def spelled(users: Users, numbers: NDArray[np.int64]) -> list[Sentences]:
    """What each of these users wrote, token by token; the tokens are as many as the word ids of `gather`."""
    known = getattr(users, "spelled", None)
    if known is not None:
        return cast("list[Sentences]", known(numbers))
    return [[tokenize(text) for text in texts] for texts in _written(users, numbers)]


class Concatenated(View):
    """The first two tokens of a share of all sentences are one token, which no vocabulary has (Debugging, section 5)."""

    def __init__(self, users: Users, share: float, *, seed: int) -> None:
        super().__init__(users)
        self._share, self._seed = _checked(share), seed

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The sentences of these users; where the fault hits, the first word is unknown and the second gone."""
        full = self._users.gather(users)
        _require_text(full, "concatenated tokens")
        hit = self._hit(users, np.diff(full.user_offsets)) & (np.diff(full.example_offsets) >= 2)
        starts, lengths = full.example_offsets[:-1], np.diff(full.example_offsets)
        items = full.items.copy()
        items[starts[hit]] = OOV
        items = np.delete(items, starts[hit] + 1)
        return Examples(items, offsets_of(lengths - hit), full.user_offsets)

    def spelled(self, users: NDArray[np.int64]) -> list[Sentences]:
        """What these users wrote, as the broken pipeline passes it on."""
        written = spelled(self._users, users)
        hit = iter(self._hit(users, _lengths(written)).tolist())
        return [
            [[" ".join(s[:2]), *s[2:]] if next(hit) and len(s) >= 2 else s for s in sentences] for sentences in written
        ]

    def example_counts(self) -> NDArray[np.int64]:
        """How many sentences each user has: as many as without the fault."""
        return example_counts(self._users)

    def _hit(self, users: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
        return _sentences_hit(self._seed, _CONCATENATED, self.names(users), counts, self._share)


class CaseKept(View):
    """Words of a share of all sentences keep the case they were typed in. `words[i]` is the word with id i.

    Where the users beneath keep no case (all words of a world are in lower case), the sentence begins with a capital letter,
    as on a phone's keyboard.
    """

    def __init__(self, users: Users, words: Iterable[str], share: float, *, seed: int) -> None:
        super().__init__(users)
        self._share, self._seed = _checked(share), seed
        self._ids = {word: number for number, word in enumerate(words) if number >= FIRST_WORD}

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The sentences of these users; a word with a capital is unknown."""
        full = self._users.gather(users)
        _require_text(full, "case that is kept")
        sentences = [sentence for one in self.spelled(users) for sentence in one]
        ids = [self._ids.get(token, OOV) for sentence in sentences for token in sentence]
        lengths = np.array([len(sentence) for sentence in sentences], np.int64)
        return Examples(np.array(ids, full.items.dtype), offsets_of(lengths), full.user_offsets)

    def spelled(self, users: NDArray[np.int64]) -> list[Sentences]:
        """What these users wrote, as the broken pipeline passes it on."""
        small = spelled(self._users, users)
        typed = self._typed(users, small)
        hit = iter(_sentences_hit(self._seed, _CASE_KEPT, self.names(users), _lengths(small), self._share).tolist())
        return [
            [kept if next(hit) else s for s, kept in zip(sentences, cased, strict=True)]
            for sentences, cased in zip(small, typed, strict=True)
        ]

    def example_counts(self) -> NDArray[np.int64]:
        """How many sentences each user has: as many as without the fault."""
        return example_counts(self._users)

    def _typed(self, users: NDArray[np.int64], small: list[Sentences]) -> list[Sentences]:
        if getattr(self._users, "texts", None) is None:
            return [[[s[0].capitalize(), *s[1:]] if s else s for s in sentences] for sentences in small]
        return [
            [_cased(text, tokens) for text, tokens in zip(texts, sentences, strict=True)]
            for texts, sentences in zip(_written(self._users, users), small, strict=True)
        ]


class _Devices(View):
    """A fault of images that a share of the users' devices have."""

    def __init__(
        self,
        users: Users,
        share: float,
        seed: int,
        kind: int,
        broken: Callable[[Examples, NDArray[np.bool_]], Examples],
    ) -> None:
        super().__init__(users)
        self._share, self._seed = _checked(share), seed
        self._kind, self._broken = kind, broken

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The images of these users, as their devices pass them on."""
        full = self._users.gather(users)
        if full.labels is None:
            raise DataError("Expected users with images for this fault, got users with text.")
        return self._broken(full, np.repeat(self.has_fault(users), np.diff(full.user_offsets)))

    def has_fault(self, users: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of these users' devices has the fault: for the record of an experiment, never for a selection."""
        names = self.names(users)
        return uniform(self._seed % 2**64, self._kind, names[:, 0], names[:, 1]) < self._share

    def example_counts(self) -> NDArray[np.int64]:
        """How many images each user has: as many as without the fault."""
        return example_counts(self._users)


class Inverted(_Devices):
    """Pixels are turned from light to dark and back on a share of the devices (Debugging, section 6)."""

    def __init__(self, users: Users, share: float, *, seed: int) -> None:
        super().__init__(users, share, seed, _INVERTED, _inverted)


class Rotated(_Devices):
    """Images are turned by a quarter, counter-clockwise, on a share of the devices."""

    def __init__(self, users: Users, share: float, *, seed: int) -> None:
        super().__init__(users, share, seed, _ROTATED, _rotated)


class Relabelled(_Devices):
    """Labels are one too high on a share of the devices; the last of `classes` becomes the first."""

    def __init__(self, users: Users, share: float, classes: int, *, seed: int) -> None:
        def next_class(full: Examples, hit: NDArray[np.bool_]) -> Examples:
            assert full.labels is not None
            labels = np.where(hit, (full.labels + 1) % classes, full.labels).astype(np.int32)
            return Examples(full.items, full.example_offsets, full.user_offsets, labels)

        super().__init__(users, share, seed, _RELABELLED, next_class)


def _inverted(full: Examples, hit: NDArray[np.bool_]) -> Examples:
    images = full.items.copy()
    images[hit] = 255 - images[hit]
    return Examples(images, full.example_offsets, full.user_offsets, full.labels)


def _rotated(full: Examples, hit: NDArray[np.bool_]) -> Examples:
    images = full.items.copy()
    images[hit] = np.rot90(images[hit], axes=(1, 2))
    return Examples(images, full.example_offsets, full.user_offsets, full.labels)


def _sentences_hit(seed: int, kind: int, names: Names, counts: NDArray[np.int64], share: float) -> NDArray[np.bool_]:
    """Whether the fault hits each of the sentences of the users with these names, laid end to end."""
    place = ranges(np.zeros(len(counts), np.int64), counts)
    repeated = np.repeat(names, counts, axis=0)
    return uniform(seed % 2**64, kind, repeated[:, 0], repeated[:, 1], place) < share


def _written(users: Users, numbers: NDArray[np.int64]) -> list[list[str]]:
    """The sentences of each of these users as text."""
    if getattr(users, "texts", None) is not None:
        block = users.texts(numbers)  # type: ignore[attr-defined]
        texts, ends = split_texts(block), block.user_offsets.tolist()
        return [texts[start:end] for start, end in pairwise(ends)]
    if getattr(users, "sentences", None) is not None:
        return [users.sentences(int(number)) for number in numbers]  # type: ignore[attr-defined]
    raise DataError("These users keep no texts, only word ids, and this fault needs texts.")


def _cased(text: str, tokens: list[str]) -> list[str]:
    """The tokens of a text as they were typed; a token that cannot be found in the text stays in lower case."""
    lowered, typed, at = text.lower(), [], 0
    for token in tokens:
        found = lowered.find(token, at)
        at = at if found < 0 else found + len(token)
        # Lower case changes the length of a few letters; then places in the two texts do not agree.
        typed.append(token if found < 0 or len(lowered) != len(text) else text[found:at])
    return typed


def _lengths(written: list[Sentences]) -> NDArray[np.int64]:
    return np.array([len(sentences) for sentences in written], np.int64)


def _checked(share: float) -> float:
    if not 0 <= share <= 1:
        raise DataError(f"Expected a fault's share from 0 to 1, got {share:g}.")
    return share


def _require_text(full: Examples, fault: str) -> None:
    if full.labels is not None:
        raise DataError(f"Expected users with text for {fault}, got users with images.")
