"""Users from Python objects: `tacit.users` reads a mapping or rows into flat arrays in memory.

A sentence is kept as word ids (two bytes a word up to 65,535 words, else four), a user as an offset and a name of 16 bytes. Ids
of users are hashed and not kept, nor are texts.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.build import HELD_OUT_SHARE, KEY_BYTES, checked_share, new_key, pseudonym, save_users
from tacit.data.flat import PSEUDONYM_BYTES, FlatUsers
from tacit.data.ragged import offsets_of, ranges
from tacit.data.sources import checked_user
from tacit.data.store import IMAGE_SHAPE
from tacit.data.users import FIRST_WORD, OOV
from tacit.data.vocabulary import Vocabulary, vocabulary_of_words, word_list
from tacit.errors import DataError

# The provenance of a vocabulary that was given as words; guarantees state it.
GIVEN_WORDS = word_list("given as words")
_TEXTS_AT_A_TIME = 4096
_SENTENCES_AT_A_TIME = 1 << 18
_STORE_ID = b"tacit: the store id of users in memory"


class MemoryUsers(FlatUsers):
    """`Users` in memory. `tacit.users` makes them, and `save` writes them to a store.

    `store_id` names these users in ledgers. It is a function of the key alone, so the same key gives the same id, and users who
    were read with a key that was thrown away have an id of their own.

    >>> import tacit
    >>> people = tacit.users({"ann": ["see you"], "bob": ["soon", "you"]}, vocabulary=["see", "you", "soon"])
    >>> people.example_counts().tolist(), people.words[4:]
    ([1, 2], ('see', 'you', 'soon'))
    """

    def __init__(self, *, vocabulary: Vocabulary | None, store_id: str, **arrays: Any) -> None:
        super().__init__(where="The array of users", **arrays)
        self.vocabulary = vocabulary
        self.store_id = store_id

    def __repr__(self) -> str:
        """The counts, for the owner of the data: how many users there are is no public number."""
        shown = [f"{len(self):,} users", f"{int(self._user_offsets[-1]):,} examples"]
        if self.vocabulary is not None:
            shown.append(f"{len(self.vocabulary.words):,} words")
        return f"MemoryUsers({', '.join(shown)})"

    @property
    def words(self) -> tuple[str, ...]:
        """The word at each id, with the reserved entries in angle brackets; empty without a vocabulary."""
        if self.vocabulary is None:
            return ()
        return tuple(self.vocabulary.decode(range(len(self.vocabulary))))

    def save(self, path: str | Path) -> None:
        """Write a new store with the same users: the same names, so the same users are held out, and the same store id.

        >>> import tempfile, tacit
        >>> people = tacit.users({"ann": ["see you"], "bob": ["soon"]}, vocabulary=["see", "you", "soon"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     people.save(f"{folder}/chat")
        ...     len(tacit.open_store(f"{folder}/chat"))
        2
        """
        if self.vocabulary is None and self._labels is None:
            raise DataError("A store of text needs a vocabulary, and these users were given as word ids without one.")
        save_users(
            self,
            path,
            source="python",
            vocabulary=self.vocabulary,
            held_out=self.held_out,
            keep_names=True,
            store_id=self.store_id,
        )


def users(
    source: Mapping[Any, Any] | Iterable[Mapping[str, Any]],
    *,
    vocabulary: Vocabulary | Sequence[str] | None = None,
    user: str | None = None,
    text: str | None = None,
    held_out: float = HELD_OUT_SHARE,
    key: bytes | None = None,
) -> MemoryUsers:
    """Read users into memory, from a mapping or from rows.

    A mapping leads from a user's id to their examples: a list of sentences, or a pair of arrays (`images` uint8 [n, 28, 28],
    `labels` [n]). Rows are mappings in any order, such as a Hugging Face dataset, csv.DictReader or a list of dicts; `user`
    and `text` name their columns. A sentence is a string, which becomes words as in `tacit data import`, or a list of word ids
    that somebody else encoded. A sentence without any word is left out; a user without examples stays. An id is a string or a
    whole number.

    `vocabulary` is a `Vocabulary`, or the words themselves in a fixed order. It must be public: a list of words that was
    counted on these users tells something about them, and no guarantee covers that.

    About the share `held_out` of the users is held out, each by a hash of their own id. `key`, 32 secret bytes, makes the
    hashes: with the same key the same person has the same name and is held out again. Whoever has the key can look for a
    guessed id. Without a key a random one is used and thrown away.

    >>> import numpy as np, tacit
    >>> words = ["see", "you", "soon", "on", "my", "way"]
    >>> tacit.users({"ann": ["See you soon!", "on my way"], "bob": ["soon"]}, vocabulary=words)
    MemoryUsers(2 users, 3 examples, 6 words)
    >>> rows = [{"who": 7, "said": "soon"}, {"who": 8, "said": "on my way"}, {"who": 7, "said": "see you"}]
    >>> people = tacit.users(rows, vocabulary=words, user="who", text="said")
    >>> people.example_counts()
    array([2, 1])
    >>> people.gather(np.array([0])).items
    array([6, 4, 5], dtype=uint16)
    """
    checked_share(held_out)
    key = new_key() if key is None else _checked_key(key)
    known = _as_vocabulary(vocabulary)
    if isinstance(source, Mapping):
        if user is not None or text is not None:
            raise DataError("user= and text= name the columns of rows, and this source is a mapping.")
        ids = _ids_of_mapping(source)
        if any(map(_is_pair_of_arrays, source.values())):
            if known is not None:
                raise DataError("Images have no vocabulary, and one was given.")
            arrays = _flat_images(source)
        else:
            arrays = _flat_mapping(source, known)
    elif user is None or text is None:
        raise DataError("Rows need user= and text=, the names of the columns that hold the user's id and the text.")
    else:
        ids, arrays = _flat_rows(source, known, user, text)
    if not ids:
        raise DataError("Expected at least one user, got none.")
    hashed = b"".join([pseudonym(each.encode(), key) for each in ids])
    return MemoryUsers(
        vocabulary=known,
        store_id=pseudonym(_STORE_ID, key).hex(),
        pseudonyms=np.frombuffer(hashed, np.uint8).reshape(-1, PSEUDONYM_BYTES),
        held_out=held_out,
        **arrays,
    )


class _Sentences:
    """Takes the sentences of numbered users in any order, and lays them out by user.

    While it reads, it holds a sentence's word ids, its length and its user's number, and a block of texts.
    """

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        self._vocabulary = vocabulary
        self._dtype = np.dtype(np.uint32) if vocabulary is None else vocabulary.dtype
        self._flat = array("H" if self._dtype.itemsize == 2 else "I")
        self._lengths = array("i")
        self._owners = array("i")
        self._texts: list[str] = []
        self._owners_of_texts: list[int] = []

    def add(self, owner: int, sentence: Any, where: tuple[str, str, int]) -> None:
        """One sentence more; `where` says for a message where it stands."""
        if isinstance(sentence, str):
            if self._vocabulary is None:
                raise DataError(
                    "Text needs vocabulary=, a list of public words.",
                    hint="Words counted on these users tell something about them, so they are no public constant; "
                    "`tacit data vocabulary` counts the words of a public corpus.",
                )
            self._texts.append(sentence)
            self._owners_of_texts.append(owner)
            if len(self._texts) == _TEXTS_AT_A_TIME:
                self._encode()
        else:
            ids = _checked_word_ids(sentence, self._vocabulary, where)
            self._encode()
            self._append(ids, np.array([len(ids)]), np.array([owner]))

    def arrays(self, users: int) -> dict[str, Any]:
        """The arrays of `FlatUsers`, of so many users."""
        self._encode()
        flat, lengths = np.frombuffer(self._flat, self._dtype), np.frombuffer(self._lengths, np.int32)
        owners = np.frombuffer(self._owners, np.int32)
        user_offsets = offsets_of(np.bincount(owners, minlength=users))
        if np.any(owners[1:] < owners[:-1]):
            order = np.argsort(owners, kind="stable")
            flat, lengths = _reordered(flat, lengths, order), lengths[order]
        return {
            "items": flat,
            "example_offsets": offsets_of(lengths),
            "user_offsets": user_offsets,
            "labels": None,
        }

    def _encode(self) -> None:
        if self._texts:
            assert self._vocabulary is not None
            ids, lengths = self._vocabulary.encode_texts(self._texts)
            self._append(ids, lengths, np.array(self._owners_of_texts))
            self._texts.clear()
            self._owners_of_texts.clear()

    def _append(self, ids: NDArray[Any], lengths: NDArray[np.int64], owners: NDArray[np.int64]) -> None:
        with_words = lengths > 0
        self._flat.frombytes(ids.astype(self._dtype, copy=False).tobytes())
        self._lengths.frombytes(lengths[with_words].astype(np.int32).tobytes())
        self._owners.frombytes(owners[with_words].astype(np.int32).tobytes())


def _reordered(
    flat: NDArray[np.unsignedinteger], lengths: NDArray[np.int32], order: NDArray[np.int64]
) -> NDArray[np.unsignedinteger]:
    """The sentences of the flat array in this order, moved a block at a time."""
    starts, moved, done = offsets_of(lengths)[:-1], np.empty_like(flat), 0
    for begin in range(0, len(order), _SENTENCES_AT_A_TIME):
        block = order[begin : begin + _SENTENCES_AT_A_TIME]
        taken = flat[ranges(starts[block], lengths[block].astype(np.int64))]
        moved[done : done + len(taken)] = taken
        done += len(taken)
    return moved


def _flat_mapping(source: Mapping[Any, Any], vocabulary: Vocabulary | None) -> dict[str, Any]:
    sentences = _Sentences(vocabulary)
    for number, given in enumerate(source.values()):
        for sentence in _sentences_of_user(given, number + 1):
            sentences.add(number, sentence, ("The mapping", "user", number + 1))
    return sentences.arrays(len(source))


def _flat_rows(
    source: Iterable[Mapping[str, Any]], vocabulary: Vocabulary | None, user: str, text: str
) -> tuple[list[str], dict[str, Any]]:
    """The ids of the users, in the order of their first rows, and the arrays."""
    if isinstance(source, str | bytes | Path) or not isinstance(source, Iterable):
        raise DataError(
            f"Expected a mapping of users or rows, got {type(source).__name__}.",
            hint="tacit.open_store opens a store, and `tacit data import` reads a file into one.",
        )
    sentences = _Sentences(vocabulary)
    numbers: dict[str, int] = {}
    for place, row in enumerate(source, 1):
        where = ("The rows", "row", place)
        try:
            who, said = row[user], row[text]
        except (KeyError, TypeError, IndexError):
            raise _no_such_row(row, user, text, where) from None
        # Most rows are those of a user who was met before, whose id was checked then.
        number = numbers.get(who) if type(who) is str else None
        if number is None:
            number = numbers.setdefault(_user_id(who, where), len(numbers))
        sentences.add(number, said, where)
    return list(numbers), sentences.arrays(len(numbers))


def _no_such_row(row: Any, user: str, text: str, where: tuple[str, str, int]) -> DataError:
    name, unit, place = where
    if isinstance(row, Mapping):
        missing = user if user not in row else text
        return DataError(f"{name}, {unit} {place}: there is no column {missing!r}.")
    return DataError(
        f"{name}, {unit} {place}: expected a mapping with the columns {user!r} and {text!r}, got {type(row).__name__}.",
        hint='A pandas DataFrame gives such rows with to_dict("records").',
    )


def _flat_images(source: Mapping[Any, Any]) -> dict[str, Any]:
    pairs = [_checked_images(given, number) for number, given in enumerate(source.values(), 1)]
    user_offsets = offsets_of(np.array([len(labels) for _, labels in pairs]))
    items = np.empty((user_offsets[-1], *IMAGE_SHAPE), np.uint8)
    for (images, _), start in zip(pairs, user_offsets[:-1].tolist(), strict=True):
        items[start : start + len(images)] = images
    return {
        "items": items,
        "example_offsets": None,
        "user_offsets": user_offsets,
        "labels": np.concatenate([labels for _, labels in pairs]),
    }


def _sentences_of_user(given: Any, number: int) -> Iterator[Any]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise DataError(f"The mapping, user {number}: expected a list of sentences, got {type(given).__name__}.")
    return iter(given)


def _is_pair_of_arrays(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and getattr(given[0], "ndim", 0) > 1


def _checked_images(given: Any, number: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    where = f"The mapping, user {number}"
    if not _is_pair_of_arrays(given):
        if isinstance(given, Sequence) and len(given) == 0:
            return np.empty((0, *IMAGE_SHAPE), np.uint8), np.empty(0, np.int32)
        raise DataError(f"{where}: expected a pair of arrays (images, labels) as other users have.")
    images, labels = np.asarray(given[0]), np.asarray(given[1])
    if images.dtype != np.uint8 or images.shape[1:] != IMAGE_SHAPE:
        shape = "×".join(map(str, images.shape[1:]))
        raise DataError(f"{where}: expected images of 28×28 uint8, got {shape} {images.dtype}.")
    if labels.shape != images.shape[:1]:
        raise DataError(f"{where}: expected a label for each of {len(images)} images, got the shape {labels.shape}.")
    if labels.dtype.kind not in "iu" or np.any(labels < 0) or np.any(labels > np.iinfo(np.int32).max):
        raise DataError(f"{where}: expected whole numbers from 0 on as labels.")
    return images, labels.astype(np.int32)


def _checked_word_ids(sentence: Any, vocabulary: Vocabulary | None, where: tuple[str, str, int]) -> NDArray[np.int64]:
    name, unit, place = where
    try:
        ids = np.asarray(sentence)
    except ValueError:  # lists of different lengths
        ids = np.empty((0, 0))
    if isinstance(sentence, bytes) or ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise DataError(
            f"{name}, {unit} {place}: expected a sentence as a string or as a list of word ids, got "
            f"{type(sentence).__name__}."
        )
    size = 1 << 32 if vocabulary is None else len(vocabulary)
    if ids.size and (ids.min() < OOV or ids.max() >= size):
        raise DataError(
            f"{name}, {unit} {place}: expected word ids from {FIRST_WORD} to {size - 1}, or {OOV} for an unknown word."
        )
    return ids.astype(np.int64)


def _ids_of_mapping(source: Mapping[Any, Any]) -> list[str]:
    ids = [_user_id(user, ("The mapping", "user", place)) for place, user in enumerate(source, 1)]
    if len(set(ids)) < len(ids):
        raise DataError("Two ids of the mapping are the same once whole numbers are written as text.")
    return ids


def _user_id(user: Any, where: tuple[str, str, int]) -> str:
    name, unit, place = where
    if isinstance(user, int | np.integer) and not isinstance(user, bool):
        return str(int(user))
    if not isinstance(user, str):
        raise DataError(
            f"{name}, {unit} {place}: expected a user id that is a string or a whole number, got {type(user).__name__}."
        )
    return checked_user(user, name, unit, place)


def _as_vocabulary(given: Vocabulary | Sequence[str] | None) -> Vocabulary | None:
    if given is None or isinstance(given, Vocabulary):
        return given
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise DataError(f"Expected a Vocabulary or a list of public words as vocabulary, got {type(given).__name__}.")
    return vocabulary_of_words(given, provenance=GIVEN_WORDS, place="Word {} of the vocabulary".format)


def _checked_key(key: bytes) -> bytes:
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        got = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
        raise DataError(f"Expected a key of exactly {KEY_BYTES} bytes, got {got}.")
    return key
