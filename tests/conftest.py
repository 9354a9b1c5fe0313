"""Shared by every test: strict dtypes in JAX, and a compilation cache that survives from run to run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")
os.environ.setdefault("JAX_NUMPY_DTYPE_PROMOTION", "strict")

SHARED_DATA = Path(__file__).parent.parent.parent / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """The folder of real data by person; tests that use it skip where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder of real data is not beside this checkout")
    return SHARED_DATA
