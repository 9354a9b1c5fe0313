"""The kinds of recipe: for training, and for the inspections. A recipe says which it is with its key `inspect`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tacit.errors import RecipeError
from tacit.recipe.bias_inspection import BiasInspection, load_bias_inspection
from tacit.recipe.image_inspection import ImageInspection, load_image_inspection
from tacit.recipe.reading import RECIPES, read_toml
from tacit.recipe.text_inspection import TextInspection, load_text_inspection
from tacit.recipe.training import Recipe, load_recipe


@dataclass(frozen=True)
class RecipeKind:
    """One kind of recipe: the command that uses it, the class that checks it, and how a file of it is read."""

    command: str
    schema: type[BaseModel]
    load: Callable[[Path, Iterable[str]], BaseModel]


TRAINING = "training"
# By the value of `inspect`; a recipe without it is for training.
KINDS = {
    TRAINING: RecipeKind("tacit train", Recipe, load_recipe),
    "text": RecipeKind("tacit inspect text", TextInspection, load_text_inspection),
    "images": RecipeKind("tacit inspect images", ImageInspection, load_image_inspection),
    "bias": RecipeKind("tacit inspect bias", BiasInspection, load_bias_inspection),
}


def kind_of_recipe(tree: dict[str, Any]) -> RecipeKind:
    """The kind of a recipe given as nested dictionaries, not validated yet."""
    return kind_named(tree.get("inspect", TRAINING))


def kind_named(name: object) -> RecipeKind:
    """The kind of this name; RecipeError if there is none."""
    if not isinstance(name, str) or name not in KINDS:
        raise RecipeError(f"Expected a kind of recipe among {', '.join(KINDS)}, got {name!r}.")
    return KINDS[name]


def load_any(path: Path, changes: Iterable[str] = ()) -> BaseModel:
    """Read and validate a recipe of any kind, with changes of the form section.key=value."""
    return kind_of_recipe(read_toml(path)).load(path, changes)


def known_recipes() -> dict[str, Path]:
    """The recipes that `find_recipe` finds by name: Tacit's own, and those in a folder recipes/ here, which go first."""
    folders = (RECIPES, Path("recipes"))
    found = {path.stem: path for folder in folders for path in folder.glob("*.toml")}
    return dict(sorted(found.items()))


def commands_of(tree: dict[str, Any]) -> tuple[str, ...]:
    """The commands that use a recipe given as nested dictionaries; one with a [fleet] is served, and can be simulated."""
    command = kind_of_recipe(tree).command
    return ("tacit serve", command) if "fleet" in tree else (command,)


def heading_of(path: Path) -> str:
    """What a recipe file is, from the comment with which it begins: up to the first full stop or colon; else empty."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    comment = " ".join(line.lstrip("# ") for line in itertools.takewhile(lambda line: line.startswith("#"), lines))
    return re.split(r"(?<!\bal)\.(?: |$)|: ", comment, maxsplit=1)[0]
