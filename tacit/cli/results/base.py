"""What `--json` prints: a result with named keys, each with its meaning, and the one function that prints it.

The class of a result is the schema that docs/json.md publishes, so a command can only print what is published.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Result(BaseModel):
    """An object of JSON. It has no key but those listed; a key that is left out in some cases says when it is there."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class OpenResult(Result):
    """An object of JSON that may have more keys than those listed, because a task or a model names them."""

    model_config = ConfigDict(extra="allow")


def key(meaning: str) -> Any:
    """A key that is always there."""
    return Field(description=meaning)


def sometimes(meaning: str) -> Any:
    """A key that is left out in some cases; the meaning says when it is there."""
    return Field(default=None, description=meaning)


def emit(result: type[Result], found: Mapping[str, Any]) -> None:
    """Print what was found as one line of JSON on stdout, in ASCII. What does not fit the schema is a bug, and raises."""
    plain = result.model_validate(found).model_dump(mode="json", exclude_unset=True)
    print(json.dumps(plain, allow_nan=False), flush=True)
