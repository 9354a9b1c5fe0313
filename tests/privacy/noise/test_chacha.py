"""ChaCha20 as JAX operations gives the key stream of RFC 8439, and that of the cryptography library."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from tacit.privacy.noise.chacha import key_stream, quarter_round

KEY = bytes(range(32))


def words(data: bytes) -> np.ndarray:
    return np.frombuffer(data, "<u4").astype(np.uint32)


def stream(key: bytes, nonce: bytes, counters: list[int]) -> bytes:
    blocks = key_stream(words(key), words(nonce), jnp.asarray(counters, jnp.uint32))
    return np.stack(blocks, axis=1).astype("<u4").tobytes()


def test_a_quarter_round():
    """RFC 8439, section 2.1.1."""
    before = (0x11111111, 0x01020304, 0x9B8D6F43, 0x01234567)
    after = quarter_round(*(jnp.uint32(each) for each in before))
    assert [int(each) for each in after] == [0xEA2A92F4, 0xCB1CF8CE, 0x4581472E, 0x5881C4BB]


def test_the_block_function():
    """RFC 8439, section 2.3.2."""
    found = stream(KEY, bytes.fromhex("000000090000004a00000000"), [1])
    assert found.hex() == (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


def test_the_key_stream_of_two_counters():
    """RFC 8439, section 2.4.2: the sunscreen text, encrypted."""
    text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it."
    pad = stream(KEY, bytes.fromhex("000000000000004a00000000"), [1, 2])
    encrypted = bytes(a ^ b for a, b in zip(text, pad, strict=False))
    assert encrypted.hex() == (
        "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b"
        "f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8"
        "07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736"
        "5af90bbf74a35be6b40b8eedf2785e42874d"
    )


@pytest.mark.parametrize(
    ("key", "nonce", "counter", "begins"),
    [
        (bytes(32), bytes(12), 0, "76b8e0ada0f13d90405d6ae55386bd28"),
        (bytes(32), bytes(12), 1, "9f07e7be5551387a98ba977c732d080d"),
        (bytes(31) + b"\x01", bytes(12), 1, "3aeb5224ecf849929b9d828db1ced4dd"),
        (b"\x00\xff" + bytes(30), bytes(12), 2, "72d54dfbf12ec44b362692df94137f32"),
        (bytes(32), bytes(11) + b"\x02", 0, "c2c64d378cd536374ae204b9ef933fcd"),
    ],
)
def test_the_vectors_of_the_appendix(key: bytes, nonce: bytes, counter: int, begins: str):
    """RFC 8439, appendix A.1."""
    assert stream(key, nonce, [counter])[:16].hex() == begins


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_it_is_the_stream_of_the_cryptography_library(x64: bool, compiled: bool):
    generator = np.random.default_rng(5)
    key, nonce = generator.bytes(32), generator.bytes(12)
    counters = np.array([[0, 1, 7], [2**31, 2**32 - 2, 2**32 - 1]], np.uint32)
    with jax.enable_x64(x64):
        run = jax.jit(key_stream) if compiled else key_stream
        found = np.stack(run(words(key), words(nonce), jnp.asarray(counters)), axis=-1)  # [2, 3, 16]
    assert found.dtype == np.uint32
    for counter, block in zip(counters.ravel().tolist(), found.reshape(-1, 16), strict=True):
        encryptor = Cipher(ChaCha20(key, counter.to_bytes(4, "little") + nonce), mode=None).encryptor()
        assert block.astype("<u4").tobytes() == encryptor.update(bytes(64))
