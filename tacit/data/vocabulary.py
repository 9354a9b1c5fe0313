"""A vocabulary: which words a model knows, and where they came from.

The most frequent words of private users tell something about these users, so a vocabulary states its provenance. Words of a
public corpus or of a word list leave the guarantee as it is; words that were counted on the private users themselves make
epsilon infinite.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data.text import END, TOKENIZER, closed, has_token, tokenize, tokens_of_closed
from tacit.data.token_arrays import TokenArrays, WordSet
from tacit.data.users import FIRST_WORD, OOV, RESERVED
from tacit.errors import DataError

PRIVATE = "private"
_DISCOVERED = "discovered by the run "
_PUBLIC_CORPUS = "public corpus: "
_WORD_LIST = "word list: "
HEADER = "#tacit-vocabulary "

# Counting keeps at most so many different words at a time, which bounds its memory to about a gigabyte.
_MOST_COUNTED = 4_000_000
_BLOCK = 4096
# From this many characters on, arrays are quicker than a pattern and a dictionary.
_MANY = 50_000
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # not the blanks: tab and the ends of lines


def public_corpus(name: str) -> str:
    """The provenance of words counted on a public corpus of this name."""
    if not name.strip():
        raise DataError("Expected the name of the public corpus, got an empty one.")
    return _PUBLIC_CORPUS + name.strip()


def word_list(name: str) -> str:
    """The provenance of a word list of this name."""
    return _WORD_LIST + name


def discovered_by(run_id: str) -> str:
    """The provenance of words that a run discovered on users under differential privacy; by itself it proves nothing."""
    return _DISCOVERED + run_id


@dataclass(frozen=True)
class Vocabulary:
    """The words a model knows, most frequent first; word i has the id ``FIRST_WORD + i``.

    `provenance` says where the words came from: `public_corpus(name)`, `word_list(name)` or `PRIVATE`.

    >>> import tacit
    >>> words = tacit.Vocabulary(("see", "you", "soon"), "word list: three words")
    >>> words.encode(["see", "them", "soon"]).tolist(), words.decode([6, 3])
    ([4, 3, 6], ['soon', '<oov>'])
    """

    words: tuple[str, ...]
    provenance: str

    def __post_init__(self) -> None:
        if not self.words:
            raise DataError("Expected a vocabulary of at least one word, got none.")
        if len(self._index) != len(self.words):
            raise DataError("A word stands in the vocabulary twice; expected every word once.")

    def __len__(self) -> int:
        """The number of ids, the reserved ones included."""
        return FIRST_WORD + len(self.words)

    @property
    def is_public(self) -> bool:
        """Whether the words were chosen without looking at the private users. An unknown provenance counts as private."""
        return self.provenance.startswith((_PUBLIC_CORPUS, _WORD_LIST))

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the words in their order: the same for two vocabularies with the same ids."""
        return _fingerprint(self.words)

    @cached_property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The smallest type that stores use for these ids."""
        return np.dtype(np.uint16 if len(self) <= 65_535 else np.uint32)

    @cached_property
    def _index(self) -> _Index:
        return _Index(zip(self.words, range(FIRST_WORD, FIRST_WORD + len(self.words)), strict=True))

    @cached_property
    def _index_with_end(self) -> _Index:
        return _Index({**self._index, END: len(self)})

    def encode(self, words: Iterable[str]) -> NDArray[np.unsignedinteger]:
        """The ids of these words; an unknown word is `OOV`."""
        return np.fromiter(map(self._index.__getitem__, words), self.dtype)

    def encode_texts(self, texts: Iterable[str]) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int64]]:
        """The ids of all tokens of all texts, back to back, and how many each text has."""
        return self.encode_closed(closed(texts))

    def encode_closed(self, texts: str) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int64]]:
        """`encode_texts` of texts that are joined already, each closed by `tacit.data.text.END`."""
        if len(texts) >= _MANY:
            found = TokenArrays.of_closed(texts)
            return found.ids(self._word_set, OOV, FIRST_WORD).astype(self.dtype), found.lengths
        tokens = tokens_of_closed(texts)
        ids = np.fromiter(map(self._index_with_end.__getitem__, tokens), np.uint32, len(tokens))
        ends = np.flatnonzero(ids == len(self))
        lengths = np.diff(ends, prepend=-1) - 1
        return np.delete(ids, ends).astype(self.dtype), lengths

    @cached_property
    def _word_set(self) -> WordSet:
        return WordSet(self.words)

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The words with these ids; the reserved ones in angle brackets."""
        return [self.words[i - FIRST_WORD] if i >= FIRST_WORD else RESERVED[i] for i in ids]

    def as_text(self) -> str:
        """The text of a file that `load_vocabulary` reads."""
        return vocabulary_text(self.words, self.provenance)

    def save(self, path: Path) -> None:
        """Write a new text file. If that fails, there is no file."""
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            try:
                file.write(self.as_text())
                file.flush()
            except BaseException:
                path.unlink()
                raise


def vocabulary_text(entries: Sequence[str], provenance: str) -> str:
    """The text of a vocabulary file: a line that says where the words come from, then one word a line.

    The entries may begin with the reserved ones, as the words of a model do.
    """
    words = entries[_reserved(entries) :]
    header = {"version": 1, "tokenizer": TOKENIZER, "provenance": provenance, "fingerprint": _fingerprint(words)}
    return "".join(f"{line}\n" for line in (HEADER + json.dumps(header), *entries))


def _fingerprint(words: Sequence[str]) -> str:
    return hashlib.sha256("\n".join([TOKENIZER, *words]).encode()).hexdigest()


class _Index(dict[str, int]):
    """Words to ids; every other word is `OOV`."""

    def __missing__(self, word: str) -> int:
        return OOV


def load_vocabulary(
    path: Path, *, size: int | None = None, on_warning: Callable[[str], None] | None = None
) -> Vocabulary:
    """Read a file that `Vocabulary.save` or a run wrote, or a plain word list (one word a line, the most frequent first).

    `size` keeps the first ``size - FIRST_WORD`` words. `on_warning` is told if a word list repeats words.
    """
    limit = None if size is None else checked_size(size) - FIRST_WORD
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except FileNotFoundError:
        raise DataError(f"There is no vocabulary file {path}.") from None
    except UnicodeDecodeError:
        raise DataError(f"The vocabulary file {path} is not UTF-8 text.") from None
    except OSError as error:
        raise DataError(f"The vocabulary file {path} cannot be read: {error.strerror}.") from None
    if not lines[0].startswith(HEADER):
        return _from_list(lines, path, limit, on_warning)
    words = tuple(word for word in lines[1 + _reserved(lines[1:]) :] if word)
    try:
        header = json.loads(lines[0].removeprefix(HEADER))
        provenance, tokenizer, fingerprint = header["provenance"], header["tokenizer"], header["fingerprint"]
    except (ValueError, KeyError, TypeError):
        raise DataError(f"The first line of the vocabulary file {path} is damaged.") from None
    if tokenizer != TOKENIZER:
        raise DataError(f"The vocabulary file {path} is of the tokenizer {tokenizer!r}; expected {TOKENIZER!r}.")
    vocabulary = Vocabulary(words, str(provenance)) if words else None
    if vocabulary is None or vocabulary.fingerprint != fingerprint:
        raise DataError(
            f"The vocabulary file {path} is damaged: its words do not fit the fingerprint in its first line."
        )
    return vocabulary if limit is None else Vocabulary(words[:limit], vocabulary.provenance)


def vocabulary_of_words(entries: Iterable[str], *, provenance: str, place: Callable[[int], str]) -> Vocabulary:
    """A vocabulary of these words, as the tokenizer writes them, since any other spelling never occurs in a tokenized text.

    An entry without a word is left out, and so are the four reserved entries where a list begins with them; a word counts
    once. `place` says in a message which entry is wrong: "Line 7 of the list".
    """
    words: dict[str, None] = {}
    entries = tuple(entries)
    reserved = _reserved(entries)
    for number, entry in enumerate(entries[reserved:], reserved + 1):
        if not isinstance(entry, str):
            raise DataError(f"{place(number)} is no string but {type(entry).__name__}.")
        if (control := _CONTROL.search(entry)) is not None:
            raise DataError(f"{place(number)} holds the control character U+{ord(control[0]):04X}; expected a word.")
        tokens = tokenize(entry)
        if len(tokens) > 1:
            raise DataError(f"{place(number)} holds {len(tokens)} words; expected one.")
        words.update(dict.fromkeys(tokens))
    return Vocabulary(tuple(words), provenance)


def _reserved(entries: Sequence[str]) -> int:
    """How many reserved entries a list begins with: all of them or none."""
    return len(RESERVED) if tuple(entries[: len(RESERVED)]) == RESERVED else 0


def _from_list(lines: list[str], path: Path, limit: int | None, on_warning: Callable[[str], None] | None) -> Vocabulary:
    """The vocabulary of a file with one word a line."""
    if not any(map(has_token, lines)):
        raise DataError(f"The word list {path} holds no word.")
    full = vocabulary_of_words(
        lines, provenance=word_list(path.name), place=lambda number: f"Line {number} of the word list {path}"
    )
    if on_warning is not None and (repeated := sum(map(has_token, lines)) - len(full.words) - _reserved(lines)) > 0:
        on_warning(
            f"{repeated:,} {'line' if repeated == 1 else 'lines'} of the word list {path} "
            f"{'repeats' if repeated == 1 else 'repeat'} a word of an earlier line, "
            "perhaps in another spelling: each word counts once, at its first place."
        )
    return Vocabulary(full.words[:limit], full.provenance)


def checked_size(size: int) -> int:
    """The size, if a vocabulary of this size has room for a word beside the reserved entries; DataError otherwise."""
    if size <= FIRST_WORD:
        raise DataError(
            f"Expected a vocabulary size of at least {FIRST_WORD + 1} ({FIRST_WORD} reserved entries and one word), "
            f"got {size}."
        )
    return size


def count_vocabulary(texts: Iterable[str], *, size: int, provenance: str) -> Vocabulary:
    """The ``size - FIRST_WORD`` most frequent words of the texts; equal counts in alphabetical order.

    Memory stays bounded: beyond four million different words, the rarest are dropped during the count, so on a very large
    corpus the last places of the vocabulary are approximate.
    """
    room = checked_size(size) - FIRST_WORD
    counts: Counter[str] = Counter()
    block: list[str] = []
    for text in texts:
        block.append(text)
        if len(block) == _BLOCK:
            counts.update(_counts(closed(block)))
            block.clear()
            _forget_the_rarest(counts)
    counts.update(_counts(closed(block)))
    if not counts:
        raise DataError("The texts to count a vocabulary on hold no word.")
    best = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:room]
    return Vocabulary(tuple(word for word, _ in best), provenance)


def _counts(texts: str) -> Mapping[str, int]:
    """How often each token occurs in these joined texts."""
    if len(texts) >= _MANY:
        return TokenArrays.of_closed(texts).counts()
    counts = Counter(tokens_of_closed(texts))
    counts.pop(END, None)
    return counts


def _forget_the_rarest(counts: Counter[str]) -> None:
    floor = 1
    while len(counts) > _MOST_COUNTED:
        for word in [word for word, count in counts.items() if count <= floor]:
            del counts[word]
        floor += 1
