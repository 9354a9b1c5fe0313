"""ChaCha20 (RFC 8439) as plain 32-bit JAX operations: a key stream of 256-bit keys that any device computes in parallel.

A block of the key stream is a fixed permutation of sixteen 32-bit words (four constants, eight words of key, a
counter, three words of nonce), added to those words. Blocks do not depend on each other, so that a million of them
are one array operation, the same with and without 64-bit types, inside and outside `jax.jit`, on processors and on
GPUs. Nothing here branches or looks up memory by secret values.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

KEY_WORDS = 8
NONCE_WORDS = 3

# "expand 32-byte k" as little-endian words.
_CONSTANTS = tuple(np.frombuffer(b"expand 32-byte k", "<u4").tolist())
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def key_stream(key: jax.Array, nonce: jax.Array, counters: jax.Array) -> tuple[jax.Array, ...]:
    """The sixteen words of each block that `counters` (uint32, any shape) names, each shaped like `counters`.

    `key` has eight words and `nonce` three, all uint32; read little-endian they are the bytes of the RFC.
    """
    words = [jnp.uint32(each) for each in _CONSTANTS]
    words += [key[i] for i in range(KEY_WORDS)]
    words += [counters, *(nonce[i] for i in range(NONCE_WORDS))]
    start = tuple(jnp.broadcast_to(word.astype(jnp.uint32), counters.shape) for word in words)
    # A loop, so that a program with many draws stays short to compile.
    mixed = jax.lax.fori_loop(0, 10, lambda _, state: _double_round(state), start)
    return tuple(before + after for before, after in zip(start, mixed, strict=True))


def _double_round(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    words = list(state)
    for a, b, c, d in (*_COLUMNS, *_DIAGONALS):
        words[a], words[b], words[c], words[d] = quarter_round(words[a], words[b], words[c], words[d])
    return tuple(words)


def quarter_round(
    a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """RFC 8439, section 2.1."""
    a = a + b
    d = _rotated(d ^ a, 16)
    c = c + d
    b = _rotated(b ^ c, 12)
    a = a + b
    d = _rotated(d ^ a, 8)
    c = c + d
    b = _rotated(b ^ c, 7)
    return a, b, c, d


def _rotated(word: jax.Array, bits: int) -> jax.Array:
    """To the left."""
    return (word << np.uint32(bits)) | (word >> np.uint32(32 - bits))
