"""A group of commands whose help shows a flag as a flag: `--json`, not `--json <bool>`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

Function = TypeVar("Function", bound=Callable[..., Any])


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _with_flags(super().get_params(ctx))


class Group(TyperGroup):
    """A group whose flags are described by no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _with_flags(super().get_params(ctx))


class Commands(typer.Typer):
    """`typer.Typer`, whose help names the type of every option that takes a value, and of no other."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"cls": Group, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Add a command, as `typer.Typer.command` does."""
        return super().command(name, **{"cls": _Command, **settings})


def _with_flags(parameters: list[Any]) -> list[Any]:
    """The same parameters; a flag is described by no value."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return parameters
