"""A group of commands whose help shows a flag as a flag: `--json`, not `--json <bool>`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, get_args

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

    @cached_property
    def _built(self) -> Any:
        """Every command, as the library beneath Typer runs it. Building it takes a while, so a process does it once."""
        return typer.main.get_command(self)

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        """Run a command line. No command may be added after the first call."""
        return self._built(*arguments, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Add a command, as `typer.Typer.command` does."""
        return super().command(name, **{"cls": _Command, **settings})


def _with_flags(parameters: list[Any]) -> list[Any]:
    """The same parameters; a flag is described by no value, and an option that may be repeated by one value."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
        elif each.param_type_name == "option" and each.multiple and each.metavar is None:
            described = getattr(each, "type_descriptor", None)
            if described is None:  # an older version of Typer, which describes one value by itself
                continue
            (one,) = get_args(described.annotation)
            each.metavar = f"<{one.__name__.lower()}>"
    return parameters
