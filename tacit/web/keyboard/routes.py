"""What the page asks for when it opens: the rules of the keyboard, the models on offer, and their files.

Nothing that is typed is ever sent: no route takes a text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel

from tacit.errors import RunError, TacitError
from tacit.web.keyboard.offers import OfferedModel
from tacit.web.keyboard.rules import KeyboardRules, keyboard_rules
from tacit.web.reading import in_one_sentence

if TYPE_CHECKING:
    from tacit.web.keyboard.models import KeyboardModels

# More runs than this are no longer compared at a glance.
MOST_RUNS = 4

Keys = Annotated[list[str], Query(max_length=MOST_RUNS, description="runs of a board, by their keys")]


class KeyboardOffer(BaseModel):
    """Everything that the page needs to begin."""

    rules: KeyboardRules
    models: list[OfferedModel]


def keyboard_routes(runs: Mapping[str, Path] | Callable[[str], Path | None]) -> APIRouter:
    """The routes of the page: for the runs that a command named, by their keys, or for those that a board finds by a key."""
    router = APIRouter(prefix="/api/keyboard")
    models = cache(_models)

    @router.get("")
    def offer(run: Keys = []) -> KeyboardOffer:  # noqa: B006
        """The rules, and the models of these runs; without a key, of the runs that the command named."""
        chosen = runs if isinstance(runs, Mapping) else {key: _found(runs(key)) for key in run}
        offered = [model for key, path in chosen.items() for model in _offered(models(), key, path)]
        return KeyboardOffer(rules=keyboard_rules(), models=_named_once(offered))

    @router.get("/models/{key}", response_class=Response)
    def file(key: str) -> Response:
        """A model as a .safetensors file, with its words and its guarantee (docs/export.md)."""
        return Response(models().file(key), media_type="application/octet-stream")

    return router


def _models() -> KeyboardModels:
    # Imported here: it imports JAX, which no other page of a board should wait for.
    from tacit.web.keyboard.models import KeyboardModels

    return KeyboardModels()


def _offered(models: KeyboardModels, key: str, path: Path) -> list[OfferedModel]:
    from tacit.web.keyboard.models import refused

    try:
        with in_one_sentence(path):
            return models.of(path, key)
    except TacitError as error:
        return [refused(path, key, error.sentence)]


def _found(path: Path | None) -> Path:
    if path is None:
        raise RunError("There is no such run here any more.", hint="Choose one in the table of runs.")
    return path


def _named_once(models: list[OfferedModel]) -> list[OfferedModel]:
    """The models under names of their own: those of several runs that are called the same say whose run they belong to."""
    names = [model.name for model in models]
    return [
        model if names.count(model.name) == 1 else model.model_copy(update={"name": f"{model.name} ({model.run})"})
        for model in models
    ]
