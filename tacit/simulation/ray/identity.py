"""Which code a process runs, so that workers and driver are known to run the same.

The guarantee rests on what a worker computes: it clips. A worker with another Tacit may clip otherwise, and one with another
JAX may round otherwise, so both are refused. Versions alone would not tell two checkouts apart; the digest of the source does.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache

import tacit
from tacit.runs.software import source_digest, version_of

_COMPARED = ("jax", "jaxlib", "numpy", "equinox")


@dataclass(frozen=True)
class Identity:
    """The code of a process: versions, and a digest of Tacit's own source."""

    tacit: str
    source: str
    jax: str
    jaxlib: str
    numpy: str
    equinox: str

    def difference(self, other: Identity) -> tuple[str, str, str] | None:
        """The first package in which another process differs, with both versions; None if there is none."""
        mine, theirs = asdict(self), asdict(other)
        for name in mine:
            if mine[name] != theirs[name]:
                return ("Tacit's source" if name == "source" else name), mine[name], theirs[name]
        return None


@cache
def identity() -> Identity:
    """The identity of this process."""
    return Identity(tacit.__version__, source_digest()[:16], **{name: version_of(name) for name in _COMPARED})
