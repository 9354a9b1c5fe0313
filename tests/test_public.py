"""The public names are there, and asking for the package costs nothing."""

from __future__ import annotations

import subprocess
import sys

import tacit


def test_every_public_name_exists():
    for name in tacit.__all__:
        assert getattr(tacit, name).__name__ == name
        assert name in dir(tacit)  # what a shell completes
    assert "__all__" in vars(tacit)


def test_importing_the_package_loads_nothing_heavy():
    code = "import tacit, sys; print([m for m in ('jax', 'numpy', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
