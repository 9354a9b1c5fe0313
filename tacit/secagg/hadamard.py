"""The rotation that spreads a vector's norm evenly over its entries: random signs, then Walsh-Hadamard in blocks.

H D x with D = diag(±1) and H orthonormal keeps the norm, has the inverse D H, and makes every entry
of a block of size B sub-Gaussian with parameter ‖block‖/√B over the signs, whatever x was.

Entry i belongs to block i mod m: neighbouring entries, which often belong to one layer and have similar sizes, go to different
blocks, so that blocks have about the same norm. A block's size is a power of two; padding adds less than one block.

Written over the array namespace of its arguments: the same code serves NumPy and JAX.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

# With a 32 × 32 matrix BLAS is fast, and one pass over memory does five butterfly levels at once.
_RADIX = 32


def rotated(vector: Any, signs: Any, block: int) -> Any:
    """H D x along the last axis, whose length is a multiple of `block`."""
    return _transform(vector * signs, block)


def unrotated(vector: Any, signs: Any, block: int) -> Any:
    """D H x, the inverse of `rotated`."""
    return _transform(vector, block) * signs


def public_signs(seed: bytes, count: int) -> NDArray[np.float64]:
    """±1, from SHAKE-256 of the seed: the same signs for everybody who has it, on every machine and version."""
    bits = np.frombuffer(hashlib.shake_256(b"tacit signs" + seed).digest(-(-count // 8)), np.uint8)
    return 1.0 - 2.0 * np.unpackbits(bits, count=count, bitorder="little").astype(np.float64)


def _transform(vector: Any, block: int) -> Any:
    """Orthonormal Walsh-Hadamard, O(log B) per entry: H_B is the Kronecker product of small ones, applied one by one."""
    xp = vector.__array_namespace__()
    shape = vector.shape
    left = 1
    while left < block:
        radix = min(_RADIX, block // left)
        right = shape[-1] // (left * radix)  # block / (left · radix) rows of m columns each
        vector = xp.matmul(xp.asarray(_hadamard(radix)), vector.reshape(*shape[:-1], left, radix, right))
        left *= radix
    return vector.reshape(shape)


def _hadamard(size: int) -> NDArray[np.float64]:
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / math.sqrt(size)
