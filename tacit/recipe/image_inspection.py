"""A recipe for the inspection of images: the classifier that does badly, whom to look at, and the models that look.

Three kinds of models are trained, each a run with a privacy plan of its own: `[classifier]` is the primary model, `[selection]`
the histogram of users' accuracies, `[gan]` the two generative models, of users with high and with low accuracy.

In `[gan.privacy]`, population is a public estimate of how many users meet the selection and cohort how many of them take
part in a round (N and qN of Debugging, Tables 3 and 11). Everybody is asked with the probability q that follows; who
does not meet the selection adds nothing, so that the true number is never needed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tacit.errors import RecipeError, RunError
from tacit.privacy.plan import PrivacyPlan
from tacit.recipe.training import (
    RECIPES,
    EngineSection,
    Seed,
    ServerSection,
    apply_change,
    read_toml,
    sentence_of,
    toml_of,
)
from tacit.runs.folder import refuse_if_taken

IMAGES = RECIPES / "inspect_images.toml"
RECIPE = "inspection.toml"  # in the folder of an inspection


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ImageData(_Section):
    """Users with images: the built-in world of handwriting, or a store made by `tacit data import`."""

    world: Literal["handwriting"] | None = None
    store: str | None = None
    users: int = Field(default=100_000, gt=0, description="writers of the world")
    images: float = Field(default=30, gt=0, le=400, description="images a writer of the world leaves, on average")
    world_seed: Seed = 1
    classes: int = Field(default=62, ge=2, description="how many classes there are, a public constant")
    held_out: int = Field(default=50, gt=0, le=100_000, description="users kept away, to measure accuracy on")
    most_images: int = Field(default=192, gt=0, description="cap on one user's images")

    @model_validator(mode="after")
    def _one_source(self) -> ImageData:
        if (self.world is None) == (self.store is None):
            raise ValueError("expected either data.world or data.store, got " + ("both" if self.world else "neither"))
        if self.store is not None and "classes" not in self.model_fields_set:
            raise ValueError(
                "expected data.classes with data.store: it is a public constant, and is not counted on users"
            )
        return self


class ImageFault(_Section):
    """A fault put into the images on purpose (`tacit.data.faults`), after the classifier was trained."""

    kind: Literal["inverted", "rotated", "relabelled"] = "inverted"
    share: float = Field(ge=0, le=1, description="share of the users' devices that have it")
    seed: Seed = 1


class ImageWork(_Section):
    """What one user computes: local SGD."""

    epochs: int = Field(default=1, gt=0)
    batch_size: int = Field(default=32, gt=0, description="images a batch")
    learning_rate: float = Field(gt=0, allow_inf_nan=False)


class ImageRun(_Section):
    """How long, and what is written down how often."""

    rounds: int = Field(gt=0)
    evaluate_every: int = Field(default=20, gt=0)
    checkpoint_every: int = Field(default=20, gt=0)
    seed: Seed | None = Field(default=None, description="replayable noise, for science: the run is then not private")


class Training(_Section):
    """How a model is trained."""

    init_seed: Seed = 1
    work: ImageWork
    privacy: PrivacyPlan
    server: ServerSection = ServerSection()
    run: ImageRun

    @model_validator(mode="after")
    def _plan_fits(self) -> Training:
        require_plain(self.privacy)
        return self


class ClassifierSection(Training):
    """The primary model; with `trained`, one that an earlier inspection has trained, and nothing is trained here."""

    preset: str = "small"
    trained: str | None = Field(default=None, description="the folder of the run that trained it")


class SelectionSection(_Section):
    """Whom the two generative models learn from.

    By user: those whose accuracy is at least and at most the two `thresholds`, or the two `percentiles` of the released
    histogram. By example: examples that the classifier gets right, and those it gets wrong.
    """

    by: Literal["user", "example"] = "user"
    percentiles: tuple[float, float] | None = Field(default=None, description="low, high, of users' accuracies")
    thresholds: tuple[float, float] | None = Field(default=None, description="low, high: public constants")
    minimum_examples: int = Field(default=5, gt=0, description="users with fewer selected examples have none")
    bins: int = Field(default=50, ge=2, le=60, description="of the histogram")
    privacy: PrivacyPlan = Field(description="of the histogram: a round of its own")

    @model_validator(mode="after")
    def _fits_together(self) -> SelectionSection:
        if (self.percentiles is None) == (self.thresholds is None):
            got = "neither" if self.percentiles is None else "both"
            raise ValueError(f"expected either selection.percentiles or selection.thresholds, got {got}")
        low, high = self.percentiles or self.thresholds or (0.0, 0.0)
        if not 0 < low <= high < 1:
            name = "percentiles" if self.percentiles else "thresholds"
            raise ValueError(f"expected 0 < low ≤ high < 1 in selection.{name}, got {low:g} and {high:g}")
        require_plain(self.privacy)
        if self.privacy.clip_norm not in ((1,) if self.privacy.claims else (1, None)):
            raise ValueError(
                f"expected selection.privacy.clip_norm = 1: a user stands in one bin, got {self.privacy.clip_norm}"
            )
        for name in ("clip_schedule", "example_cap", "total_weight"):
            if getattr(self.privacy, name):
                raise ValueError(f"expected no selection.privacy.{name}: every user adds 1 to one bin of the histogram")
        return self


class GeneratorSection(_Section):
    """How the generator follows the discriminator on the server, after each round."""

    steps: int = Field(default=6, gt=0)
    batch_size: int = Field(default=32, ge=2)
    optimizer: Literal["sgd", "momentum", "nesterov", "adam"] = "sgd"
    learning_rate: float = Field(default=0.005, gt=0, allow_inf_nan=False)
    momentum: float = Field(default=0.9, ge=0, lt=1)


class GanSection(Training):
    """The generative models: the discriminator is learned through the gate, the generator from what was released."""

    preset: str = "small"
    penalty: float = Field(default=10.0, ge=0, allow_inf_nan=False)
    generator: GeneratorSection = GeneratorSection()


class LookSection(_Section):
    """How the trained generators are looked at; all of it is post-processing, and free."""

    made: int = Field(
        default=256, ge=64, le=10_000, description="images that are made and scored; the first 64 are shown"
    )
    seed: Seed = Field(default=1, description="draws them; it protects nobody")


class ImageInspection(_Section):
    """Everything that makes the inspection of images."""

    inspect: Literal["images"] = "images"
    name: str = Field(default="inspect-images", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    data: ImageData
    fault: ImageFault | None = None
    classifier: ClassifierSection
    selection: SelectionSection
    gan: GanSection
    look: LookSection = LookSection()
    engine: EngineSection = EngineSection()
    paper: dict[str, Any] = Field(default_factory=dict, description="notes: the paper's figures, how to scale up")

    @model_validator(mode="after")
    def _fits_together(self) -> ImageInspection:
        if self.selection.minimum_examples > self.data.most_images:
            raise ValueError(
                f"expected selection.minimum_examples ≤ data.most_images = {self.data.most_images}, got "
                f"{self.selection.minimum_examples}: nobody has so many"
            )
        everybody, delta = self.selection.privacy.population, self.gan.privacy.delta
        if self.gan.privacy.claims and delta >= 1 / everybody:
            raise ValueError(
                f"expected gan.privacy.delta < 1/selection.privacy.population = {1 / everybody:.3g}: everybody is asked, and "
                f"not those alone who meet the selection, got {delta:g}"
            )
        return self

    def to_toml(self) -> str:
        """The effective recipe, every default written out."""
        return toml_of(self.model_dump(mode="json", exclude_none=True))


def require_plain(plan: PrivacyPlan) -> None:
    """ValueError unless rounds are Poisson samples with independent noise and a fixed clip.

    Most of those asked do not meet a selection and answer with zeros. Only a Poisson sample of everybody is one of the
    subpopulation too, and zeros would draw an adaptive clip down.
    """
    for name, expected, got in (
        ("sampling", ("poisson",), plan.sampling),
        ("mechanism", ("gaussian", "none"), plan.mechanism),
    ):
        if got not in expected:
            raise ValueError(
                f"expected privacy.{name} = {' or '.join(map(repr, expected))} in an inspection, got {got!r}"
            )
    if plan.adaptive is not None or plan.secagg is not None:
        raise ValueError("expected neither privacy.adaptive nor privacy.secagg in an inspection of images")


def load_image_inspection(
    path: Path, changes: Iterable[str] = (), *, store: Path | None = None, classifier: Path | None = None
) -> ImageInspection:
    """Read and validate such a recipe, with changes of the form section.key=value.

    With `store` the users are those of that store in place of the recipe's, and what was put into the recipe's is not. With
    `classifier` the primary model is the one that run trained.
    """
    tree = read_toml(path)
    if store is not None:
        tree = {key: value for key, value in tree.items() if key != "fault"}
        data = {key: value for key, value in tree.get("data", {}).items() if key not in ("world", "classes")}
        tree["data"] = {**data, "store": str(store)}
    if classifier is not None:
        tree.setdefault("classifier", {})["trained"] = str(classifier)
    for change in changes:
        apply_change(tree, change)
    return parse_image_inspection(tree)


def parse_image_inspection(tree: Mapping[str, Any]) -> ImageInspection:
    """Validate such a recipe given as nested dictionaries."""
    try:
        return ImageInspection.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "extra_forbidden":
            raise RecipeError(f"Unknown key {'.'.join(map(str, first['loc']))} in the recipe.") from None
        raise sentence_of(error) from None


def recipe_of(folder: Path) -> ImageInspection:
    """The recipe that the inspection in this folder follows."""
    try:
        return parse_image_inspection(tomllib.loads((folder / RECIPE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        what = "which is none" if folder.exists() else "which does not exist"
        raise RunError(f"Expected the folder of an inspection of images, got {folder}, {what}.") from None
    except (OSError, ValueError):
        raise RunError(f"The inspection {folder} is damaged: its {RECIPE} cannot be read.") from None


def refuse_if_inspected(folder: Path) -> None:
    """RunError unless the folder is empty or not there yet."""
    if (folder / RECIPE).exists():
        raise RunError(
            f"The folder {folder} holds an inspection already.",
            hint=f"Go on with it: tacit inspect images --resume {folder}, or choose another.",
        )
    refuse_if_taken(folder)
