"""Which software a run was made with: versions, and a digest of Tacit's own source, byte for byte."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import tacit

# What computes, draws noise and accounts.
_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "equinox", "optax", "cryptography", "dp-accounting")


@cache
def source_digest() -> str:
    """SHA-256 over the path and the bytes of every Python file of the package, in the order of the paths."""
    root = Path(tacit.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def version_of(package: str) -> str:
    """The version of an installed package; "none" if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def software() -> dict[str, str]:
    """What this process runs."""
    named = {package: version_of(package) for package in _PACKAGES}
    return {"tacit": tacit.__version__, "source": source_digest(), "python": platform.python_version(), **named}
