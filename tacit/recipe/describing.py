"""What a recipe may say: every key with its type, default, range and meaning, read from the classes that check it.

`tacit recipe schema`, the reference of recipes and the comments of `commented_toml` all come from here, so they agree with what
is checked when a recipe is read.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tacit.recipe.reading import value_text

_WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text", dict: "table"}
_SIGNS = (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))


@dataclass(frozen=True)
class Key:
    """One key of a section of a recipe."""

    name: str
    meaning: str
    kind: str  # its type in words, for people
    choices: tuple[str, ...]  # the only values, as a recipe writes them; empty if there are others
    required: bool
    default: Any  # None if the key is required, or has no value unless it is given
    bounds: str  # "> 0 and ≤ 400"; empty if every value of the type will do
    section: builtins.type[BaseModel] | None  # the class of the section, if the key is one

    @property
    def default_text(self) -> str:
        """The default as a recipe writes it; empty if there is none, or if the key is a section."""
        if self.default is None or self.section is not None or self.default == {}:
            return ""
        return value_text(_plain(self.default))


def keys_of(kind: type[BaseModel]) -> tuple[Key, ...]:
    """The keys of a section, in the order in which they are declared."""
    return tuple(_key(name, field) for name, field in kind.model_fields.items())


def sections_of(kind: type[BaseModel], name: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """A recipe's sections and the sections inside them: dotted name and class, beginning with the recipe itself (`""`).

    >>> from tacit.recipe.training import Recipe
    >>> [name for name, _ in sections_of(Recipe)][:3]
    ['', 'data', 'model']
    """
    yield name, kind
    for key in keys_of(kind):
        if key.section is not None:
            yield from sections_of(key.section, f"{name}.{key.name}" if name else key.name)


def section_text(kind: type[BaseModel]) -> str:
    """What a section is for: its class's docstring, without the example."""
    text = (kind.__doc__ or "").partition(">>>")[0]
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n") if part.strip())


def section_sentence(kind: type[BaseModel]) -> str:
    """What a section is for, in one line."""
    return section_text(kind).partition("\n\n")[0]


def json_schema(kind: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a recipe, for editors and for other programs; examples are left out of its descriptions."""
    schema: dict[str, Any] = kind.model_json_schema()
    for name, section in {"": kind, **{each.__name__: each for _, each in sections_of(kind)}}.items():
        described = schema if name == "" else schema.get("$defs", {}).get(name)
        if described is not None:
            described["description"] = section_text(section)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _key(name: str, field: FieldInfo) -> Key:
    kind, metadata = _unwrapped(field.annotation)
    section = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
    required = field.is_required()
    return Key(
        name=name,
        meaning=field.description or (section_sentence(section) if section else ""),
        kind="section" if section else _type_words(kind),
        choices=tuple(value_text(each) for each in get_args(kind)) if get_origin(kind) is Literal else (),
        required=required,
        default=None if required else field.get_default(call_default_factory=True),
        bounds=_bounds((*metadata, *field.metadata)),
        section=section,
    )


def _unwrapped(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type without `| None` and without `Annotated`, and what `Annotated` said about it."""
    metadata: tuple[Any, ...] = ()
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            metadata += tuple(more)
        elif get_origin(annotation) in (Union, types.UnionType):
            annotation = next(each for each in get_args(annotation) if each is not types.NoneType)
        else:
            return annotation, metadata


def _type_words(kind: Any) -> str:
    origin = get_origin(kind) or kind
    if origin is Literal:
        return "one of " + ", ".join(value_text(each) for each in get_args(kind))
    if origin is tuple:
        inside = [each for each in get_args(kind) if each is not Ellipsis]
        words = _type_words(_unwrapped(inside[0])[0])
        words = words if words.endswith("}") else f"{words}s"
        return f"list of {words}" if len(inside) == 1 else f"list of {len(inside)} {words}"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return f"{{{', '.join(kind.model_fields)}}}"
    return _WORDS[origin]


def _bounds(metadata: tuple[Any, ...]) -> str:
    """Bounds from pydantic's constraints, which stand in fields and inside them."""
    found: dict[str, str] = {}
    for each in metadata:
        inner = tuple(each.metadata) if isinstance(each, FieldInfo) else (each,)
        for constraint in inner:
            for name, sign in _SIGNS:
                if (bound := getattr(constraint, name, None)) is not None:
                    found[name] = f"{sign} {_number(bound)}"
    return " and ".join(found[name] for name, _ in _SIGNS if name in found)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.15g}"


def _plain(value: Any) -> Any:
    """A default as JSON has it."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return None if value is PydanticUndefined else value
