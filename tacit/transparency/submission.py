"""What a log sends to a witness: a new head, the size of the one that was signed last, and the proof between the two.

The text is the body of C2SP's `add-checkpoint`:

    old 17                               the size of the head that the witness signed last, as far as the log knows
    PlRNCrwHpqhG...=                     the consistency proof from that size to the new one, a hash a line
    <empty line>
    tacit/run/4f2a...                    the new head, signed by the log
    ...
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Self

from tacit.errors import LedgerError
from tacit.transparency.checkpoint import Checkpoint
from tacit.transparency.merkle import HASH_BYTES

# What tlog-witness allows, and the longest body: the proof, and a head with its signatures.
MOST_HASHES = 63
MOST_BYTES = 1 << 17
_OLD = re.compile(r"old (0|[1-9][0-9]{0,17})")


@dataclass(frozen=True)
class Submission:
    """A head that a witness is asked to countersign, after the one of `old_size` records."""

    old_size: int
    proof: tuple[bytes, ...]
    head: Checkpoint

    def text(self) -> str:
        """The body of the request."""
        proof = "".join(f"{base64.b64encode(each).decode()}\n" for each in self.proof)
        return f"old {self.old_size}\n{proof}\n{self.head.text()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """What `text` wrote; LedgerError for anything else."""
        first, separator, head = text.partition("\n\n")
        size, *hashes = first.split("\n")
        found = _OLD.fullmatch(size)
        try:
            proof = tuple(base64.b64decode(each, validate=True) for each in hashes)
            if not separator or found is None or len(proof) > MOST_HASHES:
                raise ValueError
            submission = cls(int(found[1]), proof, Checkpoint.parse(head))
            if any(len(each) != HASH_BYTES for each in proof) or submission.text() != text:
                raise ValueError
        except ValueError:
            raise LedgerError("Expected an old size, a consistency proof and a signed head, got other text.") from None
        return submission
