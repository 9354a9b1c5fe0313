"""Uniform 64-bit words from a cipher, and exactly uniform subsets made of them.

Amplification by sampling holds against somebody who cannot guess the sample, so that samplers draw from a cipher with
a 256-bit key, like the noise. They ask for words and nothing else, as NumPy's generators give them, so that in a test
one of those may take the cipher's place.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray


class Words(Protocol):
    """What samplers draw from: a `CipherWords`, or in tests a `numpy.random.Generator`."""

    def integers(self, low: int, high: int, *, size: int, dtype: type[np.uint64]) -> NDArray[np.uint64]:
        """`size` independent numbers, uniform on low .. high - 1; samplers ask for 0 .. 2⁶⁴ - 1."""
        ...


class CipherWords:
    """The key stream of ChaCha20 under a key of 32 bytes that is used for this alone, as 64-bit words one after the other."""

    def __init__(self, key: bytes) -> None:
        self._stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
        self._words_left = 1 << 35  # 2³² blocks of 64 bytes, after which the counter would begin anew

    def integers(self, low: int, high: int, *, size: int, dtype: type[np.uint64] = np.uint64) -> NDArray[np.uint64]:
        """The next `size` words. The range is that of a word: nothing else is asked for, and nothing else is given."""
        if (low, high, dtype) != (0, 1 << 64, np.uint64):
            raise ValueError(
                f"Expected whole words of 64 bits to be asked for, got {low} to {high} as {dtype.__name__}."
            )
        if size > self._words_left:
            raise ValueError(f"Expected at most {self._words_left} more words of this key stream, got {size}.")
        self._words_left -= size
        return np.frombuffer(self._stream.update(bytes(8 * size)), "<u8").astype(np.uint64)


def words(source: Words, count: int) -> NDArray[np.uint64]:
    """`count` independent uniform words."""
    return source.integers(0, 1 << 64, size=count, dtype=np.uint64)


def subset(population: int, size: int, source: Words) -> NDArray[np.int64]:
    """`size` of the numbers below `population`, every such set with the same probability, in ascending order.

    The first `size` different values of a sequence of independent uniform numbers are a uniform subset, by symmetry.
    More than half is chosen by choosing whom to leave out, so that hardly more than twice as many numbers are drawn
    as are needed.
    """
    if not 0 <= size <= population:
        raise ValueError(f"Expected a size from 0 to {population}, got {size}.")
    if 2 * size > population:
        left_out = subset(population, population - size, source)
        return np.delete(np.arange(population, dtype=np.int64), left_out)
    drawn = np.zeros(0, np.int64)
    while True:
        _, first = np.unique(drawn, return_index=True)
        if len(first) >= size:
            return np.sort(drawn[np.sort(first)[:size]])
        drawn = np.concatenate([drawn, _below(population, 2 * (size - len(first)) + 64, source)])


def _below(bound: int, count: int, source: Words) -> NDArray[np.int64]:
    """At most `count` independent numbers, uniform below `bound`: words beyond the last whole multiple are thrown away."""
    drawn = words(source, count)
    last = (1 << 64) // bound * bound - 1
    return (drawn[drawn <= np.uint64(last)] % np.uint64(bound)).astype(np.int64)
