"""`tacit inspect`: find faults in text that nobody may read, with a private model that makes up similar text.

The commands for images and for bias have files of their own, `inspect_images.py` and `inspect_bias.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tacit.cli.commands import Commands
from tacit.cli.inspect_bias import bias
from tacit.cli.inspect_images import images
from tacit.cli.options import Changes, Json, NewRun
from tacit.cli.results import emit
from tacit.cli.results.inspect import InspectCompareResult, InspectTextResult
from tacit.cli.running import interruptible
from tacit.cli.summary import privacy_sentence, tacit_command
from tacit.errors import RecipeError
from tacit.recipe.reading import find_recipe
from tacit.recipe.text_inspection import TEXT, load_text_inspection, text_inspection_of
from tacit.runs.finding import by_name, is_run, next_folder, refuse_if_taken
from tacit.runs.folder import RunFolder
from tacit.runs.progress import Progress

if TYPE_CHECKING:
    from tacit.inspection.text.findings import WordFindings

app = Commands(help="Find faults in data that nobody may open, with private models that make up similar data.")
app.command()(images)
app.command()(bias)


@app.callback()
def inspect() -> None:
    """Find faults in data that nobody may open, with private models that make up similar data."""


@app.command()
def text(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN|RECIPE]",
            help="A finished run of tacit train, to inspect its users and its model, or the recipe of an inspection.",
            show_default="inspect_text",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="STORE", help="Inspect this store in place of the users of the run or the recipe."),
    ] = None,
    changes: Changes = None,
    out: NewRun = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Continue an inspection that was stopped or killed.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a private model of the words that the vocabulary does not have, and show the words it makes up.

    If a run of a next-word model is given, its accuracy and sentences that it makes up are shown too. The default is a built-in
    world with a fault of tokenization in a tenth of all sentences. With --data, also say how many users there are and how many
    take part in a round: --set privacy.population=N --set privacy.cohort=C. Ctrl-C stops after the current round.

    Example: tacit inspect text runs/demo-1 --out runs/inspected
    """
    if resume is not None and (what is not None or data is not None or changes or out is not None):
        raise RecipeError(
            "Expected --resume alone: an inspection continues in its folder, with the recipe with which it began."
        )
    if resume is None:
        run = None if what is None else by_name(Path(what))
        if run is not None and is_run(run):
            followed = load_text_inspection(changes=changes or (), primary=run, store=data)
        else:
            followed = load_text_inspection(TEXT if what is None else find_recipe(what), changes or (), store=data)
        folder = out or next_folder(followed.name)
        refuse_if_taken(folder)  # before the model is built, which takes seconds
    else:
        folder = by_name(resume)
        followed = text_inspection_of(RunFolder.open(folder))
    console = Console(stderr=True)
    with interruptible(console, folder, "inspect text"):
        # Imported here: JAX takes a second to import, and the mistakes above should be reported at once.
        from tacit.inspection.text.findings import WordFindings
        from tacit.inspection.text.run import resume_inspection, start_inspection

        progress = Progress(console=console, bar=False, describe=_seen)
        begin = resume is None
        summary = start_inspection(followed, folder, progress) if begin else resume_inspection(folder, progress)
    found = WordFindings.from_dict(summary["inspection"])
    if as_json:
        emit(InspectTextResult, {"run": str(folder), **summary, "conclusion": found.conclusion()})
    else:
        _print(found, folder, summary)


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(help="A finished inspection of text, or its name in runs/.")],
    after: Annotated[Path, typer.Argument(help="A later inspection; its report will show the comparison.")],
    as_json: Json = False,
) -> None:
    """Compare two inspections of text: show what the words of the later one have and those of the earlier one do not.

    Example: tacit inspect compare runs/before runs/after
    """
    from tacit.inspection.text.comparison import compare_inspections
    from tacit.runs.report.sections import write_section

    later = by_name(after)
    found = compare_inspections(by_name(before), later)
    write_section(RunFolder.open(later), found.section())
    if as_json:
        emit(InspectCompareResult, found.as_dict())
        return
    console = Console(highlight=False, markup=False)
    console.print(found.conclusion(), soft_wrap=True, style="bold")
    console.print()
    _print_table(console, ["before", "× 1000", "after", "× 1000"], found.rows())
    _print_table(
        console,
        found.place_columns(),
        found.place_rows(),
        caption="Unknown words, by place in the sentence",
    )
    for sentence in (found.price(), f"The report now shows this: tacit report {later}"):
        console.print(sentence, soft_wrap=True)


def _seen(metrics: Mapping[str, Any]) -> str:
    return f"perplexity of a letter {metrics['perplexity']:.2f}"


def _print(found: WordFindings, folder: Path, summary: Mapping[str, Any]) -> None:
    from tacit.inspection.costs import price_at_scale, price_together
    from tacit.inspection.text.findings import OUTSIDE, OUTSIDE_ACCURACY, word_rows

    console = Console(highlight=False, markup=False)
    console.print(found.conclusion(), soft_wrap=True, style="bold")
    if found.primary is not None:
        console.print(found.primary.metric(), soft_wrap=True, style="bold")
    console.print()
    _print_table(console, ["unknown word", "probability × 1000"], word_rows(found.words))
    console.print(f"\n{OUTSIDE}", soft_wrap=True)
    if found.primary is not None:
        console.print("\nSentences that the primary model generates:")
        for sentence in found.primary.sentences:
            console.print(f"  {sentence}", soft_wrap=True)
        console.print(OUTSIDE_ACCURACY, soft_wrap=True)
    console.print()
    console.print(Text.from_markup(privacy_sentence(summary["privacy"])), soft_wrap=True)
    if found.primary is not None:
        console.print(price_together(summary["together"]), soft_wrap=True)
    if scale := summary.get("at_scale"):
        console.print(price_at_scale(scale), soft_wrap=True)
    console.print(
        f"The run is in {folder}. A page of it: {tacit_command()} report {shlex.quote(str(folder))}", soft_wrap=True
    )


def _print_table(console: Console, columns: list[str], rows: list[list[str]], caption: str | None = None) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", title=caption, title_justify="left")
    for place, column in enumerate(columns):
        is_number = all(not row[place] or row[place][0].isdigit() for row in rows)
        table.add_column(column, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
