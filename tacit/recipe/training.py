"""The recipe of a training run: its sections in one validated tree, checked before anything starts.

`load_recipe` reads one from a TOML file, with the changes of `--set section.key=value`. The run folder keeps the effective
recipe.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from tacit.errors import RecipeError
from tacit.mistakes import recipe_error
from tacit.privacy.noise.kinds.words import WORDS
from tacit.privacy.plan import PrivacyPlan, with_rounds
from tacit.privacy.planning.scaling import ScaleSection, scaled_up
from tacit.privacy.record.reasons import Reason, Why
from tacit.recipe.engine import BuiltIn, Ray
from tacit.recipe.letters import LettersSection
from tacit.recipe.reading import apply_change, read_toml, toml_of
from tacit.recipe.sections import (
    OF_RAY,
    AuditSection,
    DataSection,
    EngineSection,
    FleetSection,
    ModelSection,
    PopulationSection,
    PretrainSection,
    RecipeSection,
    RunSection,
    ServerSection,
    VocabularySection,
    WitnessSection,
    WorkSection,
)
from tacit.runs.finding import by_name


class Recipe(RecipeSection):
    """Everything that makes a run.

    >>> from tacit.recipe.reading import find_recipe
    >>> import tacit
    >>> tacit.load_recipe(find_recipe("demo")).privacy.mechanism
    'gaussian'
    """

    name: str = Field(
        default="run", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="the run folder is named after it"
    )
    data: DataSection
    vocabulary: VocabularySection | None = None
    letters: LettersSection | None = None
    model: ModelSection = ModelSection()
    pretrain: PretrainSection | None = None
    work: WorkSection = WorkSection()
    privacy: PrivacyPlan
    server: ServerSection = ServerSection()
    run: RunSection
    population: PopulationSection | None = None
    scale: ScaleSection | None = None
    audit: AuditSection | None = None
    fleet: FleetSection | None = None
    witness: WitnessSection | None = None
    engine: EngineSection = EngineSection()
    paper: dict[str, Any] = Field(default_factory=dict, description="notes: the paper's figures, how to scale up")

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, tree: Any) -> Any:
        """Write out the plan's values that follow from the number of rounds, so that the plan is complete."""
        match tree:
            case {"privacy": dict() as privacy, "run": {"rounds": int() as rounds}}:
                return {**tree, "privacy": with_rounds(privacy, rounds)}
        return tree

    @model_validator(mode="after")
    def _plan_fits_rounds(self) -> Recipe:
        self.privacy.check_rounds(self.run.rounds)
        if self.vocabulary is not None:
            if self.data.store is None:
                raise ValueError("expected data.store with [vocabulary]: the words of a world are its own")
            if self.fleet is not None:
                raise ValueError("expected no [vocabulary] with a [fleet]: the server cannot read the words of devices")
            if self.vocabulary.run is None and self.pretrain is not None and self.pretrain.reuse is not None:
                raise ValueError(
                    "expected vocabulary.run, a discovery that has finished, with pretrain.reuse: a new discovery finds other "
                    "words than the reused model has"
                )
            if (delta := self.vocabulary.delta) is not None and delta >= self.privacy.delta:
                raise ValueError(
                    f"expected vocabulary.delta < privacy.delta = {self.privacy.delta:g}, of which it is a part, got {delta:g}"
                )
        if self.privacy.participation is not None and (self.population is not None or self.fleet is not None):
            raise ValueError(
                "expected no privacy.participation with a [population] or a [fleet]: devices take part when they can, "
                f"got {self.privacy.participation!r}"
            )
        if self.population is not None and self.privacy.sampling != "check_in":
            raise ValueError(
                f"expected privacy.sampling = 'check_in' with a [population], whose devices come when they are available, "
                f"got {self.privacy.sampling!r}"
            )
        if self.fleet is not None and self.privacy.sampling != "check_in":
            raise ValueError(
                f"expected privacy.sampling = 'check_in' with a [fleet], whose devices come when they are available, "
                f"got {self.privacy.sampling!r}"
            )
        if self.fleet is not None and self.fleet.evaluates is not None:
            plan = self.privacy
            if (plan.clip_norm, plan.clipping, plan.weighted) != (1.0, "flat", False) or plan.adaptive is not None:
                raise ValueError(
                    "expected privacy.clip_norm = 1 and clipping = 'flat', without adaptive clipping or a clipped estimator, "
                    "with fleet.evaluates: a device's metrics are one vector of norm at most 1"
                )
        if self.fleet is not None and (self.audit is not None or self.scale is not None):
            raise ValueError("expected neither [audit] nor [scale] with a [fleet]: both need simulated users")
        if self.scale is not None:
            scaled_up(self.privacy, self.scale).check_rounds(self.run.rounds)
        self._letters_fit()
        return self

    def _letters_fit(self) -> None:
        if self.letters is None:
            return
        others = ("vocabulary", "pretrain", "scale")
        if (other := next((name for name in others if getattr(self, name) is not None), None)) is not None:
            raise ValueError(f"expected no [{other}] with [letters]: the run finds words, and trains no model")
        if self.data.iid or (self.audit is not None and self.audit.plan is not None):
            name = "data.iid" if self.data.iid else "audit.plan"
            raise ValueError(f"expected no {name} with [letters]: it needs sentences, and users here have words")
        if self.fleet is not None and self.fleet.evaluates is not None:
            raise ValueError("expected either [letters] or fleet.evaluates, got both")
        self.letters.check_plan(self.privacy)
        self.letters.check_rounds(self.run.rounds)

    def to_toml(self) -> str:
        """The effective recipe, with every default written out."""
        return toml_of(self.model_dump(mode="json", exclude_none=True))

    def reasons_not_private(self) -> tuple[Reason, ...]:
        """The reasons why this recipe cannot claim a finite epsilon; empty if it can."""
        return reasons_of_settings(self.privacy, self.run.seed)


def reasons_of_settings(plan: PrivacyPlan, seed: int | None) -> tuple[Reason, ...]:
    """Why a run of this plan with this seed can claim no finite epsilon, whatever it trains; empty if it can."""
    found = {Why.NO_NOISE: not plan.claims, Why.SEEDED: seed is not None}
    return tuple(Reason(why) for why, holds in found.items() if holds)


def on_engine(recipe: Recipe, engine: Ray | BuiltIn) -> Recipe:
    """The recipe with its users trained by this engine."""
    said = {"kind": "ray", **asdict(engine)} if isinstance(engine, Ray) else dict.fromkeys(OF_RAY) | {"kind": engine}
    return recipe.model_copy(update={"engine": recipe.engine.model_copy(update=said)})


def load_recipe(path: Path, changes: Iterable[str] = ()) -> Recipe:
    """Read and validate a recipe, with changes of the form section.key=value.

    The paths of a canary plan and of a discovery of words are made absolute, so that the run can be opened from any folder.

    >>> from tacit.recipe.reading import find_recipe
    >>> import tacit
    >>> tacit.load_recipe(find_recipe("demo"), ["run.rounds=40"]).run.rounds
    40
    """
    tree = read_toml(path)
    for change in changes:
        apply_change(tree, change)
    return recipe_of(tree)


def recipe_of(tree: dict[str, Any]) -> Recipe:
    """A recipe given as nested dictionaries, validated, with the absolute paths that `load_recipe` gives it."""
    recipe = parse_recipe(tree)
    if recipe.vocabulary is not None and recipe.vocabulary.run is not None:
        found = recipe.vocabulary.model_copy(update={"run": str(by_name(Path(recipe.vocabulary.run)).resolve())})
        recipe = recipe.model_copy(update={"vocabulary": found})
    if recipe.audit is None or recipe.audit.plan is None:
        return recipe
    audit = recipe.audit.model_copy(update={"plan": str(Path(recipe.audit.plan).resolve())})
    return recipe.model_copy(update={"audit": audit})


def parse_recipe(tree: dict[str, Any]) -> Recipe:
    """Validate a recipe given as nested dictionaries."""
    if tree.get("privacy", {}).get("mechanism") == WORDS:
        raise RecipeError(
            "Expected a recipe for training, got that of a discovery of words.",
            hint="To train with its words, name its folder in another recipe: [vocabulary] run = ...",
        )
    if "inspect" in tree:  # such a recipe has sections of its own (`text_inspection`, `image_inspection`)
        raise RecipeError(
            f"Expected a recipe for training, got one for an inspection (inspect = {json.dumps(tree['inspect'])}).",
            hint=f"Use it with: tacit inspect {tree['inspect']}",
        )
    try:
        return Recipe.model_validate(tree)
    except ValidationError as error:
        raise recipe_error(error, Recipe) from None
