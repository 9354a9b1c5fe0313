"""The checker of certificates, loaded from its file: it is no package, and imports nothing of Tacit."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from pathlib import Path
from types import ModuleType

CHECKER = Path(__file__).parents[2] / "verifier" / "tacit_verify.py"


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tacit_verify", CHECKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


checker = _loaded()


def answer(path: Path, *options: str) -> tuple[int, str]:
    """The exit code of the checker and what it says, in this process."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = checker.main([str(path), *options])
    return code, said.getvalue()
