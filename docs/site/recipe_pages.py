"""The reference of recipes, from the classes that check them: every key with its type, range, default and meaning."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel

from tacit.recipe.bias_inspection import WITHOUT as WITHOUT_IN_BIAS
from tacit.recipe.bias_inspection import BiasInspection
from tacit.recipe.describing import Key, keys_of, section_text, sections_of
from tacit.recipe.image_inspection import ImageInspection
from tacit.recipe.reading import RECIPES
from tacit.recipe.text_inspection import WITHOUT, WORD_MODEL_ONLY, TextInspection
from tacit.recipe.training import Recipe

_TRAINING = """# Keys of a training recipe

After this page you can write a recipe, and know every key that it may have. A recipe is a TOML file; unknown keys are refused.

```
$ tacit recipe list                             # the recipes that come with Tacit
$ tacit recipe show demo                        # one with every default, explained
$ tacit recipe show demo --set run.rounds=40    # with a change
$ tacit recipe schema                           # the JSON schema
```

An editor that knows JSON schema completes and checks recipes: save the output of `tacit recipe schema` as `recipe.schema.json`
and begin the recipe with the line `#:schema recipe.schema.json`.

A section in the list below is one to write in brackets, for example `[privacy]`. A key without a default has no value unless
you give it one.
"""
_INSPECTIONS = """# Keys of an inspection's recipe

After this page you can change how `tacit inspect text`, `tacit inspect images` and `tacit inspect bias` work.
`tacit recipe schema text` and so on print the same as JSON schema. Sections that are the same as in a
[training recipe](recipes.md) are not repeated here.
"""
_FILES = """# The recipes of Tacit

After this page you know the recipes that come with Tacit, and what each line of them is for. `tacit recipe list` lists them.
"""


# Keys that the classes of a text inspection inherit and that it refuses.
_REFUSED = {"text-": {"": WITHOUT, "model": WORD_MODEL_ONLY}, "bias-": {"": WITHOUT_IN_BIAS}}


def pages() -> dict[str, str]:
    """The pages by name."""
    return {
        "reference/recipes.md": _TRAINING + _tables(sections_of(Recipe), ""),
        "reference/inspection_recipes.md": _INSPECTIONS
        + "\n## Inspection of text { #text }\n"
        + _own_sections(TextInspection, "text-")
        + "\n## Inspection of images { #images }\n"
        + _own_sections(ImageInspection, "images-")
        + "\n## Inspection of bias { #bias }\n"
        + _own_sections(BiasInspection, "bias-"),
        "reference/recipe_files.md": _FILES + "".join(map(_file, sorted(RECIPES.glob("*.toml")))),
    }


def _own_sections(recipe: type[BaseModel], prefix: str) -> str:
    """The sections whose classes a training recipe does not have."""
    training = {kind for _, kind in sections_of(Recipe)}
    return _tables(((name, kind) for name, kind in sections_of(recipe) if kind not in training), prefix, "###")


def _tables(sections: Iterable[tuple[str, type[BaseModel]]], prefix: str, mark: str = "##") -> str:
    return "".join(_table(name, kind, prefix, mark) for name, kind in sections)


def _table(name: str, kind: type[BaseModel], prefix: str, mark: str) -> str:
    title = f"`[{name}]`" if name else "At the top"
    anchor = prefix + (name.replace(".", "-") or "top")
    refused = _REFUSED.get(prefix, {}).get(name, ())
    rows = "\n".join(_row(key, name, prefix) for key in keys_of(kind) if key.name not in refused)
    head = f"\n{mark} {title} {{ #{anchor} }}\n\n{section_text(kind)}\n\n"
    return f"{head}| key | meaning | type | default |\n|---|---|---|---|\n{rows}\n"


def _row(key: Key, section: str, prefix: str) -> str:
    default = (
        "*required*" if key.required and key.section is None else f"`{key.default_text}`" if key.default_text else ""
    )
    shown = f"{key.kind}, {key.bounds}" if key.bounds else key.kind
    named = f"`{key.name}`"
    if key.section is not None:
        shared = prefix and any(key.section is kind for _, kind in sections_of(Recipe))
        own = next((name for name, kind in sections_of(Recipe) if kind is key.section), "")
        target = f"recipes.md#{own.replace('.', '-')}" if shared else ""
        target = target or f"#{prefix}{f'{section}.{key.name}'.strip('.').replace('.', '-')}"
        named = f"[`{key.name}`]({target})"
        shown = "section, *required*" if key.required else "section"
    cells = (named, key.meaning, shown, default)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _file(path: Path) -> str:
    return f"\n## {path.stem} {{ #{path.stem} }}\n\n```toml\n{path.read_text(encoding='utf-8').rstrip()}\n```\n"
