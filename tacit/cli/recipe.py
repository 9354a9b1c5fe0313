"""`tacit recipe`: list recipes, show one with every default filled in, print the schema. Reads files and changes nothing."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tacit.cli.commands import Commands
from tacit.cli.options import Changes, Json
from tacit.cli.results import emit
from tacit.cli.results.recipes import RecipeListResult, RecipeResult, SchemaResult
from tacit.errors import RecipeError
from tacit.recipe.describing import json_schema
from tacit.recipe.kinds import KINDS, TRAINING, commands_of, heading_of, kind_named, known_recipes, load_any
from tacit.recipe.reading import find_recipe, read_toml
from tacit.recipe.writing import commented_toml

app = Commands(help="List and show recipes, and print their schema.", no_args_is_help=True)


@app.command("list")
def list_recipes(as_json: Json = False) -> None:
    """List the recipes that commands find by name: Tacit's own, and those in the folder recipes/.

    Example: tacit recipe list
    """
    found = [_facts(name) for name in known_recipes()]
    if as_json:
        emit(RecipeListResult, {"recipes": found})
        return
    table = Table("recipe", "used by", "what it is", box=None)
    for facts in found:
        table.add_row(facts["recipe"], ", ".join(facts["commands"]) or "-", facts.get("problem") or facts["about"])
    Console().print(table, highlight=False)


@app.command()
def show(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or the name of one that comes with Tacit.")],
    changes: Changes = None,
    as_json: Json = False,
) -> None:
    """Show a recipe as a run would follow it: every default is filled in, and every line is explained.

    The output is a recipe: a file with it makes the same run.

    Example: tacit recipe show demo --set run.rounds=40
    """
    effective = load_any(find_recipe(recipe), changes or ())
    if as_json:
        emit(RecipeResult, effective.model_dump(mode="json", exclude_none=True))
    else:
        print(commented_toml(effective))


@app.command()
def schema(
    kind: Annotated[str, typer.Argument(help=f"The kind of recipe: {', '.join(KINDS)}.")] = TRAINING,
    as_json: Json = False,
) -> None:
    """Print the JSON schema of recipes, with which an editor completes and checks them. With --json it is one line.

    Example: tacit recipe schema
    """
    found = json_schema(kind_named(kind).schema)
    if as_json:
        emit(SchemaResult, found)
    else:
        print(json.dumps(found, indent=2))


def _facts(name: str) -> dict[str, Any]:
    """What a recipe is for; of a file that is no recipe, the problem, so that it does not hide the others."""
    path = find_recipe(name)
    try:
        commands = commands_of(read_toml(path))
    except RecipeError as error:
        return {"recipe": name, "file": str(path), "commands": [], "problem": error.sentence}
    return {"recipe": name, "file": str(path), "commands": list(commands), "about": heading_of(path)}
