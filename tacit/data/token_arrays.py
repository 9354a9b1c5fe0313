"""Many texts to tokens at once, with NumPy and Arrow in place of a pattern and a dictionary: the same tokens, sooner.

`tacit.data.text` says what a token is. Here the same rules are comparisons of whole arrays. Every character has a kind
(`_table`). A word is a run of letters and marks, which an apostrophe continues where it stands between such a character and a
letter, and which begins at its first letter. Composing and lower-casing are Python's own, as they are there.
"""

from __future__ import annotations

import unicodedata
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
_ALL = 0x110000
# What lower-cases to two characters, or by what stands around it.
_OUT_OF_LINE = {"\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "\N{GREEK CAPITAL LETTER SIGMA}"}


@dataclass(frozen=True)
class TokenArrays:
    """The tokens of some texts as an array of Arrow, and how many each text has."""

    tokens: Any  # pyarrow.LargeStringArray
    lengths: NDArray[np.int64]

    @classmethod
    def of_closed(cls, texts: str) -> TokenArrays:
        """The tokens of these texts, each of which ends with `END` and holds none inside."""
        codes = _small_letters(composed(texts))
        kinds = _table(_ALL if codes.itemsize == 4 else _BASIC_PLANE)[codes]
        starts, inside = _tokens(kinds)
        lengths = np.diff(np.searchsorted(starts, np.flatnonzero(kinds == _END)), prepend=0)
        return cls(_strings(codes, starts, inside), lengths)

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
    """Where each token begins, and which characters belong to any; no token is empty, and two words never touch."""
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


def _strings(codes: NDArray[Any], starts: NDArray[np.int64], inside: NDArray[np.bool_]) -> Any:
    """The tokens as an array of Arrow, which holds their UTF-8 back to back."""
    import pyarrow

    kept = codes[inside]
    sizes = np.diff(np.cumsum(inside, dtype=np.int64)[starts] - 1, append=kept.size)
    data = kept.tobytes()
    if codes.itemsize > 1:
        data = data.decode(f"utf-{8 * codes.itemsize}-le").encode()
        longer = np.flatnonzero(kept >= 0x80)
        more = 1 + (kept[longer] >= 0x800) + (kept[longer] >= 0x10000)
        token = np.searchsorted(np.cumsum(sizes), longer, side="right")
        sizes += np.bincount(token, weights=more, minlength=len(sizes)).astype(np.int64)
    offsets = pyarrow.py_buffer(offsets_of(sizes))
    return pyarrow.LargeStringArray.from_buffers(len(starts), offsets, pyarrow.py_buffer(data))


def _small_letters(text: str) -> NDArray[Any]:
    """The characters of the text in lower case, as numbers of one, two or four bytes each."""
    if text.isascii() or any(each in text for each in _OUT_OF_LINE):
        return _codes(text.lower())
    codes = _codes(text)
    return _lower()[codes] if codes.itemsize == 2 else _codes(text.lower())


@cache
def _lower() -> NDArray[np.uint16]:
    """The small letter of each character of the basic plane but those of `_OUT_OF_LINE`."""
    return np.array(
        [code if chr(code) in _OUT_OF_LINE else ord(chr(code).lower()) for code in range(_BASIC_PLANE)], np.uint16
    )


def _codes(text: str) -> NDArray[Any]:
    """The characters as numbers of one, two or four bytes each."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    pairs = text.encode("utf-16-le", "surrogatepass")
    if len(pairs) == 2 * len(text):
        return np.frombuffer(pairs, "<u2")
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


@cache
def _table(size: int) -> NDArray[np.uint8]:
    """The kind of each of the first so many characters. All of Unicode takes sixteen times as long as the basic plane."""
    kinds = np.zeros(size, np.uint8)
    kinds[[code for code in range(0x300, _BASIC_PLANE) if unicodedata.category(chr(code)).startswith("M")]] = _MARK
    kinds[[code for code in range(size) if chr(code).isalnum()]] = _LETTER
    kinds[ord("'")] = _APOSTROPHE
    kinds[[ord(each) for each in PUNCTUATION]] = _PUNCTUATION
    kinds[ord(END)] = _END
    return kinds


def _is_unicode(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
