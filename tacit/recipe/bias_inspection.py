"""The recipe of an inspection of bias: a training recipe with public text, and sections `bias` and `look`.

The model learns from sentences that people write and a model of the public text finds unlikely (Debugging, section 2.1, T6).
`[pretrain]` names the public text: the model that is pre-trained on it both judges sentences and is where training begins.
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
from tacit.recipe.sections import RecipeSection, Seed
from tacit.recipe.training import Recipe
from tacit.runs.folder import RunFolder

BIAS = RECIPES / "inspect_bias.toml"
# The sections of a training recipe that an inspection does not have.
WITHOUT = ("letters", "population", "audit", "fleet")


class BiasSection(RecipeSection):
    """Which sentences count as foreign to the public text."""

    threshold: float = Field(
        gt=0,
        allow_inf_nan=False,
        description="surprise of the public model, in nats per word: sentences with as much or more are learned from",
    )
    minimum_sentences: int = Field(default=1, ge=1, description="users with fewer of them contribute none")


class BiasLook(RecipeSection):
    """How the trained model is examined; all of this is post-processing and costs no privacy."""

    top: int = Field(default=20, gt=0, le=200, description="how many words are shown")
    sentences: int = Field(default=10, gt=0, le=200, description="how many made-up sentences are shown")
    drawn: int = Field(default=5_000, ge=100, le=100_000, description="sentences to draw from either model")
    seed: Seed = Field(default=1, description="for drawing them; no privacy depends on it")


class BiasInspection(Recipe):
    """The whole recipe of an inspection of bias."""

    inspect: Literal["bias"] = Field(default="bias", description="what is inspected")
    bias: BiasSection
    look: BiasLook = BiasLook()

    @model_validator(mode="after")
    def _is_an_inspection(self) -> BiasInspection:
        for name in WITHOUT:
            if getattr(self, name) is not None:
                raise ValueError(f"expected no [{name}] in the recipe of an inspection")
        if self.pretrain is None:
            raise ValueError("expected [pretrain], the public text that people's sentences are compared with")
        if self.data.layout != "sentences":
            raise ValueError(
                f"expected data.layout = 'sentences' in an inspection of bias, one sentence a row, got {self.data.layout!r}"
            )
        if self.data.iid:
            raise ValueError("expected data.iid = false in an inspection: its users are people")
        return self


def load_bias_inspection(
    path: Path = BIAS, changes: Iterable[str] = (), *, store: Path | None = None
) -> BiasInspection:
    """Read and validate the recipe, with changes of the form section.key=value; with `store`, for that store's users."""
    tree = read_toml(path)
    if store is not None:
        data = {key: value for key, value in dict(tree.get("data", {})).items() if key not in ("world", "users")}
        tree = {**tree, "data": {**data, "store": str(store)}}
    for change in changes:
        apply_change(tree, change)
    return parse_bias_inspection(tree)


def parse_bias_inspection(tree: Mapping[str, Any]) -> BiasInspection:
    """Validate the recipe given as nested dictionaries."""
    if (kind := tree.get("inspect", "bias")) != "bias":
        raise RecipeError(f"Expected the recipe of an inspection of bias, got one with inspect = {json.dumps(kind)}.")
    try:
        return BiasInspection.model_validate(tree)
    except ValidationError as error:
        raise recipe_error(error, BiasInspection) from None


def bias_inspection_of(folder: RunFolder) -> BiasInspection:
    """The recipe of the inspection in this folder; RunError if the run is not an inspection of bias."""
    tree = folder.recipe()
    if tree.get("inspect") != "bias":
        raise RunError(f"The run {folder.path} is not an inspection of bias.")
    return parse_bias_inspection(tree)
