"""Write a store: into a temporary folder, which gets the final name only when everything is there."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tacit.data.flat import PSEUDONYM_BYTES
from tacit.data.folders import new_folder
from tacit.data.store import (
    IMAGE_SHAPE,
    INFO,
    LABEL_DTYPE,
    OFFSET_DTYPE,
    VOCABULARY,
    StoreInfo,
    VocabularyInfo,
)
from tacit.data.text import TOKENIZER
from tacit.data.users import Examples, Users, all_names, in_blocks, require_distinct
from tacit.data.vocabulary import Vocabulary
from tacit.errors import DataError

KEY_BYTES = 32
# The share of users that is held out by default.
HELD_OUT_SHARE = 0.05

# Called with the stage, how much of it is done, and how much there is in all where that is known.
Progress = Callable[[str, int, int | None], None]


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""


class ArrayFile:
    """An array on disk that grows at its end."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype) -> None:
        self._file = open(folder / f"{name}.bin", "xb")  # noqa: SIM115 - closed by the with statement around it
        self._dtype = dtype

    def append(self, values: NDArray) -> None:
        """Write these values after those already there."""
        self._file.write(np.ascontiguousarray(values, self._dtype).data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class OffsetFile(ArrayFile):
    """Offsets on disk, written as lengths arrive; `total` is the last of them."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name, OFFSET_DTYPE)
        self.total = 0
        self.count = 0
        super().append(np.zeros(1, np.int64))

    def append(self, values: NDArray) -> None:
        """Write the offsets that follow lists of these lengths."""
        if len(values) == 0:
            return
        ends = self.total + np.cumsum(values, dtype=np.int64)
        super().append(ends)
        self.total = int(ends[-1])
        self.count += len(values)


def write_info(folder: Path, info: StoreInfo) -> None:
    """Write store.json."""
    (folder / INFO).write_text(info.model_dump_json(indent=2) + "\n", encoding="utf-8")


def write_vocabulary(folder: Path, vocabulary: Vocabulary) -> VocabularyInfo:
    """Write vocabulary.txt and say what it is."""
    vocabulary.save(folder / VOCABULARY)
    return VocabularyInfo(
        size=len(vocabulary),
        fingerprint=vocabulary.fingerprint,
        provenance=vocabulary.provenance,
        tokenizer=TOKENIZER,
    )


def new_store_id() -> str:
    """A random id for a store."""
    return secrets.token_hex(16)


def pseudonym(user: bytes, key: bytes) -> bytes:
    """The name of the user with this id: 16 bytes that nobody without the key can tell from random ones."""
    return hashlib.blake2b(user, key=key, digest_size=PSEUDONYM_BYTES).digest()


def new_key() -> bytes:
    """A random key for pseudonyms. Once it is forgotten, nobody can look for a guessed id."""
    return secrets.token_bytes(KEY_BYTES)


def checked_share(held_out: float) -> float:
    """The share of held-out users, if it is from 0 to below 1; DataError otherwise."""
    if not 0 <= held_out < 1:
        raise DataError(f"Expected a share of held-out users from 0 to below 1, got {held_out:g}.")
    return held_out


def save_users(
    users: Users,
    out: str | Path,
    *,
    source: str,
    vocabulary: Vocabulary | None,
    held_out: float = HELD_OUT_SHARE,
    key: bytes | None = None,
    keep_names: bool = False,
    store_id: str | None = None,
    texts: Callable[[NDArray[np.int64]], Examples] | None = None,
    progress: Progress = no_progress,
) -> None:
    """Write any users (a world, a view) to a new store. With a vocabulary they are text, without one images.

    The store keeps word ids, and no texts unless `texts` gives those of some users, an item a byte. A user's pseudonym is a
    hash of the name they have in `users`, with this key or with one that is thrown away; with `keep_names` it is that name,
    which must be such a hash already. The store gets this id or a random one.
    """
    checked_share(held_out)
    require_distinct(all_names(users))
    key = new_key() if key is None else key
    with new_folder(Path(out)) as folder, ExitStack() as files:
        text = vocabulary is not None
        dtype = vocabulary.dtype if vocabulary is not None else np.dtype(np.uint8)
        items = files.enter_context(ArrayFile(folder, "items", dtype))
        user_offsets = files.enter_context(OffsetFile(folder, "user_offsets"))
        pseudonyms = files.enter_context(ArrayFile(folder, "users", np.dtype(np.uint8)))
        example_offsets = files.enter_context(OffsetFile(folder, "example_offsets")) if text else None
        labels = None if text else files.enter_context(ArrayFile(folder, "labels", LABEL_DTYPE))
        written = None if texts is None else files.enter_context(ArrayFile(folder, "texts", np.dtype(np.uint8)))
        text_offsets = None if texts is None else files.enter_context(OffsetFile(folder, "text_offsets"))
        total = 0
        for numbers in in_blocks(len(users)):
            block = users.gather(numbers)
            items.append(block.items)
            user_offsets.append(np.diff(block.user_offsets))
            names = users.names(numbers)
            hashed = names.tobytes() if keep_names else b"".join(pseudonym(name.tobytes(), key) for name in names)
            pseudonyms.append(np.frombuffer(hashed, np.uint8))
            total += len(block.items)
            if example_offsets is not None:
                example_offsets.append(np.diff(block.example_offsets))
            if labels is not None:
                if block.labels is None:
                    raise DataError("Users without a vocabulary are images, and these have no labels.")
                labels.append(block.labels)
            if texts is not None and written is not None and text_offsets is not None:
                theirs = texts(numbers)
                written.append(theirs.items)
                text_offsets.append(np.diff(theirs.example_offsets))
            progress("writing", int(numbers[-1]) + 1, len(users))
        files.close()
        write_info(
            folder,
            StoreInfo(
                store_id=new_store_id() if store_id is None else store_id,
                kind="text" if text else "image",
                users=len(users),
                examples=user_offsets.total,
                items=total,
                item_shape=() if text else IMAGE_SHAPE,
                item_dtype=dtype.name,
                text_bytes=None if text_offsets is None else text_offsets.total,
                vocabulary=None if vocabulary is None else write_vocabulary(folder, vocabulary),
                sources=(source,),
                held_out=held_out,
            ),
        )
