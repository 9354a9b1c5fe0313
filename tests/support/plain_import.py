"""An import of text as one would write it first: text by text, word by word, everything in memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tacit.data.build import pseudonym
from tacit.data.store import Caps
from tacit.data.text import cut, tokenize
from tacit.data.vocabulary import Vocabulary


def plain_import(
    rows: Iterable[tuple[str, str]], vocabulary: Vocabulary, key: bytes, caps: Caps | None = None
) -> dict[str, bytes]:
    """The bytes of the files of a store of these rows of (user, text), by name."""
    caps = caps or Caps()
    by_user: dict[str, list[str]] = {}
    for user, text in rows:
        if tokenize(text):
            by_user.setdefault(user, []).append(text)
    items, texts, example_ends, text_ends, user_ends, names = [], [], [0], [0], [0], b""
    for user, of_user in by_user.items():
        for text in _kept(of_user, caps):
            items.extend(vocabulary.encode(tokenize(text)).tolist())
            texts.append(text.encode())
            example_ends.append(len(items))
            text_ends.append(text_ends[-1] + len(texts[-1]))
        user_ends.append(len(texts))
        names += pseudonym(user.encode(), key)
    return {
        "items.bin": np.array(items, vocabulary.dtype).tobytes(),
        "texts.bin": b"".join(texts),
        "example_offsets.bin": np.array(example_ends, "<i8").tobytes(),
        "text_offsets.bin": np.array(text_ends, "<i8").tobytes(),
        "user_offsets.bin": np.array(user_ends, "<i8").tobytes(),
        "users.bin": names,
    }


def _kept(texts: list[str], caps: Caps) -> list[str]:
    kept, left = [], caps.tokens
    for text in texts[: caps.examples]:
        if left is not None:
            if left == 0:
                break
            text = cut(text, left)
            left -= len(tokenize(text))
        kept.append(text)
    return kept
