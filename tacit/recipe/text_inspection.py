"""A recipe for the inspection of text: a recipe for training, whose model is one of characters, with a fault and a look.

The sections are those of `recipe.training`. A row is a word: `data.layout` is "sentences", `data.length` the predictions of a
row (the bytes of a word and its end), `data.tokens_per_user` a cap on the bytes of one user. `primary` names the run of a
next-word model that is looked into as well; its users are then the inspection's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tacit.errors import RecipeError, RunError
from tacit.recipe.training import (
    RECIPES,
    ModelSection,
    Recipe,
    Seed,
    apply_change,
    parse_recipe,
    read_toml,
    sentence_of,
)
from tacit.runs.folder import RunFolder

TEXT = RECIPES / "inspect_text.toml"
# What the training of a next-word model knows, and an inspection has no use for.
_WITHOUT = ("pretrain", "population", "audit", "fleet")
# What says who the users of a primary model are.
_WHO = ("world", "store", "users", "vocabulary", "world_seed", "held_out", "shuffle_seed", "iid")
_WORD_MODEL_ONLY = ("cell", "tied", "output_bias", "unit_norm")


class FaultSection(BaseModel):
    """A fault put into the text on purpose (`tacit.data.faults`), to see whether it would be found."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Literal["concatenated", "case_kept"] = "concatenated"
    share: float = Field(ge=0, le=1, description="share of all sentences that it hits")
    seed: Seed = 1


class LookSection(BaseModel):
    """How the trained model is looked at; all of it is post-processing, and free."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    top: int = Field(default=20, gt=0, le=200, description="so many of the most likely words are shown")
    width: int = Field(default=256, gt=0, le=4096, description="of the beam that searches for them")
    drawn: int = Field(
        default=2_000, gt=0, le=100_000, description="words, and sentences of a primary model, drawn to be counted"
    )
    seed: Seed = Field(default=1, description="draws them; it protects nobody")


class CharModelSection(ModelSection):
    """A preset of `tacit.models.char_lm`, and what to change in it."""

    preset: str = "small"
    layers: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _is_of_characters(self) -> CharModelSection:
        for name in _WORD_MODEL_ONLY:
            if getattr(self, name) is not None:
                raise ValueError(f"expected no model.{name}: a model of characters has no such choice")
        return self


class TextInspection(Recipe):
    """Everything that makes the inspection of a text."""

    inspect: Literal["text"] = "text"
    primary: str | None = Field(default=None, description="a finished run of `tacit train`, the primary model")
    model: CharModelSection = CharModelSection()
    fault: FaultSection | None = None
    look: LookSection = LookSection()

    @model_validator(mode="after")
    def _is_an_inspection(self) -> TextInspection:
        for name in _WITHOUT:
            if getattr(self, name) is not None:
                raise ValueError(f"expected no [{name}] in the recipe of an inspection")
        if self.data.layout != "sentences":
            raise ValueError(
                f"expected data.layout = 'sentences' in an inspection, a word a row, got {self.data.layout!r}"
            )
        if self.data.length < 2:
            raise ValueError(f"expected data.length ≥ 2, a byte and the end of a word, got {self.data.length}")
        if self.data.iid:
            raise ValueError("expected data.iid = false in an inspection: texts that are dealt out cannot be spelled")
        return self

    @property
    def longest(self) -> int:
        """The most bytes of a word: a row has one more prediction, its end."""
        return self.data.length - 1


def load_text_inspection(
    path: Path = TEXT, changes: Iterable[str] = (), *, primary: Path | None = None, store: Path | None = None
) -> TextInspection:
    """Read and validate such a recipe, with changes of the form section.key=value.

    With `primary`, a run of `tacit train`, the users are that run's in place of the recipe's; with `store` they are those of
    that store. What was put into the recipe's own users (a fault) is then not put into them.
    """
    tree = read_toml(path)
    if primary is not None:
        tree = _with_users_of(tree, primary)
    if store is not None:
        tree = _without_fault(tree, {"store": str(store)})
    for change in changes:
        apply_change(tree, change)
    return parse_text_inspection(tree)


def recipe_of(folder: RunFolder) -> TextInspection:
    """The recipe that the inspection in this folder follows; RunError if the run is no inspection of text."""
    tree = folder.recipe()
    if tree.get("inspect") != "text":
        raise RunError(f"Expected the run of an inspection of text, got {folder.path}, which is none.")
    return parse_text_inspection(tree)


def _with_users_of(tree: Mapping[str, Any], primary: Path) -> dict[str, Any]:
    """The users and the population of a run. The cohort stays the inspection's own, if there are so many people."""
    trained = parse_recipe(RunFolder.open(primary).recipe())
    users, plan = trained.data.model_dump(include=set(_WHO), exclude_none=True), trained.privacy
    privacy = dict(tree.get("privacy", {}))
    cohort = min(privacy.get("cohort", plan.cohort), plan.population)
    privacy |= {"population": plan.population, "cohort": cohort, "delta": plan.delta}
    return {**_without_fault(tree, users), "primary": str(primary), "privacy": privacy}


def _without_fault(tree: Mapping[str, Any], users: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe for other users, from a world or a store, as they are."""
    kept = {key: value for key, value in tree.items() if key != "fault"}
    data = {key: value for key, value in dict(tree.get("data", {})).items() if key not in ("world", "store")}
    return {**kept, "data": {**data, **users}}


def parse_text_inspection(tree: Mapping[str, Any]) -> TextInspection:
    """Validate such a recipe given as nested dictionaries."""
    if (kind := tree.get("inspect", "text")) != "text":
        raise RecipeError(f"Expected the recipe of an inspection of text, got one with inspect = {json.dumps(kind)}.")
    try:
        return TextInspection.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "extra_forbidden":
            raise RecipeError(f"Unknown key {'.'.join(map(str, first['loc']))} in the recipe.") from None
        raise sentence_of(error) from None
