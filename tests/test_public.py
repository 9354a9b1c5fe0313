"""The public names are there, and asking for the package costs nothing."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tacit
from tacit.api import own_objects


def test_every_public_name_exists():
    for name in tacit.__all__:
        assert getattr(tacit, name).__name__ == name
        assert name in dir(tacit)  # what a shell completes
    assert "__all__" in vars(tacit)


def test_importing_the_package_loads_nothing_heavy():
    code = "import tacit, sys; print([m for m in ('jax', 'numpy', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# What an example would need is a run that somebody has trained, or a tracker's account.
SKIPPED = {"MLflow", "Rounds", "Run", "StatedCost", "Sweep", "TextInspected", "WandB"}
SKIPPED |= {"inspect_text", "open_run", "open_sweep", "resume"}


@pytest.mark.parametrize("name", tacit.__all__)
def test_every_public_name_has_an_example_that_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "example", ModuleType("example"))
    # What an example registers would otherwise be there in later tests, without the names that it uses.
    monkeypatch.setattr(own_objects, "_builders", {})
    monkeypatch.setattr(own_objects, "_built", {})
    text = inspect.getdoc(getattr(tacit, name)) or ""
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "example"}, name, None, 0)
    assert test.examples, f"tacit.{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out
    ran = [example for example in test.examples if doctest.SKIP not in example.options]
    assert name in SKIPPED or any("import" not in example.source for example in ran)
