"""Edit examples: replace, pick, join and reorder them. Planting is made of these operations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import offsets_of, ranges
from tacit.data.users import Examples
from tacit.errors import AuditError


def replaced(full: Examples, which: NDArray[np.int64], contents: list[NDArray[Any]]) -> Examples:
    """The examples, where example i is replaced by contents[which[i]] unless which[i] is -1."""
    if full.labels is not None:
        raise AuditError("Canaries can be planted among text only, not among images.")
    if not (which >= 0).any():
        return full
    sizes = np.array([len(content) for content in contents], np.int64)
    lengths = np.where(which >= 0, sizes[which], np.diff(full.example_offsets))
    offsets = offsets_of(lengths)
    items = np.empty(offsets[-1], full.items.dtype)
    kept = which < 0
    items[ranges(offsets[:-1][kept], lengths[kept])] = full.items[
        ranges(full.example_offsets[:-1][kept], lengths[kept])
    ]
    for number in np.unique(which[~kept]):
        rows = which == number
        items[ranges(offsets[:-1][rows], lengths[rows])] = np.tile(contents[number], int(rows.sum()))
    return Examples(items, offsets, full.user_offsets)


def joined(first: Examples, second: Examples) -> Examples:
    """The users of `first`, then those of `second`."""
    items = np.concatenate([first.items, second.items.astype(first.items.dtype)])
    return Examples(
        items,
        np.concatenate([first.example_offsets, first.example_offsets[-1] + second.example_offsets[1:]]),
        np.concatenate([first.user_offsets, first.user_offsets[-1] + second.user_offsets[1:]]),
        first.labels,
    )


def reordered(full: Examples, users: NDArray[np.int64]) -> Examples:
    """The same users in another order: first number users[0], then users[1], ..."""
    counts = np.diff(full.user_offsets)[users]
    return full.take(ranges(full.user_offsets[:-1][users], counts), offsets_of(counts))
