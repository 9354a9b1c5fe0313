"""`tacit inspect bias`: find what people write and public text does not have, with a private model of such sentences."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tacit.cli.options import Changes, Json, NewRun
from tacit.cli.results import emit
from tacit.cli.results.inspect import InspectBiasResult
from tacit.cli.running import interruptible
from tacit.cli.summary import privacy_sentence, tacit_command
from tacit.errors import RecipeError
from tacit.recipe.bias_inspection import BIAS, bias_inspection_of, load_bias_inspection
from tacit.recipe.reading import find_recipe
from tacit.runs.finding import by_name, next_folder, refuse_if_taken
from tacit.runs.folder import RunFolder
from tacit.runs.progress import Progress

if TYPE_CHECKING:
    from tacit.inspection.text.bias import BiasFindings


def bias(
    recipe: Annotated[
        str | None,
        typer.Argument(help="The recipe file of an inspection of bias.", show_default="inspect_bias"),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="STORE", help="Inspect this store in place of the users of the recipe."),
    ] = None,
    changes: Changes = None,
    out: NewRun = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Continue an inspection that was stopped or killed.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a private model of the sentences that a model of public text finds unlikely, and show what it makes up.

    These are sentences of the people that the public text does not represent. The default is a built-in world in which the
    public text is by tidy writers. With --data, also name public text (pretrain.store and pretrain.public) and say how many
    users there are (privacy.population and privacy.cohort). Ctrl-C stops after the current round.

    Example: tacit inspect bias --set bias.threshold=5
    """
    if resume is not None and (recipe or data or changes or out):
        raise RecipeError(
            "Expected --resume alone: an inspection continues in its folder, with the recipe with which it began."
        )
    if resume is None:
        followed = load_bias_inspection(BIAS if recipe is None else find_recipe(recipe), changes or (), store=data)
        folder = out or next_folder(followed.name)
        refuse_if_taken(folder)  # before the model is built, which takes seconds
    else:
        folder = by_name(resume)
        bias_inspection_of(RunFolder.open(folder))
    console = Console(stderr=True)
    with interruptible(console, folder, "inspect bias"):
        # Imported here: JAX takes a second to import, and the mistakes above should be reported at once.
        from tacit.inspection.text.bias import BiasFindings, resume_bias, start_bias

        progress = Progress(console=console, bar=False)
        summary = start_bias(followed, folder, progress) if resume is None else resume_bias(folder, progress)
    if as_json:
        emit(InspectBiasResult, {"run": str(folder), **summary})
    else:
        _print(BiasFindings.from_dict(summary["bias"]), folder, summary)


def _print(found: BiasFindings, folder: Path, summary: dict[str, Any]) -> None:
    console = Console(highlight=False, markup=False)
    console.print(found.conclusion(), soft_wrap=True, style="bold")
    if found.words:
        table = Table("word", box=None, pad_edge=False, header_style="bold")
        for head in ("in a thousand words", "of the public model"):
            table.add_column(head, justify="right")
        for word, often, before in found.words:
            table.add_row(word, f"{often:.1f}", f"{before:.1f}")
        console.print(table)
    if found.sentences:
        console.print("\nSentences that the model makes up:")
        for sentence in found.sentences:
            console.print(f"  {sentence}", soft_wrap=True)
    console.print(Text.from_markup(privacy_sentence(summary["privacy"])), soft_wrap=True)
    where = shlex.quote(str(folder))
    console.print(f"The run is in {folder}. A page of it: {tacit_command()} report {where}", soft_wrap=True)
