"""A mistake in a recipe or in a plan, as one sentence that names the field, the value and what would be right."""

from __future__ import annotations

import difflib
import json
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from tacit.errors import RecipeError

# Pydantic's name for a broken bound: its sign, and the key under which pydantic gives the bound.
_BOUNDS = {
    "greater_than": (">", "gt"),
    "greater_than_equal": ("≥", "ge"),
    "less_than": ("<", "lt"),
    "less_than_equal": ("≤", "le"),
}
# Pydantic's name for a wrong type or form, and what the field should be.
_KINDS = {
    "string_pattern_mismatch": "letters, digits, dots, dashes and underscores",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "string_type": "text",
    **dict.fromkeys(("model_type", "dict_type"), "a section of the recipe"),
}
# What people look for in a recipe and is no key of it: where it is.
_NO_KEYS = {
    "privacy.epsilon": "Epsilon follows from the noise: `tacit train RECIPE --epsilon N` finds the noise for it.",
}


def recipe_error(
    error: ValidationError, recipe: type[BaseModel], *, what: str = "recipe", section: tuple[str, ...] = ()
) -> RecipeError:
    """The first mistake in a `recipe`, as one sentence; the hint for an unknown key names the keys that the section knows.

    `what` is what a person calls it, and `section` where its fields are in a recipe.
    """
    first = error.errors()[0]
    field = ".".join(str(part) for part in (*section, *first["loc"]))
    context = first.get("ctx", {})
    match first["type"]:
        case "extra_forbidden":
            known = _keys_of(recipe, first["loc"][:-1])
            near = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Known keys here: {', '.join(known)}."
            hint = _NO_KEYS.get(field, hint)
            return RecipeError(f"Unknown key {field} in the {what}.", hint=hint)
        case "missing":
            return RecipeError(f"The {what} has no {field}, which is required.")
        case "value_error":
            text = str(context["error"])
            return RecipeError(text[0].upper() + text[1:] + ".")
    shown = json.dumps(first.get("input"), default=str, ensure_ascii=False)
    if first["type"] in _BOUNDS:
        sign, key = _BOUNDS[first["type"]]
        return RecipeError(f"Expected {field} {sign} {context[key]:.15g}, got {shown}.")
    wanted = context["expected"] if first["type"] == "literal_error" else _KINDS.get(first["type"])
    wanted = wanted or first["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return RecipeError(f"Expected {field} to be {wanted}, got {shown}.")


def _keys_of(recipe: type[BaseModel], location: tuple[Any, ...]) -> list[str]:
    """The keys that the section at this location knows; none if it is no section."""
    section: Any = recipe
    for part in location:
        if isinstance(part, str) and part in section.model_fields:
            section = _section_of(section.model_fields[part].annotation)
        if not hasattr(section, "model_fields"):
            return []
    return list(section.model_fields)


def _section_of(annotation: Any) -> Any:
    """The type of a section; an optional section is annotated `Section | None`."""
    return next((each for each in get_args(annotation) if each is not type(None)), annotation)
