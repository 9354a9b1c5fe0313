"""The reference of commands, from the commands themselves: every argument and option with its help and default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from tacit.cli.app import complete

_RANGE = re.compile(r"[\d.<=]*x[<>=\d.]*")


def nav() -> list[Any]:
    """The pages in order: one for all commands together, then one for each."""
    return ["reference/commands/index.md", *({f"tacit {name}": _uri(name)} for name in sorted(_all()))]


def pages() -> dict[str, str]:
    """The pages by name."""
    return {"reference/commands/index.md": _index(), **{_uri(name): _page(name, each) for name, each in _all().items()}}


def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """A command and those below it, each with its full name."""
    yield name, command
    for below, each in getattr(command, "commands", {}).items():
        yield from walk(each, f"{name} {below}")


def _all() -> dict[str, Any]:
    return dict(typer.main.get_command(complete()).commands)


def _only_groups(command: Any) -> bool:
    """Whether a command only holds others and does nothing by itself."""
    return bool(getattr(command, "commands", None)) and not command.invoke_without_command


def _uri(name: str) -> str:
    return f"reference/commands/{name}.md"


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _index() -> str:
    whole = typer.main.get_command(complete())
    lines = [
        "# Commands",
        "",
        "After this page you know which command does what. Each has a page with its options; `--help` says the same.",
        "",
        "| command | what it does |",
        "|---|---|",
    ]
    for top, command in sorted(_all().items()):
        for name, each in walk(command, f"tacit {top}"):
            if not _only_groups(each):
                lines.append(f"| [`{name}`]({top}.md#{_anchor(name)}) | {_cell(_paragraphs(each)[0])} |")
    lines += ["", "Before the name of a command:", "", *_parameters(whole, "tacit")]
    return "\n".join(lines) + "\n"


def _page(name: str, command: Any) -> str:
    lines = [f"# tacit {name} {{ #{_anchor(f'tacit {name}')} }}"]
    for full, each in walk(command, f"tacit {name}"):
        if full != f"tacit {name}":
            lines += ["", f"## {full} {{ #{_anchor(full)} }}"]
        for paragraph in _paragraphs(each):
            example = paragraph.removeprefix("Example: ")
            lines += ["", paragraph] if example == paragraph else ["", "```", *_folded(f"$ {example}"), "```"]
        if not _only_groups(each):
            lines += ["", *_parameters(each, full)]
    return "\n".join(lines) + "\n"


def _folded(line: str, width: int = 98) -> list[str]:
    """A command as lines that fit the page, broken before options."""
    first, *options = re.split(r" (?=--)", line)
    lines = [first]
    for option in options:
        if len(lines[-1]) + 1 + len(option) <= width - 2:
            lines[-1] += f" {option}"
        else:
            lines[-1] += " \\"
            lines.append(f"    {option}")
    return lines


def _paragraphs(command: Any) -> list[str]:
    return [" ".join(part.split()) for part in (command.help or "").split("\n\n") if part.strip()]


def _parameters(command: Any, name: str) -> list[str]:
    """A table of arguments and options, those that are required first."""
    context = command.context_class(command, info_name=name)
    rows = []
    for parameter in command.get_params(context):  # as --help shows them, and --help itself, which needs no row
        if parameter not in command.params:
            continue
        if (record := parameter.get_help_record(context)) is None:
            continue
        shown, text = record
        meaning, default, limits = _parts(text)
        default = "*required*" if parameter.required else _code(default)
        meaning += f" Range: `{limits}`." if limits else ""
        rows.append((not parameter.required, f"| {_code(shown)} | {_cell(meaning)} | {default} |"))
    ordered = [row for _, row in sorted(rows, key=lambda row: row[0])]
    return ["| argument or option | meaning | default |", "|---|---|---|", *ordered] if rows else []


def _parts(text: str) -> tuple[str, str, str]:
    """The help of an option, its default and its range; as Typer writes them, "How many.  [default: 3; 1<=x<=50]"."""
    meaning, _, extra = text.partition("  [")
    found = [part for part in extra.removesuffix("]").split("; ") if part and part != "required"]
    limits = found.pop() if found and _RANGE.fullmatch(found[-1]) else ""
    default = "; ".join(found).removeprefix("default: ")
    return meaning, default[1:-1] if default.startswith("(") else default, limits


def _code(text: str) -> str:
    """As code, in which a table takes a bar for what it is, and a backslash too."""
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
