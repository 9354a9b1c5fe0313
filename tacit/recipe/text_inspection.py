"""The recipe of an inspection of text: a training recipe for a character model, with sections `fault` and `look`.

The other sections are those of `recipe.training`. A row is a word: `data.layout` is "sentences", `data.length` is the number of
predictions per row (the bytes of a word and its end), `data.tokens_per_user` caps the bytes of one user. `primary` names the
run of a next-word model that is inspected as well; the inspection then reads that run's users.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from tacit.errors import RecipeError, RunError
from tacit.mistakes import recipe_error
from tacit.recipe.reading import RECIPES, apply_change, read_toml
from tacit.recipe.sections import ModelSection, RecipeSection, Seed
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.folder import RunFolder

TEXT = RECIPES / "inspect_text.toml"
# The sections of a training recipe that an inspection does not have.
WITHOUT = ("pretrain", "population", "audit", "fleet")
# The keys of `data` that determine who the users of a primary model are.
_WHO = ("world", "store", "users", "vocabulary", "world_seed", "held_out", "shuffle_seed", "iid")
WORD_MODEL_ONLY = ("cell", "tied", "output_bias", "unit_norm")


class TextFault(RecipeSection):
    """A fault put into the text on purpose (`tacit.data.faults`), to test whether the inspection finds it."""

    kind: Literal["concatenated", "case_kept"] = Field(
        default="concatenated", description="the first two words run together, or capital letters are kept"
    )
    share: float = Field(ge=0, le=1, description="share of all sentences that have it")
    seed: Seed = Field(default=1, description="decides which sentences have it")


class TextLook(RecipeSection):
    """How the trained model is examined; all of this is post-processing and costs no privacy."""

    top: int = Field(default=20, gt=0, le=200, description="how many of the most likely words are shown")
    width: int = Field(default=256, gt=0, le=4096, description="width of the beam search for them")
    drawn: int = Field(
        default=2_000, gt=0, le=100_000, description="words to draw and count; of a primary model, sentences"
    )
    seed: Seed = Field(default=1, description="for drawing them; no privacy depends on it")


class CharModelSection(ModelSection):
    """A preset of `tacit.models.char_lm`, and values that replace the preset's."""

    preset: str = Field(default="small", description="a character model by name: small or paper")
    layers: int | None = Field(default=None, gt=0, description="number of recurrent layers")

    @model_validator(mode="after")
    def _is_of_characters(self) -> CharModelSection:
        for name in WORD_MODEL_ONLY:
            if getattr(self, name) is not None:
                raise ValueError(f"expected no model.{name}: a character model has no such option")
        return self


class TextInspection(Recipe):
    """The whole recipe of an inspection of text."""

    inspect: Literal["text"] = Field(default="text", description="what is inspected")
    primary: str | None = Field(default=None, description="a finished run of `tacit train`, the primary model")
    model: CharModelSection = CharModelSection()
    fault: TextFault | None = None
    look: TextLook = TextLook()

    @model_validator(mode="after")
    def _is_an_inspection(self) -> TextInspection:
        for name in WITHOUT:
            if getattr(self, name) is not None:
                raise ValueError(f"expected no [{name}] in the recipe of an inspection")
        if self.data.layout != "sentences":
            raise ValueError(
                f"expected data.layout = 'sentences' in an inspection, one word per row, got {self.data.layout!r}"
            )
        if self.data.length < 2:
            raise ValueError(f"expected data.length ≥ 2, for a byte and the end of a word, got {self.data.length}")
        if self.data.iid:
            raise ValueError("expected data.iid = false in an inspection: words of reshuffled users cannot be spelled")
        return self

    @property
    def longest(self) -> int:
        """The most bytes that a word can have; the last prediction of a row is the end of the word."""
        return self.data.length - 1


def load_text_inspection(
    path: Path = TEXT, changes: Iterable[str] = (), *, primary: Path | None = None, store: Path | None = None
) -> TextInspection:
    """Read and validate the recipe of an inspection of text, with changes of the form section.key=value.

    With `primary`, a run of `tacit train`, the inspection reads that run's users instead of the recipe's; with `store`, the
    users of that store. The recipe's fault is then left out.
    """
    tree = read_toml(path)
    if primary is not None:
        tree = _with_users_of(tree, primary)
    if store is not None:
        tree = _without_fault(tree, {"store": str(store)})
    for change in changes:
        apply_change(tree, change)
    return parse_text_inspection(tree)


def text_inspection_of(folder: RunFolder) -> TextInspection:
    """The recipe of the inspection in this folder; RunError if the run is not an inspection of text."""
    tree = folder.recipe()
    if tree.get("inspect") != "text":
        raise RunError(f"The run {folder.path} is not an inspection of text.")
    return parse_text_inspection(tree)


def _with_users_of(tree: Mapping[str, Any], primary: Path) -> dict[str, Any]:
    """The recipe with the users, the population and the delta of a run; the cohort stays, but is at most the population."""
    trained = parse_recipe(RunFolder.open(primary).recipe())
    users, plan = trained.data.model_dump(include=set(_WHO), exclude_none=True), trained.privacy
    privacy = dict(tree.get("privacy", {}))
    cohort = min(privacy.get("cohort", plan.cohort), plan.population)
    privacy |= {"population": plan.population, "cohort": cohort, "delta": plan.delta}
    return {**_without_fault(tree, users), "primary": str(primary), "privacy": privacy}


def _without_fault(tree: Mapping[str, Any], users: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe for other users, from a world or a store, without its fault."""
    kept = {key: value for key, value in tree.items() if key != "fault"}
    data = {key: value for key, value in dict(tree.get("data", {})).items() if key not in ("world", "store")}
    return {**kept, "data": {**data, **users}}


def parse_text_inspection(tree: Mapping[str, Any]) -> TextInspection:
    """Validate the recipe of an inspection of text given as nested dictionaries."""
    if (kind := tree.get("inspect", "text")) != "text":
        raise RecipeError(f"Expected the recipe of an inspection of text, got one with inspect = {json.dumps(kind)}.")
    try:
        return TextInspection.model_validate(tree)
    except ValidationError as error:
        raise recipe_error(error, TextInspection) from None
