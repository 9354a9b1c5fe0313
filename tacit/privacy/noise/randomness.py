"""All secret randomness of a run, derived from one secret of 256 bits that never touches a disk.

Noise and sampling derive their keys from the same root, which comes from the operating system when the process starts and is
gone when it ends. A resumed run has another root, and so has a copy of its folder, so the same noise is never added to two
sums. Each use derives its own keys of 256 bits by keyed BLAKE2b over (purpose, round, attempt).

**No two draws of noise share a bit.** The key stream is ChaCha20's (`chacha`). A round and attempt have a key of
their own; under it the nonce is the number of the block of the sum, and the counter is the number of the cipher block
within its coordinates, which are numbered array after array. (key, nonce, counter) identifies a cipher block, and each
coordinate has its own part of one. Bits beyond the first (`NoiseStream.further_bits`) come from BLAKE2b under a
second key, labelled with the same numbers.

For reproducible science, a seed replaces the root. The noise can then be replayed by anybody who knows the
seed, so a seeded run is never private and says so; attempts are ignored, so that a resumed run repeats itself exactly.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES, ChaCha20
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

SECRET_BYTES = 32


@dataclass(frozen=True)
class NoiseKey:
    """The noise of one attempt at one round: a key of the cipher and a key of the bits beyond the first, 256 bits each."""

    cipher: bytes = field(repr=False)
    further: bytes = field(repr=False)

    def stream(self, block: int) -> NoiseStream:
        """The noise of one block of the sum, by its number among them."""
        return NoiseStream(self, block)


@dataclass(frozen=True)
class NoiseStream:
    """A place in the key stream from which one block of a sum, and nothing else, draws its noise."""

    source: NoiseKey
    block: int

    @property
    def key(self) -> NDArray[np.uint32]:
        """The cipher's key, as its eight words."""
        return np.frombuffer(self.source.cipher, "<u4")

    @property
    def nonce(self) -> NDArray[np.uint32]:
        """The cipher's nonce, as its three words."""
        return np.array([self.block, 0, 0], np.uint32)

    def first_bits(self, counter: int, pair: int) -> tuple[int, int]:
        """U and V to 64 bits, as whole numbers, of a pair of coordinates in a cipher block."""
        start = counter.to_bytes(4, "little") + self.nonce.astype("<u4").tobytes()
        stream = Cipher(ChaCha20(self.source.cipher, start), mode=None).encryptor().update(bytes(64))
        words = np.frombuffer(stream, "<u4").tolist()[4 * pair : 4 * pair + 4]
        return words[0] << 32 | words[1], words[2] << 32 | words[3]

    def further_bits(self, counter: int, pair: int, step: int) -> bytes:
        """128 more bits of U and 128 more of V: 32 bytes."""
        label = f"{self.block}/{counter}/{pair}/{step}".encode()
        return hashlib.blake2b(label, key=self.source.further, digest_size=32, person=b"tacit further").digest()


@dataclass(frozen=True)
class Randomness:
    """Derives every key of a run from `root`; `seeded` says that the root can be guessed."""

    root: bytes
    seeded: bool = False

    @classmethod
    def fresh(cls) -> Randomness:
        """From the operating system, for this process alone."""
        return cls(os.urandom(SECRET_BYTES))

    @classmethod
    def from_seed(cls, seed: int) -> Randomness:
        """Replayable randomness, for science; never private."""
        return cls(hashlib.blake2b(f"tacit seed {seed}".encode(), digest_size=SECRET_BYTES).digest(), seeded=True)

    def derive(self, purpose: str, *, round: int, attempt: int, size: int) -> bytes:
        """`size` ≤ 64 bytes that only this purpose, round and attempt get."""
        label = f"{purpose}/{round}/{0 if self.seeded else attempt}".encode()
        return hashlib.blake2b(label, key=self.root, digest_size=size, person=b"tacit v1").digest()

    def noise_key(self, *, round: int, attempt: int) -> NoiseKey:
        """The keys of this round's noise."""
        both = self.derive("noise", round=round, attempt=attempt, size=2 * SECRET_BYTES)
        return NoiseKey(both[:SECRET_BYTES], both[SECRET_BYTES:])

    def draws(self, names: NDArray[np.uint64], *, round: int, attempt: int) -> NDArray[np.uint64]:
        """A uniform 64-bit word for each of these users, by which a sampler picks this round's cohort; as secret as the noise.

        `names` are 128 bits a user, [users, 2], all different. A user's word is the first half of AES-256 of their name, under
        a key of this round's own. So it depends on the name and on nobody else: whoever comes or goes, the others' words
        stay the same. AES under a secret key cannot be told from a random permutation, whose values at different names are
        independent and uniform except that they are never equal, a difference of less than users² / 2¹²⁸.
        """
        key = self.derive("sample", round=round, attempt=attempt, size=SECRET_BYTES)
        # One block a name, and names differ: this is AES as a function, not a mode for messages.
        encryptor = Cipher(AES(key), ECB()).encryptor()
        words = np.frombuffer(encryptor.update(np.ascontiguousarray(names, "<u8").tobytes()), "<u8")
        return words.reshape(-1, 2)[:, 0].astype(np.uint64)
