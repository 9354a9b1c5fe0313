"""The `tacit` command, for pages that have to show what a command prints."""

from __future__ import annotations

import pytest

from tests.support.commands import Tacit, in_this_process


@pytest.fixture
def tacit(capfd: pytest.CaptureFixture[str]) -> Tacit:
    """Runs the command in this process."""
    return in_this_process(capfd)
