"""`tacit predict`: the next word, from a trained run."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.api.run import open_run
from tacit.cli.options import Json, RunArgument
from tacit.cli.results import emit
from tacit.cli.results.keyboard import PredictResult
from tacit.data.text import tokenize


def predict(
    run: RunArgument,
    text: Annotated[str, typer.Argument(help='What has been typed so far, for example "see you".')] = "",
    count: Annotated[int, typer.Option(min=1, max=50, help="How many words to show.")] = 3,
    as_json: Json = False,
) -> None:
    """Show the most likely next words, with their probabilities.

    Example: tacit predict runs/demo-1 "see you"
    """
    trained = open_run(run)
    top = trained.predict(text, count)
    known = set(trained.words)
    unknown = [word for word in dict.fromkeys(tokenize(text)) if word not in known]
    if as_json:
        suggestions = [{"word": word, "probability": probability} for word, probability in top]
        emit(PredictResult, {"text": text, "suggestions": suggestions, "unknown": unknown})
        return
    for word, probability in top:
        print(f"{word:<20} {probability:6.1%}")
    if unknown:
        print(f"(not in the vocabulary, and treated as unknown words: {', '.join(unknown)})")
