"""Finds the classes of Tacit that implement an interface, so that a contract suite misses none of them.

The source is read, and nothing is imported: looking takes about a second.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tacit

ROOT = Path(tacit.__file__).parent
# What a suite of tests defines is no implementation.
_LEFT_OUT = "testing"
_SPECIAL = ("__len__", "__call__", "__iter__")


@dataclass(frozen=True)
class _Class:
    """A class as it is written: its bases, what it defines itself, and which of that is abstract."""

    module: str
    name: str
    bases: tuple[str, ...]
    members: frozenset[str]  # the public ones
    defined: frozenset[str]
    abstract: frozenset[str]


def implementations(interface: type, *, other_than: Iterable[str] = ()) -> set[str]:
    """The names of all classes that can be built and have every member of the interface, however they came by it.

    `other_than` names classes that have members of these names and are something else.
    """
    wanted, classes = _members(_classes()[interface.__name__]), _classes()
    assert wanted, f"{interface.__name__} asks for nothing"
    left_out = set(other_than)
    found = {
        name
        for name, each in classes.items()
        if not {"Protocol", "ABC"} & set(each.bases) and not _abstract(each) and wanted <= _members(each)
    }
    assert left_out <= found, f"{left_out - found} need not be left out"
    return found - left_out


def suites_in(names: Mapping[str, Any], suite: type) -> list[Any]:
    """The classes of a test file that inherit the suite and that pytest runs."""
    return [
        each
        for name, each in names.items()
        if name.startswith("Test") and isinstance(each, type) and issubclass(each, suite)
    ]


def covered(names: Mapping[str, Any], suite: type) -> set[str]:
    """The names of the implementations that the suites of a test file say they are of."""
    return {each.implementation.__name__ for each in suites_in(names, suite)}


@cache
def _classes() -> dict[str, _Class]:
    """By name; names are the same in two modules only for classes that are no implementations of anything shared."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        if not module.startswith(_LEFT_OUT):
            body = ast.parse(path.read_text()).body
            found |= {node.name: _read(module, node) for node in body if isinstance(node, ast.ClassDef)}
    return found


def _read(module: str, node: ast.ClassDef) -> _Class:
    members, abstract = set(), set()
    for each in node.body:
        match each:
            case ast.FunctionDef(name=name):
                members.add(name)
                if any(ast.unparse(by).endswith("abstractmethod") for by in each.decorator_list):
                    abstract.add(name)
                if name == "__init__":
                    members |= {one.attr for one in ast.walk(each) if _is_set_on_self(one)}
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                members.add(name)
    public = {name for name in members if not name.startswith("_") or name in _SPECIAL}
    bases = tuple(ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases)
    return _Class(module, node.name, bases, frozenset(public), frozenset(members), frozenset(abstract))


def _is_set_on_self(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


def _members(each: _Class) -> set[str]:
    """What a class has, its bases' included."""
    return set(each.members).union(*(_members(_classes()[base]) for base in each.bases if base in _classes()))


def _abstract(each: _Class) -> set[str]:
    """What a class still has to define."""
    inherited: set[str] = set().union(*(_abstract(_classes()[base]) for base in each.bases if base in _classes()))
    return (inherited - each.defined) | each.abstract
