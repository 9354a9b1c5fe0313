"""`tacit inspect images`: find a fault in images that nobody may see, with two private models that make up similar images."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tacit.cli.options import Changes, Json
from tacit.cli.results import emit
from tacit.cli.results.inspect import InspectImagesResult
from tacit.cli.running import interruptible
from tacit.cli.summary import tacit_command
from tacit.errors import RecipeError
from tacit.recipe.image_inspection import IMAGES, image_inspection_of, load_image_inspection, refuse_if_inspected
from tacit.recipe.reading import find_recipe
from tacit.runs.finding import by_name, next_folder
from tacit.runs.progress import Progress

if TYPE_CHECKING:
    from tacit.inspection.images.findings import ImageFindings


def images(
    recipe: Annotated[
        str | None,
        typer.Argument(help="The recipe file of an inspection of images.", show_default="inspect_images"),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="STORE", help="Inspect this store in place of the users of the recipe."),
    ] = None,
    classifier: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Use the classifier of an earlier inspection: its run, in the folder classifier/."
        ),
    ] = None,
    changes: Changes = None,
    out: Annotated[Path | None, typer.Option(help="The folder to make.", show_default="runs/NAME-1, -2, ...")] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Continue an inspection that was stopped or killed.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a classifier, find the users it serves well and badly, and make up images like those of either group.

    The images are made up by one private model for each group. With --set selection.by=all a single model learns from all
    images, to see whether they are what you expect, and needs no classifier; with selection.by=unlabelled it never sees a
    label, and its images can be labelled by people. The default is a built-in world in which half of the devices exchange light
    and dark. With --data, also say how many classes
    and users there are (--set data.classes=10, and population and cohort in selection.privacy, gan.privacy and
    classifier.privacy). Ctrl-C stops after the current round.

    Example: tacit inspect images --set fault.share=0 --out runs/fixed
    """
    if resume is not None and (recipe or data or classifier or changes or out):
        raise RecipeError(
            "Expected --resume alone: an inspection continues in its folder, with the recipe with which it began."
        )
    if resume is None:
        path = IMAGES if recipe is None else find_recipe(recipe)
        primary = None if classifier is None else by_name(classifier)
        followed = load_image_inspection(path, changes or (), store=data, classifier=primary)
        folder = out or next_folder(followed.name)
        refuse_if_inspected(folder)  # before the model is built, which takes seconds
    else:
        folder = by_name(resume)
        image_inspection_of(folder)
    console = Console(stderr=True)
    with interruptible(console, folder, "inspect images"):
        # Imported here: JAX takes a second to import, and the mistakes above should be reported at once.
        from tacit.inspection.images.run import resume_images, start_images

        progress = Progress(console=console, bar=False, describe=_seen, name_runs=True)
        looked = resume_images(folder, progress) if resume is not None else start_images(followed, folder, progress)
    if as_json:
        emit(InspectImagesResult, {"folder": str(folder), **looked.findings.as_dict()})
    else:
        _print(looked.findings, folder)


def _seen(metrics: Mapping[str, Any]) -> str:
    """One line about an evaluation of the classifier or of a generator."""
    if "accuracy" in metrics:
        return f"{metrics['accuracy']:.1%} of held-out images classified right"
    return f"{metrics['inverted']:.0%} of generated images have a bright background"


def _print(found: ImageFindings, folder: Path) -> None:
    from tacit.inspection.images.findings import OUTSIDE, SCORE_COLUMNS

    console = Console(highlight=False, markup=False)
    table = Table(*SCORE_COLUMNS, box=None, pad_edge=False, header_style="bold")
    for row in found.score_rows():
        table.add_row(*row)
    console.print(table)
    where = shlex.quote(str(folder / ("all" if "all" in found.scores else "low")))
    last = f"The runs are in {folder}. A page with the images: {tacit_command()} report {where}"
    outside = () if found.accuracy is None else (OUTSIDE,)
    for sentence in (found.conclusion(), *outside, found.price(), last):
        console.print(sentence, soft_wrap=True)
