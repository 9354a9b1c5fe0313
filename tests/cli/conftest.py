"""The `tacit` command as a person uses it: what they typed, what they read on either stream, the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Tacit, in_this_process
from tests.support.tiny_recipe import tiny


@pytest.fixture
def tacit(capfd: pytest.CaptureFixture[str]) -> Tacit:
    """Runs the command in this process; what libraries write past Python's streams is seen too.

    With --json, what it prints has to fit the published schema.
    """

    return in_this_process(capfd)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, with the recipe tiny.toml: six rounds on four hundred made-up users."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(tiny().to_toml())
    return tmp_path
