"""Masks, and vectors packed into bytes. A mask is a vector modulo 2^bits that looks random to everybody without its seed.

A mask is the AES-256-CTR key stream of its 32 byte seed, cut into little-endian words of 32 bits; addition is modulo 2³² and
the result is reduced modulo 2^bits once, at the end, which is the same because 2^bits divides 2³². A seed is used for one mask,
so the counter can start at zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from tacit.errors import ProtocolError

Words = NDArray[np.uint32]

_WORD = np.dtype("<u4")
# Small enough that a piece's key stream, the zeros it is made from and the sum stay in a core's cache together.
_PIECE = 1 << 15
_ZEROS = bytes(_PIECE * _WORD.itemsize)


@dataclass(frozen=True)
class Mask:
    """A mask's seed, which is secret and not shown in a repr, and whether the mask is subtracted."""

    seed: bytes = field(repr=False)
    negative: bool


def with_masks(values: Words, masks: Iterable[Mask], bits: int) -> Words:
    """values + Σ ± mask, modulo 2^bits, as a new array.

    Masks are additive: parts of `masks` may be added to zeros elsewhere, and the results added here.
    """
    total = values.astype(_WORD)
    for mask in masks:
        _add_stream(total, mask)
    return reduced(total, bits)


def reduced(values: Words, bits: int) -> Words:
    """The values modulo 2^bits."""
    return values & np.uint32((1 << bits) - 1)


def _add_stream(total: Words, mask: Mask) -> None:
    stream = Cipher(AES(mask.seed), CTR(bytes(16))).encryptor()
    buffer = bytearray(len(_ZEROS) + 15)  # the library needs room for one more block, less a byte
    words = np.frombuffer(buffer, _WORD, count=_PIECE)
    combine = np.subtract if mask.negative else np.add
    for start in range(0, len(total), _PIECE):
        piece = total[start : start + _PIECE]
        stream.update_into(memoryview(_ZEROS)[: piece.nbytes], buffer)
        combine(piece, words[: len(piece)], out=piece)


def packed_bytes(dimension: int, bits: int) -> int:
    """How many bytes `pack` makes of this many entries."""
    return -(-dimension * bits // 8)


def pack(values: Words, bits: int) -> bytes:
    """The entries, `bits` bits each, low bits first, without gaps; the last byte is filled with zeros."""
    groups = _groups_of_eight(values)
    out = np.zeros((len(groups), bits), np.uint8)  # eight entries fill `bits` bytes
    for entry in range(8):
        column = groups[:, entry]
        for byte, shift in _overlaps(entry, bits):
            part = column >> np.uint32(shift) if shift >= 0 else column << np.uint32(-shift)
            out[:, byte] |= part.astype(np.uint8)
    return out.tobytes()[: packed_bytes(len(values), bits)]


def unpack(packed: bytes, dimension: int, bits: int) -> Words:
    """The inverse of `pack`; ProtocolError for bytes that `pack` cannot have made."""
    if len(packed) != packed_bytes(dimension, bits):
        raise ProtocolError(f"Expected a vector of {packed_bytes(dimension, bits)} bytes, got {len(packed)}.")
    rows = -(-dimension // 8)
    flat = np.zeros(rows * bits, np.uint8)
    flat[: len(packed)] = np.frombuffer(packed, np.uint8)
    source = flat.reshape(rows, bits)
    groups = np.zeros((rows, 8), _WORD)
    for entry in range(8):
        for byte, shift in _overlaps(entry, bits):
            column = source[:, byte].astype(_WORD)
            groups[:, entry] |= column << np.uint32(shift) if shift >= 0 else column >> np.uint32(-shift)
    everything = reduced(groups.reshape(-1), bits)
    # The bits above the last entry must be zero, or two byte strings would encode the same vector.
    if dimension * bits % 8 and packed[-1] >> (dimension * bits % 8):
        raise ProtocolError("The packed vector does not end in zero bits.")
    return everything[:dimension]


def _groups_of_eight(values: Words) -> Words:
    padded = np.zeros(-(-len(values) // 8) * 8, _WORD)
    padded[: len(values)] = values
    return padded.reshape(-1, 8)


def _overlaps(entry: int, bits: int) -> list[tuple[int, int]]:
    """The bytes that an entry of a group of eight overlaps, each with its offset in bits from the entry's start."""
    start = entry * bits
    return [(byte, 8 * byte - start) for byte in range(start // 8, (start + bits - 1) // 8 + 1)]
