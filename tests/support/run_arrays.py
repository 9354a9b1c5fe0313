"""The arrays of a run's last checkpoint, to compare runs by."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tacit.runs import checkpoints


def final_arrays(run: Path) -> dict[str, np.ndarray]:
    checkpoint = checkpoints.latest(run / "checkpoints")
    assert checkpoint is not None
    return checkpoint.arrays


def assert_same_arrays(a: Path, b: Path) -> None:
    one, other = final_arrays(a), final_arrays(b)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
