"""Edit examples: replace some of them by canaries."""

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
