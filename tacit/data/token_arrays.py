"""Many texts to tokens at once, with NumPy and Arrow in place of a pattern and a dictionary: the same tokens, sooner.

`tacit.data.text` says what a token is. Here the same rules are comparisons of whole arrays: of the bytes of UTF-8, where
every byte has the kind of its character (`_kinds`). A word is a run of letters and marks, which an apostrophe continues where
it stands between such a character and a letter, and which begins at its first letter. Composing and lower-casing are Python's
own, as they are there.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import offsets_of
from tacit.data.text import END, PUNCTUATION, composed

# The kinds of characters; all others separate words.
_LETTER, _MARK, _APOSTROPHE, _PUNCTUATION, _END = 1, 2, 3, 4, 5
_BASIC_PLANE = 0x10000
# What lower-cases to two characters, or by what stands around it.
_OUT_OF_LINE = (ord("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}"), ord("\N{GREEK CAPITAL LETTER SIGMA}"))


@dataclass(frozen=True)
class TokenArrays:
    """The tokens of some texts as an array of Arrow, and how many each text has."""

    tokens: Any  # pyarrow.LargeStringArray
    lengths: NDArray[np.int64]

    @classmethod
    def of_closed(cls, texts: str) -> TokenArrays:
        """The tokens of these texts, each of which ends with `END` and holds none inside."""
        import pyarrow

        text = _small_letters(composed(texts))
        kinds = text.kinds()
        starts, inside = _tokens(kinds)
        lengths = np.diff(np.searchsorted(starts, np.flatnonzero(kinds == _END)), prepend=0)
        offsets, kept = offsets_of(_sizes(starts, inside)), text.data[inside]
        buffers = pyarrow.py_buffer(offsets), pyarrow.py_buffer(kept)
        return cls(pyarrow.LargeStringArray.from_buffers(len(starts), *buffers), lengths)

    def ids(self, words: WordSet, unknown: int, first: int) -> NDArray[np.int64]:
        """`first` and more for the words of this set, in its order; `unknown` for all other tokens."""
        import pyarrow.compute as compute

        found = compute.index_in(self.tokens, value_set=words.strings)
        return np.asarray(compute.fill_null(found, unknown - first).to_numpy(zero_copy_only=False)) + np.int64(first)

    def counts(self) -> dict[str, int]:
        """How often each token occurs, in the order of their first occurrences."""
        counted = self.tokens.value_counts()
        return dict(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True))


class WordSet:
    """Words, prepared for `TokenArrays.ids`."""

    def __init__(self, words: tuple[str, ...]) -> None:
        import pyarrow

        # What is no Unicode text is no token either; an empty string takes its place, which no token is.
        fit = [word if _is_unicode(word) else "" for word in words]
        self.strings = pyarrow.array(fit, pyarrow.large_string())


def _tokens(kinds: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where each token begins, and which bytes belong to any; no token is empty, and two words never touch."""
    letter = kinds == _LETTER
    marks = bool((kinds == _MARK).any())
    word = letter | (kinds == _MARK) if marks else letter.copy()
    at = np.flatnonzero(kinds == _APOSTROPHE)
    at = at[(at > 0) & (at + 1 < kinds.size)]
    word[at[word[at - 1] & letter[at + 1]]] = True
    begins = word.copy()
    begins[1:] &= ~word[:-1]
    if marks:
        _drop_leading_marks(letter, word, begins)
    punctuation = kinds == _PUNCTUATION
    return np.flatnonzero(begins | punctuation), word | punctuation


def _drop_leading_marks(letter: NDArray[np.bool_], word: NDArray[np.bool_], begins: NDArray[np.bool_]) -> None:
    """A run that begins with marks begins at its first letter; without a letter it is no word."""
    wrong = np.flatnonzero(begins & ~letter)
    if not wrong.size:
        return
    stops = np.flatnonzero(letter | ~word)  # the last character closes a text, so every run is followed by one of these
    for start, stop in zip(wrong.tolist(), stops[np.searchsorted(stops, wrong)].tolist(), strict=True):
        begins[start] = False
        word[start:stop] = False
        begins[stop] = letter[stop]


def _sizes(starts: NDArray[np.int64], inside: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many bytes each token has."""
    last = inside.copy()
    goes_on = inside.copy()
    goes_on[starts] = False
    last[:-1] &= ~goes_on[1:]
    return np.flatnonzero(last) + 1 - starts


@dataclass(frozen=True)
class _Utf8:
    """A text as bytes, with the characters beyond ASCII: where each begins, how many bytes it has, and its number."""

    data: NDArray[np.uint8]
    wide: NDArray[np.int64]
    sizes: NDArray[np.int64]
    codes: NDArray[np.int64]

    @classmethod
    def of(cls, encoded: bytes) -> _Utf8:
        data = np.frombuffer(encoded, np.uint8)
        wide = np.flatnonzero(data >= 0xC0)
        first = data[wide].astype(np.int64)
        sizes = 2 + (first >= 0xE0) + (first >= 0xF0)
        codes = first & (0x7F >> sizes)
        for size in range(2, 5):
            longer = np.flatnonzero(sizes >= size)
            codes[longer] = codes[longer] << 6 | data[wide[longer] + (size - 1)] & 0x3F
        return cls(data, wide, sizes, codes)

    def with_codes(self, codes: NDArray[np.int64]) -> _Utf8:
        """The text with other characters in place of these, each of as many bytes."""
        data, changed = self.data.copy(), np.flatnonzero(codes != self.codes)
        for place in range(4):
            some = changed[self.sizes[changed] > place]
            left = self.sizes[some] - 1 - place
            bits = codes[some] >> 6 * left
            data[self.wide[some] + place] = bits & 0x3F | 0x80 if place else bits | 0xFF00 >> self.sizes[some] & 0xFF
        return _Utf8(data, self.wide, self.sizes, codes)

    def kinds(self) -> NDArray[np.uint8]:
        """The kind of each byte: that of its character."""
        kinds = _kinds_of_bytes()[self.data]
        of_wide = _looked_up(_kinds(), lambda other: _LETTER if other.isalnum() else 0, self.codes)
        for place in range(4):
            some = np.flatnonzero((self.sizes > place) & (of_wide > 0))
            kinds[self.wide[some] + place] = of_wide[some]
        return kinds


def _small_letters(text: str) -> _Utf8:
    """The text in lower case."""
    found = _Utf8.of(_encoded(text).lower())  # of bytes, this concerns ASCII alone
    if not found.wide.size:
        return found
    small = _looked_up(_lower(), lambda letter: ord(letter.lower()), found.codes)
    if np.isin(found.codes, _OUT_OF_LINE).any() or (_size_of(small) != found.sizes).any():
        return _Utf8.of(_encoded(text.lower()))
    return found.with_codes(small)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _size_of(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many bytes these characters have."""
    return 1 + (codes >= 0x80) + (codes >= 0x800) + (codes >= _BASIC_PLANE)


def _looked_up(table: NDArray[Any], of_other: Callable[[str], int], codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values of these characters: from a table of the basic plane, and from the function beyond."""
    beyond = codes >= _BASIC_PLANE
    if not beyond.any():
        return table[codes].astype(np.int64)
    found = table[np.where(beyond, 0, codes)].astype(np.int64)
    others, which = np.unique(codes[beyond], return_inverse=True)
    found[beyond] = np.array([of_other(chr(code)) for code in others.tolist()], np.int64)[which]
    return found


@cache
def _lower() -> NDArray[np.uint16]:
    """The small letter of each character of the basic plane but those of `_OUT_OF_LINE`."""
    return np.array(
        [code if code in _OUT_OF_LINE else ord(chr(code).lower()) for code in range(_BASIC_PLANE)], np.uint16
    )


@cache
def _kinds() -> NDArray[np.uint8]:
    """The kind of each character of the basic plane. Beyond it, letters are letters and all others separate words."""
    kinds = np.zeros(_BASIC_PLANE, np.uint8)
    kinds[[code for code in range(0x300, _BASIC_PLANE) if unicodedata.category(chr(code)).startswith("M")]] = _MARK
    kinds[[code for code in range(_BASIC_PLANE) if chr(code).isalnum()]] = _LETTER
    kinds[ord("'")] = _APOSTROPHE
    kinds[[ord(each) for each in PUNCTUATION]] = _PUNCTUATION
    kinds[ord(END)] = _END
    return kinds


@cache
def _kinds_of_bytes() -> NDArray[np.uint8]:
    """The kind of each byte that is a character by itself."""
    return np.where(np.arange(256) < 0x80, _kinds()[:256], 0).astype(np.uint8)


def _is_unicode(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
