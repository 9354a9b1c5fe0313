"""Write a recipe as TOML that explains itself: every section says what it is for, and every line what its key means."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel

from tacit.recipe.describing import Key, keys_of, section_sentence
from tacit.recipe.reading import key_text, toml_of, value_text

_WIDTH = 120  # of a line, comment included
_COLUMN = 30  # where comments begin; after a longer value, two spaces later


def commented_toml(recipe: BaseModel, *, only: Iterable[str] | None = None) -> str:
    """A validated recipe as TOML, with each section's purpose and each key's meaning as a comment.

    Keys and sections without a value are left out. With `only`, names of keys (`privacy.cohort`) and of whole sections
    (`privacy`), all others are left out too; reading the text then fills in their defaults.

    >>> from tacit.recipe.reading import find_recipe
    >>> from tacit.recipe.training import load_recipe
    >>> print(commented_toml(load_recipe(find_recipe("demo")), only=["privacy.population", "privacy.delta"]))
    # What is released about users, and the noise on it. Symbols of DP-FedAvg in brackets.
    [privacy]
    population = 500_000          # how many users there are, a public estimate [K]
    delta = 1e-06                 # δ of the guarantee; below 1 / population
    """
    wanted = None if only is None else frozenset(only)
    values = recipe.model_dump(mode="json", exclude_none=True)
    return "\n".join(_lines(type(recipe), values, "", wanted)).lstrip("\n")


def _lines(kind: type[BaseModel], values: dict[str, Any], prefix: str, wanted: frozenset[str] | None) -> Iterator[str]:
    """The lines of a section: its own keys first, then the sections inside it, each after an empty line."""
    keys = [key for key in keys_of(kind) if key.name in values]
    for key in keys:
        value = values[key.name]
        if not isinstance(value, dict) and _is_wanted(prefix + key.name, wanted):
            yield from _line(key, value)
    for key in keys:
        name, value = prefix + key.name, values[key.name]
        if key.section is not None:
            inside = list(_lines(key.section, value, f"{name}.", wanted))
            if inside and inside[0]:  # the section has keys of its own here, and not only sections
                yield from ("", *_comment(section_sentence(key.section)), f"[{name}]")
            yield from inside
        elif isinstance(value, dict) and value and _is_wanted(name, wanted):
            yield from ("", *_comment(key.meaning), f"[{name}]", toml_of(value, f"{name}."))


def _is_wanted(name: str, wanted: frozenset[str] | None) -> bool:
    """Whether `wanted` names this key or a section around it."""
    parts = name.split(".")
    return wanted is None or any(".".join(parts[:count]) in wanted for count in range(1, len(parts) + 1))


def _line(key: Key, value: Any) -> Iterator[str]:
    """`key = value  # meaning`; a long meaning goes on in comments below, in the same column."""
    assignment = f"{key_text(key.name)} = {_readable(value)}"
    choices = f" ({', '.join(key.choices)})" if len(key.choices) > 1 else ""
    column = max(_COLUMN, len(assignment) + 2)
    first, *rest = _comment(key.meaning + choices, _WIDTH - min(column, _WIDTH // 2)) or [""]
    yield f"{assignment:<{column}}{first}".rstrip()
    for line in rest:
        yield f"{'':<{column}}{line}"


def _comment(text: str, width: int = _WIDTH) -> list[str]:
    return textwrap.wrap(text, width, initial_indent="# ", subsequent_indent="# ")


def _readable(value: Any) -> str:
    """A value as TOML; thousands of large whole numbers are set apart."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10_000:
        return f"{value:_}"
    return value_text(value)
