"""The digest of Tacit's source, by which two checkouts of one version are told apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tacit.runs import software
from tacit.runs.software import source_digest


@pytest.fixture(autouse=True)
def computed_anew() -> Iterator[None]:
    source_digest.cache_clear()
    yield
    source_digest.cache_clear()


def digest() -> str:
    source_digest.cache_clear()
    return source_digest()


def test_the_digest_of_the_source_sees_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("__init__.py", ""), ("gate.py", "clip = 1"), ("inner/deep.py", "x")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(software.tacit, "__file__", str(tmp_path / "__init__.py"))
    before = digest()
    assert digest() == before
    (tmp_path / "inner" / "deep.py").write_text("y")
    changed = digest()
    assert changed != before
    (tmp_path / "inner" / "deep.py").rename(tmp_path / "inner" / "other.py")
    assert digest() not in (before, changed)
