"""docs/json.md, made from the classes of the results: `python -m tacit.cli.results > docs/json.md`."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Union, get_args, get_origin

from tacit.cli.results.base import OpenResult, Result
from tacit.cli.results.listing import RESULTS, STREAMS
from tacit.errors import TacitError

_HEAD = """\
# What `--json` prints

After this page you can use Tacit's commands from a program: which keys a command prints with `--json`, what they mean, and how
a mistake is reported. The page is made from the code (`python -m tacit.cli.results > docs/json.md`), and a test compares
what the commands print with it. `python -m tacit.cli.results "runs show"` prints the JSON Schema of one command.

```
$ tacit account zcdp --rho 0.25 --delta 1e-10 --json
{"epsilon": 4.492218247608708, "reasons_not_private": [], "reason_codes": [], "delta": 1e-10, ...}
```

- A command prints one JSON object, on one line of stdout, in ASCII, when it is done. Messages go to stderr.
- JSON has no infinity: an infinite ε is `null`, and `reasons_not_private` says why. Figures are not rounded.
- A key is always there unless its row says *sometimes*. An object has no other keys unless its section says so.
"""

_MISTAKES = """\
## Mistakes

A mistake is reported in the same way with and without `--json`: stdout is empty, stderr has one line `error: ` with a sentence,
perhaps a line `hint: `, and the exit code says what kind of mistake it is.

| exit code | meaning |
|---|---|
| 0 | the result is on stdout |
"""

# Exit codes that are no TacitError.
_OTHERS = {
    20: "`tacit audit run`: the result is on stdout, and something contradicts the stated ε",
    21: "`tacit audit run`: the result is on stdout, and no attack could have contradicted the proof",
    130: "stopped by Ctrl-C",
}


def page() -> str:
    """The page as Markdown."""
    parts = [_HEAD, *_streams(), _MISTAKES + "".join(_exit_codes()), _commands(), "## Objects\n"]
    return "\n".join([*parts, *(_section(each) for each in _objects())])


def _streams() -> Iterator[str]:
    yield "Some commands print several objects, one a line, until they end:\n"
    yield "".join(f"- `tacit {name}`: {what}.\n" for name, what in STREAMS.items())


def _exit_codes() -> Iterator[str]:
    meanings = {kind.exit_code: _line(kind) for kind in reversed(TacitError.__subclasses__())}
    meanings[TacitError.exit_code] = "another mistake; or a bug, which shows its traceback"
    meanings[2] += " Also: an option does not exist, or a value is out of its range"
    for code, meaning in sorted((meanings | _OTHERS).items()):
        yield f"| {code} | {meaning[0].lower()}{meaning[1:].rstrip('.')} |\n"


def _commands() -> str:
    rows = [f"| `tacit {name}` | {_link(result)} | {_line(result)} |" for name, result in RESULTS.items()]
    return "\n".join(["## Commands\n", "| command | object | what it is |", "|---|---|---|", *rows, ""])


def _section(result: type[Result]) -> str:
    lines = [f"### {result.__name__}\n", f"{_line(result)}\n"]
    if result.model_fields:
        lines += ["| key | value | meaning |", "|---|---|---|"]
    for name, field in result.model_fields.items():
        there = "" if field.is_required() else "*sometimes:* "
        # A key that is left out is never null, unless its meaning says so.
        value = _named(field.annotation, may_be_null=field.is_required() or "null" in str(field.description))
        lines.append(f"| `{name}` | {value} | {there}{field.description} |")
    if issubclass(result, OpenResult):
        lines += ["\nIt may have further keys."] if result.model_fields else []
    return "\n".join([*lines, ""])


def _objects() -> list[type[Result]]:
    """Every object, in the order in which the commands name them, each before those inside it."""
    found: dict[type[Result], None] = {}

    def add(result: type[Result]) -> None:
        if result not in found:
            found[result] = None
            for field in result.model_fields.values():
                for inner in _inside(field.annotation):
                    add(inner)

    for result in RESULTS.values():
        add(result)
    return list(found)


def _inside(annotation: Any) -> Iterable[type[Result]]:
    if isinstance(annotation, type) and issubclass(annotation, Result):
        return [annotation]
    return [each for argument in get_args(annotation) for each in _inside(argument)]


_NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false", types.NoneType: "null", Any: "any"}


def _named(annotation: Any, *, may_be_null: bool = True) -> str:
    """The kind of value, in words."""
    if annotation in _NAMES:
        return _NAMES[annotation]
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        kinds = [each for each in inside if may_be_null or each is not types.NoneType]
        return " or ".join(_named(each) for each in kinds)
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in inside)
    if origin is list:
        return f"list of {_named(inside[0])}"
    if origin is tuple:
        return f"list: {', '.join(_named(each) for each in inside)}"
    if origin is dict:
        return f"object: name to {_named(inside[1])}"
    return _link(annotation)


def _link(result: type[Result]) -> str:
    return f"[{result.__name__}](#{result.__name__.lower()})"


def _line(described: type) -> str:
    """The class's docstring, on one line."""
    return " ".join(str(described.__doc__).split())
