"""Users on disk: flat arrays that are mapped into memory, so that opening a million users costs nothing.

A store is a folder:

    store.json             what it is (`StoreInfo`)
    items.bin              word ids (uint16 or uint32), or images (28×28 uint8), of all examples back to back
    example_offsets.bin    where each example begins in the items (text only: an image is one item)
    user_offsets.bin       where each user begins in the examples
    labels.bin             the class of each image (images only)
    texts.bin, text_offsets.bin
                           the UTF-8 text of each example, for models of characters and unknown words (text only)
    users.bin              16 bytes a user, the user's name: a keyed hash of the id. The key is thrown away, unless it
                           was given to the import
    vocabulary.txt         the words behind the ids (text only)
    odometer.jsonl         the runs on these users (`tacit.runs.odometer`); it is there after the first one
    budget.jsonl           the account that these runs draw from (`tacit.runs.budget`); it is there once a budget is set

All numbers are little-endian; offsets are int64 and one longer than what they count. A store may lie in shards, each a store by
itself on some machine (`tacit.data.sharded`); its folder then has what every machine needs.

**A user's own name decides whether they are held out**: they are if the second half of the 16 bytes, read as a number of 64
bits, is below `StoreInfo.held_out` · 2⁶⁴. The share is a public constant, and the hash is uniform, so about that share of the
users is held out. Removing a user changes nothing for any other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from tacit.data.flat import PSEUDONYM_BYTES, FlatUsers
from tacit.data.remote import INFO, Origin, Storage, copied, is_url, origin_of
from tacit.data.users import BLOCK, Examples
from tacit.data.vocabulary import Vocabulary, load_vocabulary
from tacit.errors import DataError, StoreError

VOCABULARY, RUNS, BUDGET = "vocabulary.txt", "odometer.jsonl", "budget.jsonl"
IMAGE_SHAPE = (28, 28)
LABEL_DTYPE = np.dtype("<i4")
OFFSET_DTYPE = np.dtype("<i8")


class Caps(BaseModel):
    """How much of one user is kept at most; None is no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    tokens: PositiveInt | None = None
    examples: PositiveInt | None = None


class VocabularyInfo(BaseModel):
    """The vocabulary that the word ids belong to. Words that were counted on the store's own users leave out the held-out."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    size: NonNegativeInt
    fingerprint: str
    provenance: str
    tokenizer: str


class StoreInfo(BaseModel):
    """The content of store.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    format_version: Literal[2] = 2
    store_id: str
    kind: Literal["text", "image"]
    users: NonNegativeInt
    examples: NonNegativeInt
    items: NonNegativeInt
    item_shape: tuple[int, ...]
    item_dtype: Annotated[str, Field(pattern="^uint(8|16|32)$")]
    text_bytes: NonNegativeInt | None = None
    vocabulary: VocabularyInfo | None = None
    sources: tuple[str, ...]
    held_out: Annotated[float, Field(ge=0, lt=1)]
    caps: Caps = Caps()
    skipped: dict[str, int] = {}
    shards: PositiveInt | None = None

    def files(self) -> list[str]:
        """The files of the store, the list of runs left out."""
        names = ["items", "user_offsets", "users", "example_offsets" if self.kind == "text" else "labels"]
        names += ["texts", "text_offsets"] if self.text_bytes is not None else []
        return [INFO, *(f"{name}.bin" for name in names), *([] if self.vocabulary is None else [VOCABULARY])]


class Store(FlatUsers):
    """A store folder as `Users`. Open it with `open_store`."""

    def __init__(self, path: Path, info: StoreInfo, vocabulary: Vocabulary | None) -> None:
        self.path = path
        self.info = info
        self.vocabulary = vocabulary
        users, examples = info.users, info.examples
        items = map_array(path, "items", np.dtype(info.item_dtype), (info.items, *info.item_shape))
        user_offsets = map_array(path, "user_offsets", OFFSET_DTYPE, (users + 1,))
        pseudonyms = map_array(path, "users", np.dtype(np.uint8), (users, PSEUDONYM_BYTES))
        check_ends(path, "user_offsets", user_offsets, examples)
        example_offsets = labels = self._texts = self._text_offsets = None
        if info.kind == "text":
            example_offsets = map_array(path, "example_offsets", OFFSET_DTYPE, (examples + 1,))
            check_ends(path, "example_offsets", example_offsets, info.items)
        else:
            labels = map_array(path, "labels", LABEL_DTYPE, (examples,))
        if info.text_bytes is not None:
            self._texts = map_array(path, "texts", np.dtype(np.uint8), (info.text_bytes,))
            self._text_offsets = map_array(path, "text_offsets", OFFSET_DTYPE, (examples + 1,))
            check_ends(path, "text_offsets", self._text_offsets, info.text_bytes)
        super().__init__(
            items=items,
            example_offsets=example_offsets,
            user_offsets=user_offsets,
            labels=labels,
            pseudonyms=pseudonyms,
            held_out=info.held_out,
            where=f"The store {path}",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the folder where it stands; no text travels."""
        return _reopened, (self.path.resolve(), self.info, origin_of(self.path))

    @property
    def store_id(self) -> str:
        """The id that this store got when it was made."""
        return self.info.store_id

    def texts(self, users: NDArray[np.int64]) -> Examples:
        """The texts of these users, as UTF-8: like `gather`, but an item is a byte."""
        if self._texts is None:
            raise StoreError(f"The store {self.path} keeps no texts.")
        return self._gather_ragged(self._texts, self._text_offsets, *self._spans(users))

    def text_blocks(self, users: NDArray[np.int64] | None = None) -> Iterator[list[str]]:
        """All examples of these users (of all, if not given) as strings, a block at a time."""
        everyone = np.arange(len(self), dtype=np.int64) if users is None else users
        for start in range(0, len(everyone), BLOCK):
            block = self.texts(everyone[start : start + BLOCK])
            yield split_texts(block)


def split_texts(block: Examples) -> list[str]:
    """The examples of a block of texts, as strings."""
    data = block.items.tobytes()
    offsets = block.example_offsets.tolist()
    try:
        return [data[start:end].decode() for start, end in pairwise(offsets)]
    except UnicodeDecodeError:
        raise StoreError("The store is damaged: its texts are not UTF-8.") from None


def open_store(path: str | Path) -> Store:
    """Open the store in this folder, or a copy of the one at this URL, which is made once on each machine.

    The size of every file is checked, and no file is read through.

    >>> import tempfile, tacit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tacit.users({"ann": ["see you"]}, vocabulary=["see", "you"]).save(f"{folder}/chat")
    ...     tacit.open_store(f"{folder}/chat").vocabulary.words
    ('see', 'you')
    """
    return _opened(_copy_of(str(path)) if is_url(path) else Path(path))


def _opened(folder: Path) -> Store:
    if not folder.is_dir():
        raise StoreError(f"There is no store {folder}.", hint="`tacit data import` makes one.")
    try:
        info = _info((folder / INFO).read_bytes(), folder)
    except FileNotFoundError:
        raise StoreError(f"The folder {folder} is no store: it has no {INFO}.") from None
    except OSError as error:
        raise StoreError(f"The store {folder} cannot be read: {error.strerror}.") from None
    vocabulary = _vocabulary(folder, info)
    if info.shards is not None:
        from tacit.data.sharded import ShardedStore  # it is a Store, so it cannot be imported above

        return ShardedStore(folder, info, vocabulary)
    return Store(folder, info, vocabulary)


def _copy_of(url: str) -> Path:
    """The copy on this machine of the store at a URL."""
    storage = Storage(url)
    content = storage.read(INFO)
    if content is None:
        raise StoreError(f"There is no store at {url}: it has no {INFO}.")
    info = _info(content, url)
    if info.shards is not None:
        raise StoreError(f"The store {url} lies in shards: copy these to the disks of the machines that train them.")
    return copied(storage, content, info.files(), [RUNS], _opened)


def _info(content: bytes, where: str | Path) -> StoreInfo:
    try:
        return StoreInfo.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise StoreError(f"The store {where} is damaged or of another version: {INFO}, {field}.") from None


def _reopened(folder: Path, info: StoreInfo, origin: Origin | None) -> Store:
    """The store that another process has open; StoreError if it is not here, or another one is."""
    where: str | Path = folder if origin is None else origin.url
    found = open_store(where)
    if found.info != info or (origin is not None and origin_of(found.path) != origin):
        raise StoreError(f"The store {where} is another one here than where it was opened first.")
    return found


def _vocabulary(folder: Path, info: StoreInfo) -> Vocabulary | None:
    if info.vocabulary is None:
        return None
    try:
        vocabulary = load_vocabulary(folder / VOCABULARY)
    except DataError as error:
        raise StoreError(f"The store {folder} is damaged: {error.sentence}") from None
    if vocabulary.fingerprint != info.vocabulary.fingerprint or vocabulary.provenance != info.vocabulary.provenance:
        raise StoreError(f"The store {folder} is damaged: {VOCABULARY} is not the vocabulary it was made with.")
    return vocabulary


def map_array(folder: Path, name: str, dtype: np.dtype, shape: tuple[int, ...]) -> NDArray:
    """The array in NAME.bin, mapped into memory, read-only."""
    path = folder / f"{name}.bin"
    expected = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    try:
        found = path.stat().st_size
        if found != expected:
            raise StoreError(f"The store {folder} is damaged: {path.name} has {found} bytes; expected {expected}.")
        if expected == 0:
            return np.empty(shape, dtype)
        # A plain array over the map: slices of `np.memmap` itself are several times slower.
        return np.asarray(np.memmap(path, dtype, "r", shape=shape))
    except FileNotFoundError:
        raise StoreError(f"The store {folder} is damaged: it has no {path.name}.") from None
    except OSError as error:
        raise StoreError(f"The store {folder} cannot be read: {path.name}, {error.strerror}.") from None


def check_ends(folder: Path, name: str, offsets: NDArray[np.int64], total: int) -> None:
    if offsets[0] != 0 or offsets[-1] != total:
        raise StoreError(f"The store {folder} is damaged: {name}.bin does not count to {total}.")


assert sys.byteorder == "little", "stores are mapped as they are written, little-endian"
