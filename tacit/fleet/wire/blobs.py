"""Files that devices download, each named by its SHA-256, and the checkpoint format.

A checkpoint is a safetensors file of the model's arrays in order, named 0000, 0001, …; a device does not need the names that
the arrays have in the model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from tacit.errors import FleetError


def sha256_of(content: bytes | bytearray) -> str:
    """The SHA-256 of these bytes in hexadecimal: the name of a blob."""
    return hashlib.sha256(content).hexdigest()


def packed_leaves(leaves: Sequence[NDArray[np.float32]]) -> bytes:
    """A checkpoint of these arrays."""
    return save({f"{i:04d}": np.array(leaf, np.float32, order="C") for i, leaf in enumerate(leaves)})


def leaves_of(blob: bytes, shapes: Sequence[tuple[int, ...]]) -> list[NDArray[np.float32]]:
    """The arrays of a checkpoint; FleetError unless they are finite float32 arrays of exactly these shapes."""
    try:
        found = load(blob)
    except (SafetensorError, KeyError):  # KeyError: a dtype that NumPy does not have
        raise FleetError("Expected a checkpoint in the safetensors format, got other bytes.") from None
    names = [f"{i:04d}" for i in range(len(shapes))]
    if sorted(found) != names:
        raise FleetError(f"Expected a checkpoint of {len(shapes)} arrays named 0000, 0001, …, got {len(found)} arrays.")
    leaves = [found[name] for name in names]
    for leaf, shape in zip(leaves, shapes, strict=True):
        if leaf.dtype != np.float32 or leaf.shape != tuple(shape) or not np.isfinite(leaf).all():
            raise FleetError(
                f"Expected finite float32 of shape {tuple(shape)} in a checkpoint, got {leaf.dtype} {leaf.shape}, inf or nan."
            )
    return leaves
