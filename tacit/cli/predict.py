"""`tacit predict`: the next word, from a trained run; without words it answers line after line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.api.run import open_run
from tacit.cli.options import JsonLines, RunArgument
from tacit.cli.results import emit
from tacit.cli.results.keyboard import PredictResult
from tacit.data.text import tokenize

if TYPE_CHECKING:
    from tacit.api.run import Run

_WELCOME = (
    "Type how a sentence begins and press Enter to see how it may go on. Nothing that you type is kept. Ctrl-D ends."
)
_PROMPT = "> "


def predict(
    run: RunArgument,
    text: Annotated[
        str | None,
        typer.Argument(
            help='What has been typed so far, for example "see you".', show_default="ask, or read lines from stdin"
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=50, help="How many words to show.")] = 3,
    as_json: JsonLines = False,
) -> None:
    """Show the most likely next words, with their probabilities.

    Without a text, it keeps the model loaded and answers each line that you type, or each line of stdin.

    Example: tacit predict runs/demo-1 "see you"
    """
    trained = open_run(run)
    if text is None:
        _answer_lines(trained, count, as_json=as_json)
        return
    top, unknown = _suggestions(trained, text, count)
    if as_json:
        _emit(text, top, unknown)
        return
    for word, probability in top:
        print(f"{word:<20} {probability:6.1%}")
    if unknown:
        print(_unknown_words(unknown))


def _answer_lines(trained: Run, count: int, *, as_json: bool) -> None:
    """Answer each line of stdin, until it ends or somebody presses Ctrl-C. On a terminal there is a prompt.

    Lines are read without readline: it would keep what was typed for its history.
    """
    asks = sys.stdin.isatty()
    try:
        _suggestions(trained, "", count)  # loads the model and compiles it, so that the first answer comes at once
        if asks:
            print(_WELCOME, file=sys.stderr)
        while line := _next_line(asks=asks):
            text = line.removesuffix("\n")
            top, unknown = _suggestions(trained, text, count)
            if as_json:
                _emit(text, top, unknown)
                continue
            print("   ".join(f"{word} {probability:.1%}" for word, probability in top), flush=True)
            if unknown and asks:
                print(_unknown_words(unknown), file=sys.stderr)
    except KeyboardInterrupt:
        pass
    if asks:
        print(file=sys.stderr)  # the shell's own prompt begins on a new line


def _next_line(*, asks: bool) -> str:
    if asks:
        print(_PROMPT, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def _suggestions(trained: Run, text: str, count: int) -> tuple[list[tuple[str, float]], list[str]]:
    """The most likely next words, and the words of the text that the vocabulary does not have."""
    top, known = trained.predict(text, count), set(trained.words)
    return top, [word for word in dict.fromkeys(tokenize(text)) if word not in known]


def _emit(text: str, top: list[tuple[str, float]], unknown: list[str]) -> None:
    suggestions = [{"word": word, "probability": probability} for word, probability in top]
    emit(PredictResult, {"text": text, "suggestions": suggestions, "unknown": unknown})


def _unknown_words(unknown: list[str]) -> str:
    return f"(not in the vocabulary, and treated as unknown words: {', '.join(unknown)})"
