"""A witness that listens in a thread of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tacit.transparency.witness import Witness
from tacit.web.witness import witness_app
from tests.support.served import served


@contextmanager
def listening(witness: Witness) -> Iterator[str]:
    """Its address while it listens."""
    with served(witness_app(witness)) as address:
        yield address.rstrip("/")
