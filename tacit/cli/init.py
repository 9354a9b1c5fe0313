"""`tacit init`: a recipe for a store of one's own, with every line explained, and what it will cost."""

from __future__ import annotations

import csv
import json
import math
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from tacit.cli.results import emit
from tacit.cli.results.recipes import InitResult
from tacit.data.formats.columns import COLUMN_NAME, TEXT_COLUMNS, USER_COLUMNS
from tacit.data.formats.files import bare_suffix, lines
from tacit.data.remote import INFO
from tacit.data.store import Store, open_store
from tacit.data.summary import NOT_COVERED
from tacit.errors import DataError, RecipeError, TacitError
from tacit.files import write_atomic
from tacit.privacy.statement.wording import epsilon_text
from tacit.recipe.suggestion import EPSILON, ROUNDS, Wishes, explained, suggested_recipe
from tacit.recipe.training import Recipe
from tacit.runs.estimates import in_minutes

if TYPE_CHECKING:
    from tacit.runs.callbacks import RunEstimate

STORES = Path("stores")
# How many entries a vocabulary that is discovered has at most. A constant: how many words people have is private.
_DISCOVERED = 10_000
# With fewer people in a round than this share of the cohort, the noise weighs more than the plan says.
_LEAST_SHARE_OF_COHORT = 0.5


def init(
    store: Annotated[
        Path | None,
        typer.Argument(help="The store to train on, made by `tacit data import`.", show_default="the one in stores/"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The recipe file to write.")] = Path("recipe.toml"),
    population: Annotated[
        int | None,
        typer.Option(
            "--population",
            help="How many people there are, as you would say it in public.",
            show_default="those in the store, rounded down to one digit",
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="The epsilon to stay at or below.", show_default=f"{EPSILON:g}")
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="How many rounds to train.")] = ROUNDS,
    cohort: Annotated[
        float | None,
        typer.Option("--cohort", help="How many people take part in a round.", show_default="a quarter, 500 at most"),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option("--delta", help="The delta of (epsilon, delta).", show_default="below a tenth of 1/population"),
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help="The model: tiny, benchmark, ...", show_default="tiny")
    ] = None,
    trial: Annotated[
        bool, typer.Option("--trial/--no-trial", help="Time a round with made-up people; takes some seconds.")
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing, and take every default.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Ask nothing; print one JSON object and nothing else on stdout.")
    ] = False,
) -> None:
    """Write a recipe for a store of your own, and say what it will cost in time and epsilon.

    On a terminal it asks for what was not given as an option. The recipe explains each of its lines; change what you like.

    Example: tacit init stores/mine --population 9000 --epsilon 4
    """
    if out.exists():
        raise RecipeError(f"The file {out} exists already, and is left as it is.", hint="--out names another file.")
    opened = _open(_the_store() if store is None else store)
    asks = sys.stdin.isatty() and not yes and not as_json
    stated = counted = _people(opened) if population is None else population
    if asks and population is None:
        stated = int(
            typer.prompt("How many people are there, as you would say it in public?", default=stated, err=True)
        )
    if epsilon is None:
        asked = "Which epsilon may all rounds cost any one of them? (less is more private, and learns less)"
        epsilon = float(typer.prompt(asked, default=EPSILON, err=True)) if asks else EPSILON
    wishes = Wishes(stated, epsilon, rounds, cohort, delta, preset, _words_to_discover(opened))
    recipe = suggested_recipe(str(opened.path), _name_of(opened.path), wishes)
    estimate, warnings = _estimate(recipe, trial=trial)
    minutes = _minutes_here(estimate, opened, recipe)
    if population is None and stated == counted:
        warnings = [_counted_warning(stated), *warnings]
    warnings = [*_too_few_people(opened, recipe), *warnings]
    privacy = _privacy_lines(estimate)
    write_atomic(out, explained(recipe, [_made_for(opened), *privacy, f"Train with: tacit train {out}"]))
    if as_json:
        emit(InitResult, _facts(out, recipe, estimate, minutes, warnings))
        return
    for line in [_seen(opened), NOT_COVERED, _made(out, recipe), *_discovery_lines(recipe), *privacy]:
        print(line)
    if minutes is not None:
        print(_time_line(estimate, minutes, recipe))
    for sentence in warnings:
        print(f"Warning: {sentence}")
    print(f"Train with: tacit train {shlex.quote(str(out))}")


def _the_store() -> Path:
    """The one store in stores/."""
    found = sorted(path.parent for path in STORES.glob(f"*/{INFO}"))
    if len(found) == 1:
        return found[0]
    raise DataError(
        f"Expected a store to train on, got none, and {STORES}/ has {len(found) or 'none'}.",
        hint=f"Name one of {', '.join(map(str, found))}." if found else _import_command(Path("FILE"), "USER", "TEXT"),
    )


def _open(path: Path) -> Store:
    """The store; a file that has to be imported first gets the command that does it."""
    if path.is_file():
        raise DataError(
            f"Expected a store, got the file {path}, which has to be imported first.",
            hint=_import_command(path, *_columns(path)),
        )
    store = open_store(path)
    if store.vocabulary is None:
        raise DataError(f"Expected a store of text with a vocabulary, got {path}, which has none.")
    return store


def _import_command(path: Path, user: str, text: str) -> str:
    out = STORES / path.name.split(".")[0].lower()
    return (
        f"tacit data import {shlex.quote(str(path))} --user {user} --text {text} --vocabulary WORDS --out {out} "
        "(WORDS: a public word list, or what `tacit data vocabulary` makes of a public text)"
    )


def _columns(path: Path) -> tuple[str, str]:
    """The columns that look like user and text in the file's first line; in capitals what a person has to fill in."""
    names: list[str] = []
    try:
        if bare_suffix(path) in (".jsonl", ".ndjson"):
            names = list(json.loads(next(iter(lines(path)))[1]))
        elif bare_suffix(path) in (".csv", ".tsv"):
            first = next(iter(lines(path)))[1]
            names = next(csv.reader([first], delimiter="\t" if bare_suffix(path) == ".tsv" else ","))
    except (TacitError, OSError, StopIteration, TypeError, ValueError, csv.Error):
        pass  # the import will say what is wrong with the file
    known = {name.strip().lower(): name.strip() for name in names if COLUMN_NAME.fullmatch(name.strip())}
    user = next((known[name] for name in USER_COLUMNS if name in known), "USER")
    return user, next((known[name] for name in TEXT_COLUMNS if name in known), "TEXT")


def _words_to_discover(store: Store) -> int | None:
    """How many words the recipe should discover, if those of the store were counted on its people."""
    words = store.vocabulary
    return None if words is None or words.is_public else _DISCOVERED


def _discovery_lines(recipe: Recipe) -> list[str]:
    section = recipe.vocabulary
    if section is None:
        return []
    return [
        f"Words: those of the store were counted on its people, which would make ε infinite. The recipe discovers at most "
        f"{section.size:,} words under differential privacy, for ε = {section.epsilon:g} of the total. With a public word list "
        "in vocabulary.words it finds more."
    ]


def _people(store: Store) -> int:
    """How many people there are to train on, rounded down to one digit."""
    people = int(store.info.users * (1 - store.info.held_out))
    digit = 10 ** max(len(str(people)) - 1, 0)
    return people // digit * digit


def _name_of(store: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", store.resolve().name).strip("-.")
    return name or "mine"


def _estimate(recipe: Recipe, *, trial: bool) -> tuple[RunEstimate, list[str]]:
    # Imported here: JAX takes a second to import, and mistakes should be reported at once.
    from tacit.simulation.training import estimate_of_recipe

    return estimate_of_recipe(recipe, trial=trial)


def _minutes_here(estimate: RunEstimate, store: Store, recipe: Recipe) -> float | None:
    """Seconds that all rounds take with as much text as the people in this store have on average; for the owner."""
    if estimate.seconds is None:
        return None
    cap = recipe.data.tokens_per_user
    return estimate.seconds * float(np.minimum(store.token_counts(), cap).mean()) / cap if len(store) else None


def _seen(store: Store) -> str:
    info, words = store.info, store.vocabulary
    assert words is not None
    return (
        f"{store.path}: {info.users:,} people, {info.items:,} words, and a vocabulary of {len(words):,} entries "
        f"({words.provenance})."
    )


def _made_for(store: Store) -> str:
    return f"A recipe for the people in {store.path}, made by `tacit init`. Change what you like; # explains each line."


def _made(out: Path, recipe: Recipe) -> str:
    plan = recipe.privacy
    return (
        f"{out}: {recipe.run.rounds:,} rounds, each with about {plan.cohort:,.0f} of {plan.population:,} people, and noise of "
        f"{plan.noise_multiplier:g} times the most that one of them can contribute."
    )


def _counted_warning(population: int) -> str:
    return (
        f"The {population:,} people were counted in the store and rounded down, and the figure becomes public. Give "
        "--population if it should not follow from the store."
    )


def _too_few_people(store: Store, recipe: Recipe) -> list[str]:
    """A warning if the population is so much larger than the store that rounds stay nearly empty.

    Each person takes part with the probability cohort / population, whoever else there is.
    """
    plan = recipe.privacy
    expected = store.info.users * (1 - store.info.held_out) * plan.cohort / plan.population
    if expected >= _LEAST_SHARE_OF_COHORT * plan.cohort:
        return []
    return [
        f"The store has far fewer people than the population of {plan.population:,}: a round will have about {expected:,.0f} "
        f"people, not {plan.cohort:,.0f}, and the model will learn little. Give the number of people in the store with "
        "--population."
    ]


def _privacy_lines(estimate: RunEstimate) -> list[str]:
    """What the guarantee will state, or why it will state nothing and what would change that."""
    if math.isfinite(estimate.epsilon):
        return [
            f"Privacy: ε = {epsilon_text(estimate.epsilon)} at δ = {estimate.delta:g}, for all the data of any one person, in "
            f"{estimate.rounds:,} rounds."
        ]
    return [f"Privacy: none can be claimed (ε is infinite), because {'; '.join(estimate.reasons_not_private)}."]


def _time_line(estimate: RunEstimate, seconds: float, recipe: Recipe) -> str:
    assert estimate.seconds is not None
    return (
        f"Time: about {in_minutes(seconds)} on this machine, and {in_minutes(estimate.seconds)} if everybody had "
        f"{recipe.data.tokens_per_user:,} words, the most that are read of one person. A round with made-up people was timed."
    )


def _facts(
    out: Path, recipe: Recipe, estimate: RunEstimate, seconds: float | None, warnings: list[str]
) -> dict[str, object]:
    plan = recipe.privacy
    return {
        "recipe": str(out),
        "store": recipe.data.store,
        "population": plan.population,
        "cohort": plan.cohort,
        "rounds": recipe.run.rounds,
        "noise_multiplier": plan.noise_multiplier,
        "epsilon": estimate.epsilon if math.isfinite(estimate.epsilon) else None,
        "delta": estimate.delta,
        "reasons_not_private": list(estimate.reasons_not_private),
        "seconds": seconds,
        "seconds_at_most": estimate.seconds,
        "warnings": warnings,
    }
