"""What a plan uses from outside Tacit: mechanisms, strategies and participations that somebody else wrote.

Such a thing is a class in a module that can be imported, and its name everywhere (in plans, recipes and ledgers) is its import
path, "module:Class". A registry knows it as soon as its module has been imported. Tacit never imports a module because a ledger
or a recipe names it: whoever wants a run accounted imports the module first (`tacit --import MODULE ...`). Until then the run
claims nothing, and the reason says what to import.

The ledger's first record holds the version and the description of everything from outside (`Opened.outside`). Where the class
that is registered here differs in either, nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar

from tacit.errors import PrivacyError

T = TypeVar("T")


class Registry(Generic[T]):
    """Things by name: Tacit's own, which cannot be replaced, and those from outside."""

    def __init__(self, what: str, own: Mapping[str, T]) -> None:
        self.what = what
        self.own = dict(own)
        self._outside: dict[str, T] = {}

    def add(self, path: str, thing: T) -> None:
        """Know this thing from outside; a module that is loaded again replaces what it registered before."""
        self._outside[path] = thing
        _ADDED.add(path)

    def find(self, name: str) -> T | None:
        """The thing of this name; None where there is none."""
        return self.own.get(name) or self._outside.get(name)

    def names(self) -> list[str]:
        """The names of Tacit's own things, in the order in which they are told."""
        return list(self.own)

    def missing(self, name: str) -> str:
        """Why nothing is known of a thing of this name, as a reason."""
        if is_path(name):
            return f"the {self.what} {name} is not known here: import it first"
        return f"the {self.what} {name!r} is unknown to this version of Tacit"


# Everything that any registry was given from outside.
_ADDED: set[str] = set()


def knows_outside() -> bool:
    """Whether this process knows anything from outside."""
    return bool(_ADDED)


def is_path(name: str) -> bool:
    """Whether this is the name of something from outside, "module:Class"."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and all(part.isidentifier() for part in f"{module}.{attribute}".split("."))


def path_of(thing: type) -> str:
    """The import path of a class; PrivacyError where it has none, because another process could not find it again."""
    path = f"{thing.__module__}:{thing.__qualname__}"
    if not is_path(path):
        raise PrivacyError(
            f"Expected a class at the top level of a module, got {path}, which cannot be imported by its name."
        )
    return path


# What to do about a thing that is not known here.
IMPORT_FIRST = "Import its module first; on the command line: tacit --import MODULE COMMAND."


def about(thing: Any) -> dict[str, Any]:
    """What the ledger records of something from outside: its version and its own description."""
    return {"version": str(thing.version), "description": dict(thing.describe_itself())}


def import_module_named(name: str) -> None:
    """Import a module by name, so that it registers what it brings; PrivacyError where there is no such module."""
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise PrivacyError(
            f"Expected the name of a module that can be imported, got {name!r}.",
            hint="Install its package, or put its folder on PYTHONPATH.",
        ) from None
