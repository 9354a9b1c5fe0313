"""The checker can be read and trusted by itself: one short file that imports Python's own library, NumPy and SciPy alone."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checker import CHECKER, answer
from tests.support.made_certificates import made_certificate

_TREE = ast.parse(CHECKER.read_text(encoding="utf-8"))


def test_it_is_shorter_than_500_lines():
    assert len(CHECKER.read_text(encoding="utf-8").splitlines()) < 500


def test_it_imports_the_standard_library_numpy_and_scipy_and_nothing_else():
    named: set[str] = set()
    for node in ast.walk(_TREE):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            named.add(str(node.module))
    roots = {name.partition(".")[0] for name in named}
    assert roots - set(sys.stdlib_module_names) == {"numpy", "scipy"}


def test_it_runs_nothing_that_it_reads():
    called = {
        node.func.id for node in ast.walk(_TREE) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "__import__", "open"}
    assert not {"pickle", "subprocess", "importlib", "ctypes", "socket"} & {
        alias.name for node in ast.walk(_TREE) if isinstance(node, ast.Import) for alias in node.names
    }


@pytest.mark.process
def test_it_answers_where_there_is_no_tacit(tmp_path: Path):
    made = made_certificate(tmp_path / "run")
    (tmp_path / "certificate.json").write_bytes(made.data)
    code = (
        "import sys\n"
        "class Nothing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('tacit', 'jax', 'dp_accounting', 'cryptography', 'pydantic'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Nothing())\n"
        f"sys.argv = ['tacit_verify.py', 'certificate.json', '--key', {made.key!r}]\n"
        f"import runpy; runpy.run_path({str(CHECKER)!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Proved: ε ≤ ")


@pytest.mark.process
def test_it_answers_on_a_terminal_that_has_no_greek(tmp_path: Path):
    made = made_certificate(tmp_path / "run")
    (tmp_path / "certificate.json").write_bytes(made.data)
    done = subprocess.run(
        [sys.executable, CHECKER, tmp_path / "certificate.json"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"Proved: ? ")


def test_the_answer_is_one_of_two(tmp_path: Path):
    made, path = made_certificate(tmp_path / "run"), tmp_path / "certificate.json"
    path.write_bytes(made.data)
    code, said = answer(path, "--key", made.key)
    assert code == 0
    assert said.startswith("Proved: ε ≤ ")
    path.write_bytes(made.data[:-2])
    code, said = answer(path)
    assert code == 1
    assert said.startswith("Not proved, because ")
    code, said = answer(tmp_path / "nowhere.json")
    assert code == 1
    assert "cannot be read" in said
