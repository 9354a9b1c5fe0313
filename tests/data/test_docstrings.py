"""The examples in docstrings of public names run as they are printed."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize("module", ["memory", "store", "users", "vocabulary", "worlds.handwriting", "worlds.keyboard"])
def test_examples_in_docstrings_run(module: str) -> None:
    found = doctest.testmod(import_module(f"tacit.data.{module}"))
    assert found.attempted > 0
    assert found.failed == 0
