"""Cyclic Poisson sampling: every user belongs to one of b groups, and round t draws from group t mod b alone.

Rounds of one group are b apart, so two participations of a user are at least b rounds apart, and noise that is correlated
over b rounds or fewer can be accounted with amplification (`tacit.privacy.accounting.cyclic` has the proof).

**The group of a user follows from their own name and from nothing else**: it is a keyed hash of the name, under a key that
is a public constant. The proof holds for any group a user may be in, so the key need not be secret; because it is constant,
a resumed run has the same groups. Whoever comes or goes, the others stay in their groups. Groups therefore have random sizes,
about users / b, and nothing is done to make them equal.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from tacit.errors import PrivacyError
from tacit.privacy.participation.samplers import Draws

CYCLIC = "cyclic_poisson"
# Public, and never to be changed: with another key, a run that is resumed would have other groups.
_KEY = hashlib.blake2b(b"tacit groups of cyclic sampling", digest_size=32).digest()


def groups_of(names: NDArray[np.uint64], groups: int) -> NDArray[np.int64]:
    """The group, 0 to `groups` - 1, of each user; `names` are 128 bits a user, [users, 2].

    It is the first half of AES-256 of the name, modulo the number of groups. A keyed hash of a constant serves as the key.
    """
    encryptor = Cipher(AES(_KEY), ECB()).encryptor()  # one block a name: AES as a function, not a mode for messages
    words = np.frombuffer(encryptor.update(np.ascontiguousarray(names, "<u8").tobytes()), "<u8")
    return (words.reshape(-1, 2)[:, 0] % np.uint64(groups)).astype(np.int64)


class CyclicPoisson:
    """Round t draws each user of group t mod `groups` independently with a public probability, and nobody else.

    As with `Poisson`, the realised probability is the stated one rounded down, by at most 2⁻⁶⁴. `begin` comes before the
    first `sample`.
    """

    def __init__(self, probability: float, groups: int) -> None:
        self.probability, self.groups = probability, groups
        self._round = 0
        self._group = np.zeros(0, np.int64)  # by user

    def begin(self, names: NDArray[np.uint64], *, round: int) -> None:
        """Begin with this round, after the earlier ones were remembered; `names` are those of all users, by their numbers."""
        if self._round != round:
            raise PrivacyError(
                f"Expected to remember the cohorts of {round} rounds before round {round}, got {self._round}: whose turn it "
                "is follows from the number of the round."
            )
        self._group = groups_of(names, self.groups)

    def sample(self, draws: Draws) -> NDArray[np.int64]:
        if len(self._group) != len(draws):  # how many users there are is not for others to read
            raise PrivacyError(
                "Expected the names of all users before the first round: a user's group follows from it."
            )
        drawn = self._group == self._round % self.groups
        if self.probability < 1:
            drawn &= draws < np.uint64(math.floor(self.probability * 2**64))
        self._round += 1
        return np.flatnonzero(drawn).astype(np.int64)

    def remember(self, users: NDArray[np.int64]) -> None:
        self._round += 1  # every round is drawn anew, but whose turn it is follows from the number of rounds

    def describe(self) -> dict[str, Any]:
        return {"kind": CYCLIC, "probability": self.probability, "groups": self.groups}
