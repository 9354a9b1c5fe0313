"""What tests share lies in tests/support, and contracts in tests/contracts: no test file imports another."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parent
SHARED = ("tests.support", "tests.contracts")


def imported(source: str) -> set[str]:
    """The modules below `tests` that a file imports, also from inside its functions."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        if isinstance(node, ast.ImportFrom):
            found |= {f"{'.' * node.level}{node.module or ''}.{name.name}" for name in node.names}
    return {name for name in found if name.startswith((".", "tests"))}


def is_shared(module: str) -> bool:
    return any(module == home or module.startswith(f"{home}.") for home in SHARED)


def test_tests_import_only_what_is_shared() -> None:
    wrong = {
        (str(path.relative_to(TESTS)), module)
        for path in TESTS.rglob("*.py")
        for module in imported(path.read_text())
        if not is_shared(module)
    }
    assert not wrong


def test_no_test_hides_in_what_is_shared() -> None:
    assert not list((TESTS / "support").rglob("test_*.py"))


def test_an_import_of_a_test_file_is_seen() -> None:
    source = "def f():\n    from tests.data.test_views import x\nimport tests.support.draws\nfrom . import test_y\n"
    assert {name for name in imported(source) if not is_shared(name)} == {"tests.data.test_views.x", "..test_y"}
