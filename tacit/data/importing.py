"""Import files into a store: rows of (user, text) or (user, images) become a new folder.

A failed import leaves no files behind. No message quotes a text or a user's id.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress, islice, pairwise
from pathlib import Path

import numpy as np

from tacit.data.build import (
    HELD_OUT_SHARE,
    ArrayFile,
    OffsetFile,
    Progress,
    checked_share,
    new_key,
    new_store_id,
    no_progress,
    write_info,
    write_vocabulary,
)
from tacit.data.flat import PSEUDONYM_BYTES
from tacit.data.folders import new_folder
from tacit.data.grouping import Grouped, Grouping, Keep, UserBlock, spans
from tacit.data.in_order import in_order
from tacit.data.ragged import offsets_of
from tacit.data.sources import ImageSource, Source, TextSource, checked_user, skip
from tacit.data.store import IMAGE_SHAPE, LABEL_DTYPE, Caps, Store, StoreInfo, open_store
from tacit.data.text import END, cut, has_token, tokenize
from tacit.data.users import is_held_out
from tacit.data.vocabulary import PRIVATE, Vocabulary, checked_size, count_vocabulary
from tacit.errors import DataError

NO_CAPS = Caps()
_REPORT_EVERY = 10_000
# Rows of text are checked so many characters at a time, or fewer.
_BATCH = 1 << 22
_PLAIN_LETTERS = frozenset(string.ascii_letters + string.digits)
# So many users that were checked are remembered, and those of a batch more.
_REMEMBERED = 100_000
# Texts are encoded in pieces of about this many bytes, as many at a time as there are cores.
_PIECE = 1 << 20
_BYTE = np.dtype(np.uint8)


@dataclass(frozen=True)
class PrivateVocabulary:
    """Count the vocabulary on the imported users themselves, which makes every later guarantee infinite.

    Held-out users are not counted.
    """

    size: int


def import_text(
    sources: Sequence[TextSource],
    out: str | Path,
    *,
    vocabulary: Vocabulary | PrivateVocabulary,
    held_out: float = HELD_OUT_SHARE,
    key: bytes | None = None,
    caps: Caps = NO_CAPS,
    progress: Progress = no_progress,
) -> Store:
    """Make a store of rows of text, which may be in any order and larger than memory.

    About the share `held_out` of the users is held out, each by a hash of their own id (`tacit.data.store`). `key` makes
    pseudonyms of ids: with the same key the same people get the same names, and the same people are held out. Without a key,
    a random one is used and thrown away.

    A row is an example. Texts without any word are left out, and so are users who have no other texts. The caps keep a
    user's first examples and first tokens; the example that crosses the token cap is cut there.
    """
    checked_share(held_out)
    if isinstance(vocabulary, PrivateVocabulary):
        checked_size(vocabulary.size)
    with new_folder(Path(out)) as folder:
        grouping = Grouping(folder / "spill", new_key() if key is None else key)
        checked: set[str] = set()
        for rows in _in_batches(sources, progress):
            rows = rows.with_words()
            if len(checked) >= _REMEMBERED:
                checked.clear()
            grouping.add(rows.users, rows.checked(checked))
        if grouping.rows == 0:
            raise DataError(f"{_names(sources)} holds no text with a word in it{_left_out(sources)}.")
        grouped = grouping.group(_keep_text(caps))
        words = vocabulary if isinstance(vocabulary, Vocabulary) else _count(grouped, vocabulary, held_out, progress)
        described = write_vocabulary(folder, words)
        with ExitStack() as files:
            users = _UserFiles(folder, files)
            items = files.enter_context(ArrayFile(folder, "items", words.dtype))
            example_offsets = files.enter_context(OffsetFile(folder, "example_offsets"))
            texts = files.enter_context(ArrayFile(folder, "texts", _BYTE))
            text_offsets = files.enter_context(OffsetFile(folder, "text_offsets"))

            def written() -> Iterator[str]:
                for block in grouped.blocks():
                    users.append(block)
                    texts.append(block.payloads)
                    text_offsets.append(block.lengths)
                    progress("writing users", users.offsets.count, len(grouped))
                    yield from _closed(block)

            for ids, lengths in in_order(words.encode_closed, written()):
                items.append(ids)
                example_offsets.append(lengths)
        grouped.discard()
        info = StoreInfo(
            store_id=new_store_id(),
            kind="text",
            users=users.offsets.count,
            examples=users.offsets.total,
            items=example_offsets.total,
            item_shape=(),
            item_dtype=words.dtype.name,
            text_bytes=text_offsets.total,
            vocabulary=described,
            sources=_formats(sources),
            held_out=held_out,
            caps=caps,
            skipped=_skipped(sources),
        )
        write_info(folder, info)
    return open_store(out)


def import_images(
    sources: Sequence[ImageSource],
    out: str | Path,
    *,
    held_out: float = HELD_OUT_SHARE,
    key: bytes | None = None,
    caps: Caps = NO_CAPS,
    progress: Progress = no_progress,
) -> Store:
    """Make a store of rows of labelled images. The cap on examples keeps a user's first images.

    `held_out` and `key` are as for text.
    """
    checked_share(held_out)
    if caps.tokens is not None:
        raise DataError(f"A cap of {caps.tokens} tokens does not fit images; cap the examples instead.")
    with new_folder(Path(out)) as folder:
        grouping = Grouping(folder / "spill", new_key() if key is None else key)
        for source, place, user, images, labels in _rows(sources, progress):
            checked_user(user, source.name, source.unit, place)
            grouping.add([user] * len(images), [image.tobytes() for image in images], labels.tolist())
        if grouping.rows == 0:
            raise DataError(f"{_names(sources)} holds no image.")
        most = caps.examples
        grouped = grouping.group(None if most is None else lambda payloads: islice(payloads, most))
        with ExitStack() as files:
            users = _UserFiles(folder, files)
            items = files.enter_context(ArrayFile(folder, "items", _BYTE))
            labels_file = files.enter_context(ArrayFile(folder, "labels", LABEL_DTYPE))
            for block in grouped.blocks():
                users.append(block)
                items.append(block.payloads)
                labels_file.append(block.labels)
                progress("writing users", users.offsets.count, len(grouped))
        grouped.discard()
        info = StoreInfo(
            store_id=new_store_id(),
            kind="image",
            users=users.offsets.count,
            examples=users.offsets.total,
            items=users.offsets.total,
            item_shape=IMAGE_SHAPE,
            item_dtype=_BYTE.name,
            sources=_formats(sources),
            held_out=held_out,
            caps=caps,
            skipped=_skipped(sources),
        )
        write_info(folder, info)
    return open_store(out)


class _UserFiles:
    """The two arrays every store has: where users begin, and their pseudonyms."""

    def __init__(self, folder: Path, files: ExitStack) -> None:
        self.offsets = files.enter_context(OffsetFile(folder, "user_offsets"))
        self._pseudonyms = files.enter_context(ArrayFile(folder, "users", _BYTE))

    def append(self, block: UserBlock) -> None:
        assert block.pseudonyms.shape[1:] == (PSEUDONYM_BYTES,)
        self.offsets.append(block.row_counts)
        self._pseudonyms.append(block.pseudonyms)


def _rows(sources: Sequence[Source], progress: Progress) -> Iterator[tuple]:
    """The rows of all sources, each with its source in front."""
    count = 0
    for source in sources:
        for row in source.rows:
            yield (source, *row)
            count += 1
            if count % _REPORT_EVERY == 0:
                progress("reading rows", count, None)


@dataclass(frozen=True)
class _Batch:
    """Rows of text of one source that follow each other."""

    source: TextSource
    places: list[int]
    users: list[str]
    texts: list[str]

    def with_words(self) -> _Batch:
        """The rows whose text has a word; the others are counted as skipped."""
        # What begins with one of these letters has a word, and asking costs less than a call a row.
        kept = [text[:1] in _PLAIN_LETTERS or has_token(text) for text in self.texts]
        if all(kept):
            return self
        for _ in range(kept.count(False)):
            skip(self.source.skipped, "texts without a word")
        places, users, texts = compress(self.places, kept), compress(self.users, kept), compress(self.texts, kept)
        return _Batch(self.source, list(places), list(users), list(texts))

    def checked(self, known: set[str]) -> list[bytes]:
        """The texts as UTF-8; DataError for the first row that cannot be imported. Adds these users to the known ones."""
        name, unit = self.source.name, self.source.unit
        new = set(self.users) - known
        try:
            for user in new:
                checked_user(user, name, unit, 0)
            if "\0" not in "".join(self.texts):
                encoded = [text.encode() for text in self.texts]
                known |= new
                return encoded
        except (DataError, UnicodeEncodeError):
            pass  # some row is wrong, perhaps several: the first one is told
        encoded = []
        for place, user, text in zip(self.places, self.users, self.texts, strict=True):
            known.add(checked_user(user, name, unit, place))
            encoded.append(_checked_text(self.source, place, text))
        return encoded


def _in_batches(sources: Sequence[TextSource], progress: Progress) -> Iterator[_Batch]:
    """All rows, some at a time. Where a source turns out to be damaged, the rows before come first, and then the error."""
    count = 0
    for source in sources:
        batch, characters = _Batch(source, [], [], []), 0
        try:
            for place, user, text in source.rows:
                batch.places.append(place)
                batch.users.append(user)
                batch.texts.append(text)
                count += 1
                characters += len(text)
                if count % _REPORT_EVERY == 0 or characters >= _BATCH:
                    yield batch
                    batch, characters = _Batch(source, [], [], []), 0
                    if count % _REPORT_EVERY == 0:
                        progress("reading rows", count, None)
        except DataError:
            yield batch
            raise
        yield batch


def _checked_text(source: Source, place: int, text: str) -> bytes:
    if "\0" in text:
        raise DataError(f"{source.name}, {source.unit} {place}: the text holds a NUL character.")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DataError(f"{source.name}, {source.unit} {place}: the text is not valid Unicode.") from None


def _keep_text(caps: Caps) -> Keep | None:
    """The caps as a function from all examples of a user to those that are kept."""
    most_tokens, most = caps.tokens, caps.examples
    if most_tokens is None:
        return None if most is None else lambda payloads: islice(payloads, most)

    def keep(payloads: Iterator[bytes]) -> Iterator[bytes]:
        left = most_tokens
        for payload in islice(payloads, most):
            text = payload.decode()
            tokens = len(tokenize(text))
            if tokens >= left:
                yield payload if tokens == left else cut(text, left).encode()
                return
            left -= tokens
            yield payload

    return keep


def _closed(block: UserBlock) -> Iterator[str]:
    """The block's texts in a few pieces of some size, joined as `tacit.data.text.closed` joins texts."""
    data = np.where(block.payloads == ord(END), np.uint8(ord(" ")), block.payloads)
    ends = offsets_of(block.lengths)
    for first, last in spans(block.lengths, _PIECE):
        begin = ends[first]
        closed = np.insert(data[begin : ends[last]], ends[first + 1 : last + 1] - begin, ord(END))
        yield closed.tobytes().decode()


def _strings(block: UserBlock) -> list[str]:
    data = block.payloads.tobytes()
    offsets = offsets_of(block.lengths).tolist()
    return [data[start:end].decode() for start, end in pairwise(offsets)]


def _count(grouped: Grouped, wanted: PrivateVocabulary, held_out: float, progress: Progress) -> Vocabulary:
    """The vocabulary of all users but the held-out ones."""

    def texts() -> Iterator[str]:
        done = 0
        for block in grouped.blocks():
            aside = is_held_out(block.pseudonyms.view("<u8"), held_out)
            of_counted = np.repeat(~aside, block.row_counts).tolist()
            yield from (text for text, use in zip(_strings(block), of_counted, strict=True) if use)
            done += len(block.row_counts)
            progress("counting words", done, len(grouped))

    return count_vocabulary(texts(), size=wanted.size, provenance=PRIVATE)


def _names(sources: Sequence[Source]) -> str:
    return " and ".join(source.name for source in sources)


def _left_out(sources: Sequence[Source]) -> str:
    """Which rows were left out, as an addition to a sentence."""
    counted = ", ".join(f"{count:,} {reason}" for reason, count in _skipped(sources).items())
    return f" (left out: {counted})" if counted else ""


def _formats(sources: Sequence[Source]) -> tuple[str, ...]:
    return tuple(sorted({source.format for source in sources}))


def _skipped(sources: Sequence[Source]) -> dict[str, int]:
    reasons = sorted({reason for source in sources for reason in source.skipped})
    return {reason: sum(source.skipped.get(reason, 0) for source in sources) for reason in reasons}
