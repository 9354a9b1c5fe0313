"""Lists of different lengths, laid end to end in one flat array with offsets.

List i of a flat array is ``flat[offsets[i]:offsets[i + 1]]``; there is one offset more than there are lists.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def offsets_of(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """The offsets of lists with these lengths, beginning at 0."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers start, start + 1, ... (length of them) for every pair, one after the other."""
    offsets = offsets_of(lengths)
    return np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1], dtype=np.int64)


def rows_and_places(lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For lists of these lengths, laid end to end: the list of each item, and its place within the list."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return rows, ranges(np.zeros(len(lengths), np.int64), lengths)


def take_slices(flat: NDArray[np.generic], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.generic]:
    """``flat[start:end]`` for every pair, one after the other, in one new array.

    A slice a pair is quicker than one index an item as soon as a slice holds a few items, and needs no index array. Slices
    that follow each other are taken as one.
    """
    if len(starts) == 0:
        return np.empty((0, *flat.shape[1:]), flat.dtype)
    apart = starts[1:] != ends[:-1]
    starts, ends = starts[np.append(True, apart)], ends[np.append(apart, True)]
    return np.concatenate([flat[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)])
