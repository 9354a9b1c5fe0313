"""Which libraries the commands that only compute may import. Seconds are in benchmarks/cold_start.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tacit.runs.listing import facts_below
from tests.support.account_commands import FEDAVG, FTRL, words
from tests.support.made_runs import made_run

# What Typer brings along, and what Python and the environment put there.
SHELL = {
    "typer",
    "rich",
    "pydantic",
    "annotated_types",
    "typing_extensions",
    "typing_inspection",
    "markdown_it",
    "mdurl",
}
ARITHMETIC = {"numpy", "scipy", "dp_accounting", "attr", "absl"}
HEAVY = {
    "anyio", "cryptography", "equinox", "fastapi", "h5py", "httpx", "jax", "jaxlib", "matplotlib", "ml_dtypes", "numpy",
    "onnx", "optax", "pandas", "pyarrow", "pydantic", "ray", "rich", "safetensors", "scipy", "sqlalchemy", "starlette",
    "torch", "typer", "uvicorn", "absl", "dp_accounting",
}  # fmt: skip
SLOW_PARTS = (
    "scipy.stats",
    "scipy.signal",
    "scipy.optimize",
    "scipy.linalg",
    "scipy.sparse",
    "cryptography",
    "tacit.runs",
)

CODE = """
import sys
from tacit.cli.app import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    print(ended.code, *sorted(sys.modules), file=sys.stderr)
"""


def imported(folder: Path, *arguments: object) -> set[str]:
    command = [sys.executable, "-c", CODE, *map(str, arguments)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    code, *modules = ended.stderr.split()
    assert code == "0", ended.stderr
    return set(modules)


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "allowed", "without"),
    [
        (["--help"], SHELL, ("tacit.privacy.accounting", "tacit.runs", "tacit.data", "tacit.recipe")),
        (["runs"], SHELL, ("tacit.runs.folder", "tacit.privacy.plan", "tacit.cli.results")),
        (words("fedavg", FEDAVG), SHELL | ARITHMETIC, (*SLOW_PARTS, "tacit.privacy.plan")),
        (words("fedavg", FEDAVG | {"sampling": "fixed"}), SHELL | ARITHMETIC, (*SLOW_PARTS, "tacit.privacy.plan")),
        (words("ftrl", FTRL), SHELL | ARITHMETIC, ("scipy.stats", "scipy.signal", "tacit.runs", "tacit.privacy.plan")),
        (
            ["account", "calibrate", *words("fedavg", FEDAVG | {"noise-multiplier": None, "epsilon": 2})[1:]],
            SHELL | ARITHMETIC,
            (*SLOW_PARTS, "tacit.privacy.plan"),
        ),
    ],
    ids=["help", "runs", "fedavg", "fixed", "ftrl", "calibrate"],
)
def test_a_command_imports_what_it_needs(
    tmp_path: Path, arguments: list[object], allowed: set[str], without: tuple[str, ...]
) -> None:
    modules = imported(tmp_path, *arguments)
    assert {name.partition(".")[0] for name in modules} & HEAVY <= allowed
    assert [name for name in without if name in modules] == []


@pytest.mark.process
def test_a_list_of_known_runs_imports_no_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tacit.runs.listing.SETTLED_S", -60)
    monkeypatch.setattr("tacit.privacy.outside._ADDED", set())  # other tests bring mechanisms of their own
    made_run(tmp_path / "runs" / "one")
    facts_below(tmp_path / "runs")
    modules = imported(tmp_path, "runs")
    assert {name.partition(".")[0] for name in modules} & HEAVY <= SHELL
    assert "tacit.privacy.plan" not in modules
