"""Questions to `tacit account`, and what it answers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.support.commands import Tacit

KEYS = {"epsilon", "delta", "rho", "adjacency", "accountant", "assumptions"}

FEDAVG: dict[str, object] = {
    "population": 100_000,
    "cohort": 100,
    "rounds": 50,
    "noise-multiplier": 1.0,
    "delta": 1e-6,
}

FTRL: dict[str, object] = {
    "rounds": 930,
    "noise-multiplier": 7,
    "min-separation": 212,
    "max-participation": 4,
    "delta": 1e-10,
}


def words(command: str, options: dict[str, Any]) -> list[object]:
    return [
        "account",
        command,
        *(word for name, value in options.items() if value is not None for word in (f"--{name}", value)),
    ]


def ask(tacit: Tacit, command: str, options: dict[str, Any]) -> dict[str, Any]:
    found = tacit(*words(command, options), "--json").object
    assert found.keys() >= KEYS
    return found


def cold_start(*arguments: object) -> dict[str, Any]:
    """The command's JSON, from a process of its own that must not load JAX (benchmarks/cold_start.py has the seconds)."""
    code = """
import sys
from tacit.cli.app import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    print(ended.code, "jax" in sys.modules, file=sys.stderr)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    assert ended.stderr.split() == ["0", "False"]
    found = json.loads(ended.stdout)
    assert isinstance(found, dict)
    return found
