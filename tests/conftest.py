"""Shared by every test: strict dtypes in JAX, a compilation cache that survives, room for what is compiled, no deadlines."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")
os.environ.setdefault("JAX_NUMPY_DTYPE_PROMOTION", "strict")

# How long an example takes depends on what else the machine does, and says nothing about the code.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

# Each compiled program takes several mappings of memory, of which Linux gives a process 65,530; beyond that it crashes.
MOST_MAPPINGS, LOOK_EVERY = 30_000, 8
_TESTS_RUN = count(1)

SHARED_DATA = Path(__file__).parent.parent.parent / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """The folder of real data by person; tests that use it skip where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder of real data is not beside this checkout")
    return SHARED_DATA


@pytest.fixture(autouse=True)
def room_for_compiled_programs() -> Iterator[None]:
    """Forget what was compiled when many programs are there; looked at after every few tests, because looking takes a while."""
    yield
    maps = Path("/proc/self/maps")
    if next(_TESTS_RUN) % LOOK_EVERY or "jax" not in sys.modules or not maps.exists():
        return
    if maps.read_bytes().count(b"\n") > MOST_MAPPINGS:
        sys.modules["jax"].clear_caches()
        gc.collect()


@pytest.fixture(scope="session", autouse=True)
def quick_ideal() -> Iterator[None]:
    """The best possible score of a made-up world is estimated from five sentences, also by what modules and sessions share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacit.training.datasets.IDEAL_SENTENCES", 5)
        yield


@pytest.fixture
def cache_of_our_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Strategies that this test optimises are kept in its own folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def small_networks() -> Iterator[None]:
    """Networks so small that a whole inspection of images takes seconds, under the names of the shipped ones."""
    from tests.support.small_networks import patch_networks

    with pytest.MonkeyPatch.context() as patch:
        patch_networks(patch)
        yield
