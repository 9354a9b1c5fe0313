"""What people read outside a checkout names no file that is only in a checkout."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Files and commands of a checkout.
OF_A_CHECKOUT = re.compile(r"\b(docs|recipes|examples|experiments|benchmarks|tests)/\w|\bmake (demo|test|check)\b")
# It prints a page of docs/, which is written in a checkout.
EXEMPT = ROOT / "tacit" / "cli" / "results" / "page.py"


def texts(file: Path) -> Iterator[str]:
    """The strings of a module that are not docstrings: a command may print them."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    documented = {id(statement.value) for statement in ast.walk(tree) if isinstance(statement, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.value


@pytest.mark.parametrize(
    "room", sorted({path.parent for path in (ROOT / "tacit").rglob("*.py")}), ids=lambda path: path.name
)
def test_no_message_names_a_file_of_the_checkout(room: Path) -> None:
    for file in set(room.glob("*.py")) - {EXEMPT}:
        for text in texts(file):
            assert OF_A_CHECKOUT.search(text) is None, f"{file}: {text}"


@pytest.mark.parametrize("recipe", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda path: path.stem)
def test_no_recipe_names_one(recipe: Path) -> None:
    assert OF_A_CHECKOUT.search(recipe.read_text(encoding="utf-8")) is None
