"""Every example runs as a newcomer runs it, at its tiny size, and so does the script in the README."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "make_notebooks")
# What each script promises to print, beside an epsilon.
PROMISED = {
    "quick_start": (
        r"for all the data of any one user",
        r"This model was trained on",
        r"see you \S+",
        r"Report: .*report\.html",
    ),
    "own_data": (r"From a dictionary: MemoryUsers\(2 users", r"From rows: MemoryUsers\(300 users", r"Loss on held-out"),
    "own_model": (r"stopped, 2 rounds", r"finished, 4 rounds", r"After 'see you': \[\('", r"Exported .*\.safetensors"),
    "own_loop": (r"round 2 of 4: WordLM", r"finished, 4 rounds"),
    "own_mechanism": (r"claim of its author", r"Nothing contradicts the ledger"),
    "adapters": (r"448 of 5,328 values", r"The base is as it was: True"),
    "plan_a_guarantee": (r"cohort  2000: noise multiplier", r"mechanism='tree'"),
    "audit": (r"of 20 canary users", r"Verdict: (passed|could_not_fail)", r"Nothing contradicts the ledger"),
    "inspect_private_data": (r"The most likely unknown words:\n  '", r"Of the \d+ most likely unknown words"),
    "fleet": (r"1 of 1 rounds done", r"finished, 1 rounds"),
}


def _run(arguments: list[str], folder: Path) -> str:
    """What a Python process prints. It has none of the strictness that tests ask of JAX, and JAX's own number of devices."""
    strict = ("JAX_NUMPY_DTYPE_PROMOTION", "JAX_NUM_CPU_DEVICES")
    environment = {name: value for name, value in os.environ.items() if name not in strict}
    paths = [str(ROOT), *filter(None, [environment.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_promises_something():
    assert set(SCRIPTS) == set(PROMISED)
    listed = re.findall(r"^\| \[(\w+)\.py\]", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == SCRIPTS


@pytest.mark.process
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_example_runs_and_keeps_its_promise(name: str, tmp_path: Path):
    printed = _run([str(EXAMPLES / f"{name}.py"), "--tiny"], tmp_path)
    for promised in (r"epsilon = [0-9]", *PROMISED[name]):
        assert re.search(promised, printed), f"{promised} is not in:\n{printed}"


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_example_imports_public_names_only(name: str):
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert not re.findall(r"^\s*(?:from|import) tacit\..*", code, re.MULTILINE)


@pytest.mark.process
def test_the_script_of_the_readme_runs_as_written(tmp_path: Path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.split("## From Python\n")[1].split("\n## ")[0]
    (tmp_path / "script.py").write_text("\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL)))
    assert re.search(r"epsilon = [0-9]", _run(["script.py"], tmp_path))
    assert (tmp_path / "mine.html").exists()


@pytest.mark.process
def test_the_notebooks_are_up_to_date():
    _run([str(EXAMPLES / "make_notebooks.py"), "--check"], ROOT)
