"""Typed records and their JSON: a record is a frozen dataclass, and its JSON object has exactly its fields.

Reading is strict. A missing field, an unknown field and a value of another type are refused, so that every record has exactly
one spelling and cannot be misread.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

_HINTS: dict[type, dict[str, Any]] = {}


@dataclass(frozen=True)
class Typed:
    """A frozen dataclass whose fields have exactly the types of their annotations; TypeError otherwise."""

    def __post_init__(self) -> None:
        for name, hint in hints_of(type(self)).items():
            if not _fits(getattr(self, name), hint):
                got = type(getattr(self, name)).__name__
                raise TypeError(f"Expected {type(self).__name__}.{name} to be {hint}, got {got}.")


R = TypeVar("R", bound=Typed)


def hints_of(kind: type[Typed]) -> dict[str, Any]:
    """The types of a record's fields, by name."""
    if kind not in _HINTS:
        hints = get_type_hints(kind)
        _HINTS[kind] = {each.name: hints[each.name] for each in fields(kind)}
    return _HINTS[kind]


def to_json(value: Any) -> Any:
    """The value as JSON has it: a record is an object of its fields, a tuple is a list."""
    if is_dataclass(value):
        return {each.name: to_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(each) for each in value]
    if isinstance(value, dict):
        return {name: to_json(each) for name, each in value.items()}
    return value.value if isinstance(value, Enum) else value


def from_json(kind: type[R], content: Any) -> R:
    """The record that `to_json` wrote; ValueError says why there is none, without a full stop."""
    if not isinstance(content, dict):
        raise ValueError(f"expected an object of the fields of {kind.__name__}, got {type(content).__name__}")
    hints = hints_of(kind)
    if unknown := sorted(content.keys() - hints.keys()):
        raise ValueError(f"the field {unknown[0]!r} of {kind.__name__} is unknown to this version of Tacit")
    if missing := sorted(hints.keys() - content.keys()):
        raise ValueError(f"the field {missing[0]!r} of {kind.__name__} is missing")
    try:
        return kind(**{name: _read(content[name], hint) for name, hint in hints.items()})
    except TypeError as error:
        raise ValueError(str(error).rstrip(".")) from None


def _read(content: Any, hint: Any) -> Any:
    """The value of this type that the JSON holds; what is not of the type is left for the record itself to refuse."""
    if isinstance(hint, UnionType):  # of a record, a tuple or plain values, and None
        built = [each for each in get_args(hint) if get_origin(each) is tuple or _is_record(each)]
        return _read(content, built[0]) if built and content is not None else content
    if get_origin(hint) is tuple and isinstance(content, list):
        return tuple(_read(each, get_args(hint)[0]) for each in content)
    return from_json(hint, content) if _is_record(hint) else content


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Typed)


def _fits(value: object, hint: Any) -> bool:
    if hint is Any:
        return True
    if hint in (int, float):
        return type(value) is int or (hint is float and isinstance(value, float))
    if isinstance(hint, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if get_origin(hint) in (list, tuple):
        return isinstance(value, get_origin(hint)) and all(_fits(each, get_args(hint)[0]) for each in value)
    if get_origin(hint) is dict:
        key, item = get_args(hint)
        return isinstance(value, dict) and all(_fits(k, key) and _fits(v, item) for k, v in value.items())
    return isinstance(value, hint)
