"""Random words for samplers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def draws(generator: np.random.Generator, users: int) -> NDArray[np.uint64]:
    """A uniform word for each of so many users, as `Randomness.draws` gives them."""
    return generator.integers(0, 2**64, size=users, dtype=np.uint64)
