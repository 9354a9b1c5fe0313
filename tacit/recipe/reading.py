"""Recipe files: find one, read it, change a value from the command line, write it as TOML.

A recipe here is nested dictionaries, not validated yet (`tacit.recipe.training`, `text_inspection`, `image_inspection`).
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from tacit.errors import RecipeError

# Inside an installed package, else beside it in a checkout.
_INSTALLED = Path(__file__).parents[1] / "recipes"
RECIPES = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[2] / "recipes"


def find_recipe(name: str) -> Path:
    """The file at this path, or Tacit's own recipe of this name."""
    for path in (Path(name), Path("recipes") / f"{name}.toml", RECIPES / f"{name}.toml"):
        if path.is_file():
            return path
    known = sorted(path.stem for path in RECIPES.glob("*.toml"))
    hint = f"Tacit's own recipes: {', '.join(known)}." if known else None
    what = "is a folder" if Path(name).is_dir() else "does not exist"
    raise RecipeError(f"Expected a recipe file, got {name!r}, which {what}.", hint=hint)


def read_toml(path: Path) -> dict[str, Any]:
    """A recipe file as nested dictionaries, not validated yet."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise RecipeError(
            f"{path} is not valid TOML: byte {error.start + 1} is not UTF-8.", hint="Save the file as UTF-8."
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path} is not valid TOML: {error}.") from None
    except OSError as error:
        raise RecipeError(f"Cannot read the recipe {path} ({error.strerror}).") from None


def toml_of(tree: dict[str, Any], prefix: str = "") -> str:
    """Nested dictionaries as TOML; lists of tables are written inline."""
    lines = [f"{key_text(key)} = {value_text(value)}" for key, value in tree.items() if not isinstance(value, dict)]
    for key, value in tree.items():
        if isinstance(value, dict):
            lines += ["", f"[{prefix}{key_text(key)}]", toml_of(value, f"{prefix}{key_text(key)}.")]
    return "\n".join(lines)


def value_text(value: Any) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key_text(key)} = {value_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(value_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # JSON strings, numbers and booleans are TOML


def key_text(key: str) -> str:
    """A key as TOML, in quotes where it needs them."""
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else json.dumps(key)


def apply_change(tree: dict[str, Any], change: str) -> None:
    """Change a recipe given as nested dictionaries, in place; `change` is section.key=value."""
    name, equals, text = change.partition("=")
    keys = name.strip().split(".")
    if not equals or not all(keys):
        raise RecipeError(f"Expected --set section.key=value, got {change!r}.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
        if not isinstance(tree, dict):
            raise RecipeError(f"Expected --set section.key=value, got {change!r}, where {key} is not a section.")
    tree[keys[-1]] = value
