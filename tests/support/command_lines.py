"""Command lines of Tacit in documents: find them, and say what is wrong with one, without running it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from tacit.cli.app import complete

_FENCE = re.compile(r"^```(?:console|bash|sh|)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(tacit [^`]+)`")
_IN_SHELL = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*(tacit .*)|\$\((tacit [^)]*)\)")
_ENDS = {"|", "||", "&", "&&", ";", ">", ">>", "(", ")", "<"}


def lines_in(markdown: str) -> Iterator[str]:
    """Every line that begins with `tacit` in a shell's block, with lines that a backslash continues, and in `code`."""
    for block in _FENCE.findall(markdown):
        for line in block.replace("\\\n", " ").splitlines():
            yield from (match[1] or match[2] for match in _IN_SHELL.finditer(line))
    yield from (" ".join(line.split()) for line in _INLINE.findall(_FENCE.sub("", markdown)))


def problem_of(line: str) -> str | None:
    """Why the line does not parse: an unknown command or option, or too many arguments. None if it does.

    Options that are required may be missing, and so may the value of the last option, because text names commands without them.
    `...` and shell variables are passed over.
    """
    words = _words(line)
    command: Any = typer.main.get_command(complete())
    name, rest = "tacit", words[1:]
    while True:
        context = command.context_class(command, info_name=name)
        try:
            _, rest, _ = command.make_parser(context).parse_args(list(rest))
        except Exception as error:  # the errors of the library that Typer brings with it
            message = getattr(error, "message", str(error))
            named_only = "requires an argument" in message and f"'{words[-1]}'" in message
            return None if named_only else f"{name}: {message}"
        if not isinstance(command, TyperGroup):
            return f"{name}: takes no further argument {rest[0]!r}" if rest else None
        if not rest:
            return None
        if rest[0] not in command.commands:
            return f"{name} has no command {rest[0]!r}"
        name, command, rest = f"{name} {rest[0]}", command.commands[rest[0]], rest[1:]


def _words(line: str) -> list[str]:
    """The words of the first command of a shell's line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.commenters = "#"
    lexer.wordchars += ":[]{},%@^+$"
    words: list[str] = []
    for word in lexer:
        if word in _ENDS:
            break
        if word != "..." and not word.startswith("$"):
            words.append(word)
    return words
