"""All secret randomness of a run, derived from one secret of 256 bits that never touches a disk.

Noise and sampling draw from the same root, which comes from the operating system when the process starts and ends with it:
a resumed run has another root, and so has a copy of its folder, so that nobody can ever see the same noise on two sums. Each
use derives its own key by keyed BLAKE2b over (purpose, round, attempt). `jax.random.key(int)` would keep 32 bits of a seed;
keys here carry all the bits their generator takes (64 for Threefry-2x32, 256 for AES).

A seed replaces the root for the sake of reproducible science. The noise can then be replayed by anybody who knows the
seed, so a seeded run is never private and says so; attempts are ignored, so that a resumed run repeats itself exactly.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import jax

SECRET_BYTES = 32


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
        """`size` ≤ 64 bytes for this purpose, round and attempt, and for nothing else."""
        label = f"{purpose}/{round}/{0 if self.seeded else attempt}".encode()
        return hashlib.blake2b(label, key=self.root, digest_size=size, person=b"tacit v1").digest()

    def noise_key(self, *, round: int, attempt: int) -> jax.Array:
        """The JAX key of this round's noise, all 64 bits of it."""
        import jax

        words = np.frombuffer(self.derive("noise", round=round, attempt=attempt, size=8), dtype="<u4")
        return jax.random.wrap_key_data(jax.numpy.asarray(words), impl="threefry2x32")

    def draws(self, names: NDArray[np.uint64], *, round: int, attempt: int) -> NDArray[np.uint64]:
        """A uniform 64-bit word for each of these users, by which a sampler picks this round's cohort; secret as the noise.

        `names` are 128 bits a user, [users, 2], all different. A user's word is the first half of AES-256 of their name, under
        a key of this round's own. So it depends on the name and on nobody else: whoever comes or goes, the others' words
        stay. AES under a secret key cannot be told from a random permutation, and the images of different names under that
        are independent and uniform but for never being equal, which is off by less than users² / 2¹²⁸.
        """
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        key = self.derive("sample", round=round, attempt=attempt, size=SECRET_BYTES)
        # One block a name, and names differ: this is AES as a function, not a mode for messages.
        encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        words = np.frombuffer(encryptor.update(np.ascontiguousarray(names, "<u8").tobytes()), "<u8")
        return words.reshape(-1, 2)[:, 0].astype(np.uint64)
