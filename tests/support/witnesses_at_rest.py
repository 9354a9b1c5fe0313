"""A witness in a folder, and a log that submits to it; nothing listens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tacit.secagg import keys
from tacit.transparency.checkpoint import Checkpoint, PublicKey
from tacit.transparency.merkle import consistency_proof, leaf_hash, root
from tacit.transparency.submission import Submission
from tacit.transparency.witness import Witness, WitnessKey

PRIVATE = bytes(range(32))
LOG = PublicKey("tacit/run/4f2a", keys.identity_public(PRIVATE))
TIME = 1_790_000_000


def witness_in(home: Path, *, first_use: bool = True) -> Witness:
    """The witness in this folder, at a time that stands still; its state is new if the folder is."""
    return Witness(home, WitnessKey.of(home, "tacit.example/witness"), first_use=first_use, now=lambda: TIME)


def leaves(*records: str) -> list[bytes]:
    """The hashes of these records."""
    return [leaf_hash(each.encode()) for each in records]


def submission(hashes: Sequence[bytes], old_size: int, *, size: int | None = None) -> Submission:
    """The head of the first `size` of these leaves, signed by the log, with its proof."""
    some = list(hashes[: len(hashes) if size is None else size])
    head = Checkpoint(LOG.name, len(some), root(some)).signed(LOG.name, PRIVATE)
    proof = consistency_proof(some, old_size) if old_size <= len(some) else []
    return Submission(old_size, tuple(proof), head)
