"""Keys of stores: they decide who is held out."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count

import numpy as np

from tacit.data.build import pseudonym
from tacit.data.users import is_held_out

# A store's key decides who is held out. With this one a twentieth of 12, 30, 64 and 500 numbered users is 1, 3, 4 and 21; with
# a fresh key nobody is now and then.
KEY = bytes([1]) * 32


def key_holding_out(aside: Collection[str], everybody: Collection[str], share: float) -> bytes:
    """A key for an import under which exactly these of all people are held out, found by trying."""
    for number in count():
        key = number.to_bytes(32, "little")
        names = np.frombuffer(b"".join(pseudonym(user.encode(), key) for user in everybody), "<u8").reshape(-1, 2)
        if {user for user, out in zip(everybody, is_held_out(names, share), strict=True) if out} == set(aside):
            return key
    raise AssertionError
