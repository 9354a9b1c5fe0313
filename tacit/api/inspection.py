"""Find a fault in text that nobody may read: train a private model of unknown words, and look at the words it makes up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.api.run import Run, open_run
from tacit.errors import RecipeError
from tacit.recipe.reading import find_recipe
from tacit.recipe.text_inspection import load_text_inspection
from tacit.runs.callbacks import Callback, Callbacks
from tacit.runs.finding import by_name, next_folder
from tacit.runs.folder import RunFolder

if TYPE_CHECKING:
    from tacit.inspection.text.findings import WordFindings


@dataclass(frozen=True)
class TextInspected:
    """An inspection that is done: its run, with model and guarantee, and what was found.

    >>> import tacit
    >>> tacit.inspect_text(out="runs/look").run.cost().epsilon  # doctest: +SKIP
    1.63
    """

    run: Run
    findings: WordFindings


def inspect_text(
    recipe: str | Path = "inspect_text",
    *,
    changes: Iterable[str] = (),
    run: str | Path | None = None,
    store: str | Path | None = None,
    out: str | Path | None = None,
    callbacks: Iterable[Callback] = (),
) -> TextInspected:
    """Train a private model of the words that the vocabulary does not have, and return the words that it makes up.

    `run` names a finished run of `tacit.train` with a recipe: its users are inspected, and its model too. `store` names a
    store to inspect. Without either, the users are those of the recipe.

    >>> import tacit
    >>> found = tacit.inspect_text(changes=["run.rounds=2"])  # doctest: +SKIP
    >>> print(found.findings.conclusion())  # doctest: +SKIP
    """
    from tacit.inspection.text.findings import WordFindings
    from tacit.inspection.text.run import start_inspection
    from tacit.training.calls import CALLED

    if run is not None and CALLED in RunFolder.open(by_name(Path(run))).recipe():
        raise RecipeError(
            f"The run {run} was begun with objects of your own: only the users of a recipe's run can be inspected by its name.",
            hint="Inspect the users' store instead: tacit.inspect_text(store=...).",
        )
    followed = load_text_inspection(
        find_recipe(str(recipe)),
        changes,
        primary=None if run is None else by_name(Path(run)),
        store=None if store is None else Path(store),
    )
    where = next_folder(followed.name) if out is None else Path(out)
    summary = start_inspection(followed, where, Callbacks(callbacks))
    return TextInspected(open_run(where), WordFindings.from_dict(summary["inspection"]))
