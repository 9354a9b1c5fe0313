"""A small vocabulary that canaries are drawn from, the data they are planned for, and public text."""

from __future__ import annotations

import numpy as np

from tacit.data.users import Examples
from tests.support.list_users import ListUsers

WORDS = ("<pad>", "<bos>", "<eos>", "<oov>", *(f"w{i}" for i in range(96)))

DATA = {"store": "one"}


def public() -> Examples:
    return ListUsers([[[4, 5], [6], [7, 8, 9]]]).gather(np.array([0]))
