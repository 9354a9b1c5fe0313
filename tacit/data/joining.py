"""Examples of users that come from several places: put together, and brought into the order in which they were asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import offsets_of, ranges
from tacit.data.users import Examples


def joined(parts: Sequence[Examples]) -> Examples:
    """The users of the first part, then those of the second, ...; at least one part. Items get the type of the first part's."""
    first = parts[0]
    labels = (
        None if first.labels is None else np.concatenate([part.labels for part in parts if part.labels is not None])
    )
    return Examples(
        np.concatenate([part.items.astype(first.items.dtype, copy=False) for part in parts]),
        offsets_of(np.concatenate([np.diff(part.example_offsets) for part in parts])),
        offsets_of(np.concatenate([np.diff(part.user_offsets) for part in parts])),
        labels,
    )


def reordered(full: Examples, users: NDArray[np.int64]) -> Examples:
    """The same users in another order: first number users[0], then users[1], ..."""
    counts = np.diff(full.user_offsets)[users]
    return full.take(ranges(full.user_offsets[:-1][users], counts), offsets_of(counts))
