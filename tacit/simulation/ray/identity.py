"""Which code a process runs, so that workers and driver are known to run the same.

The guarantee rests on what a worker computes: it clips. A worker with another Tacit may clip otherwise, and one with another
JAX may round otherwise, so both are refused. Versions alone would not tell two checkouts apart; the digest of the source does.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import tacit

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
    return Identity(tacit.__version__, _digest_of_source(), **{name: _version(name) for name in _COMPARED})


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _digest_of_source() -> str:
    root = Path(tacit.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
