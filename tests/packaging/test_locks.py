"""The lock files agree with each other, and name what the extras need."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pinned(name: str) -> set[str]:
    return {line for line in (ROOT / name).read_text().splitlines() if "==" in line}


def test_what_the_demo_installs_for_the_browser_is_what_the_tests_use() -> None:
    assert pinned("requirements-web.lock") <= pinned("requirements-dev.lock")
    assert not pinned("requirements-web.lock") & pinned("requirements.lock")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {line.split("==")[0] for line in pinned("requirements-web.lock")}
    assert {re.split("[<>=]", each)[0] for each in extras["web"]} <= names
