"""Masks are the cipher's key stream and cancel; packing is canonical and as small as it can be."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import ProtocolError
from tacit.secagg import masks
from tacit.secagg.masks import Mask


def test_a_mask_is_the_key_stream_of_aes_256_in_counter_mode():
    """Across the pieces it is made in."""
    size = masks._PIECE * 2 + 77
    seed = bytes(range(32))
    stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor().update(bytes(4 * size))
    made = masks.with_masks(np.zeros(size, np.uint32), [Mask(seed, negative=False)], 32)
    np.testing.assert_array_equal(made, np.frombuffer(stream, "<u4"))


@settings(max_examples=30)
@given(st.integers(1, 32), st.integers(1, 200), st.integers(0, 2**32))
def test_a_mask_and_its_negative_cancel_and_values_stay_below_the_modulus(bits, size, seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 1 << bits, size).astype(np.uint32)
    before = values.copy()
    layers = [Mask(rng.bytes(32), bool(sign)) for sign in rng.integers(0, 2, 3)]
    hidden = masks.with_masks(values, layers, bits)
    np.testing.assert_array_equal(values, before)
    assert int(hidden.max()) < 1 << bits
    again = masks.with_masks(hidden, [Mask(layer.seed, not layer.negative) for layer in layers], bits)
    np.testing.assert_array_equal(again, values)


@settings(max_examples=100)
@given(st.integers(1, 32), st.integers(1, 60), st.integers(0, 2**32))
def test_packing_is_exact_and_without_gaps(bits, size, seed):
    values = np.random.default_rng(seed).integers(0, 1 << bits, size).astype(np.uint32)
    packed = masks.pack(values, bits)
    assert len(packed) == -(-size * bits // 8)
    # One long number, lowest entry lowest: the definition, spelled out.
    assert int.from_bytes(packed, "little") == sum(int(v) << bits * i for i, v in enumerate(values))
    np.testing.assert_array_equal(masks.unpack(packed, size, bits), values)


def test_only_what_packing_makes_can_be_unpacked():
    with pytest.raises(ProtocolError, match="not end in zero bits"):
        masks.unpack(b"\xff\xff", 5, 3)
    for wrong in (b"\0", b"\0\0\0"):
        with pytest.raises(ProtocolError, match="a vector of 2 bytes"):
            masks.unpack(wrong, 5, 3)


def test_a_seed_does_not_show():
    assert "secret" not in repr(Mask(b"secret", negative=False))
