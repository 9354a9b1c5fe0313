"""A run on disk with everything a report reads, made by hand: no training, no JAX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tacit.runs.folder import RunFolder
from tests.support.made_runs import MakeRun, made_run


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Makes a run in this test's folder; how it ended and whether it is private can be chosen."""

    def make(name: str = "run", **choices: Any) -> RunFolder:
        return made_run(tmp_path / name, **choices)

    return make
