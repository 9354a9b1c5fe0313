"""The examples in docstrings of the public calls run as they are printed."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize("module", ["canaries", "planning"])
def test_examples_in_docstrings_run(module: str) -> None:
    found = doctest.testmod(import_module(f"tacit.api.{module}"))
    assert found.attempted > 0
    assert found.failed == 0
