"""The recipe of an inspection of images: the classifier, the selection of users, and the generative models.

An inspection has three kinds of runs, each with a privacy plan of its own: `[classifier]` is the primary model, `[selection]`
the histogram of users' accuracies, `[gan]` the two generative models, of users with high and with low accuracy.

In `[gan.privacy]`, population is a public estimate of the number of users in the selection, and cohort is how many of them
take part in a round (N and qN of Debugging, Tables 3 and 11). All users are sampled with the probability q = cohort /
population. Users outside the selection contribute zero, so their true number is never needed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from tacit.errors import RunError
from tacit.mistakes import recipe_error
from tacit.privacy.plan import PrivacyPlan
from tacit.recipe.reading import RECIPES, apply_change, read_toml, toml_of
from tacit.recipe.sections import EngineSection, RecipeSection, Seed, ServerSection
from tacit.runs.finding import refuse_if_taken

IMAGES = RECIPES / "inspect_images.toml"
RECIPE = "inspection.toml"  # in the folder of an inspection


class ImageData(RecipeSection):
    """Users with images: the built-in world of handwriting, or a store made by `tacit data import`."""

    world: Literal["handwriting"] | None = Field(default=None, description="a built-in world; instead of a store")
    store: str | None = Field(default=None, description="the folder of a store of images; instead of a world")
    users: int = Field(default=100_000, gt=0, description="writers of the world")
    images: float = Field(default=30, gt=0, le=400, description="mean number of images per writer of the world")
    world_seed: Seed = Field(default=1, description="makes one world out of many of its kind")
    classes: int = Field(default=62, ge=2, description="number of classes, a public constant")
    held_out: int = Field(
        default=50, gt=0, le=100_000, description="users to measure accuracy on, who are never trained on"
    )
    most_images: int = Field(default=192, gt=0, description="cap on one user's images")

    @model_validator(mode="after")
    def _one_source(self) -> ImageData:
        if (self.world is None) == (self.store is None):
            raise ValueError("expected either data.world or data.store, got " + ("both" if self.world else "neither"))
        if self.store is not None and "classes" not in self.model_fields_set:
            raise ValueError(
                "expected data.classes with data.store: it is a public constant, and is never counted from users' data"
            )
        return self


class ImageFault(RecipeSection):
    """A fault put into the images on purpose (`tacit.data.faults`), after the classifier was trained."""

    kind: Literal["inverted", "rotated", "relabelled"] = Field(
        default="inverted", description="light and dark exchanged, images on their side, or labels off by one"
    )
    share: float = Field(ge=0, le=1, description="share of the users' devices that have it")
    seed: Seed = Field(default=1, description="decides which devices have it")


class ImageWork(RecipeSection):
    """The local computation of one user: SGD."""

    epochs: int = Field(default=1, gt=0, description="passes over a user's images in one round")
    batch_size: int = Field(default=32, gt=0, description="images per batch")
    learning_rate: float = Field(gt=0, allow_inf_nan=False, description="step size of the local SGD")


class ImageRun(RecipeSection):
    """How long the run is, and how often it evaluates and saves a checkpoint."""

    rounds: int = Field(gt=0, description="rounds of training [T]")
    evaluate_every: int = Field(default=20, gt=0, description="rounds between two measurements")
    checkpoint_every: int = Field(default=20, gt=0, description="rounds between two checkpoints")
    seed: Seed | None = Field(
        default=None, description="makes the noise replayable, for research: the run is then not private"
    )


class ImageTraining(RecipeSection):
    """How one model is trained."""

    init_seed: Seed = Field(default=1, description="draws the parameters that training begins with")
    work: ImageWork
    privacy: PrivacyPlan
    server: ServerSection = ServerSection()
    run: ImageRun

    @model_validator(mode="after")
    def _plan_fits(self) -> ImageTraining:
        require_plain(self.privacy)
        if self.server.average != "none":
            raise ValueError(
                "expected server.average = 'none' in an inspection, whose networks are trained against each other round by "
                f"round, got {self.server.average!r}"
            )
        return self


class ClassifierSection(ImageTraining):
    """The primary model; with `trained`, the inspection uses an earlier run's classifier instead of training one."""

    preset: str = Field(default="small", description="a classifier by name: small or paper")
    trained: str | None = Field(default=None, description="the folder of the run that has trained it")


class SelectionSection(RecipeSection):
    """The users that the generative models learn from.

    By user: users whose accuracy is at least the upper or at most the lower of the two `thresholds`, or of the two
    `percentiles` of a released histogram. By example: examples that the classifier gets right, and those it gets wrong.
    These two train a model for either side. All images, or all without their labels, train one model, and need no classifier.

    Percentiles are those of sound users (Debugging, C.3): of a histogram that was released before the fault. The users of the
    recipe's own fault are counted without it for this; for other users, `sound` names the run of an earlier histogram, and
    without it their accuracies of today are taken.
    """

    by: Literal["user", "example", "all", "unlabelled"] = Field(
        default="user",
        description="users or single examples by the classifier's accuracy (T4, T2), or all images (T1), or all of them "
        "without their labels (T5)",
    )
    percentiles: tuple[float, float] | None = Field(
        default=None, description="low and high percentile of users' accuracies, before the fault"
    )
    thresholds: tuple[float, float] | None = Field(default=None, description="low and high threshold, public constants")
    sound: str | None = Field(
        default=None,
        description="the run of an earlier histogram, accuracy/ or sound/ in an inspection's folder, for the percentiles",
    )
    minimum_examples: int = Field(default=5, gt=0, description="users with fewer selected examples contribute none")
    bins: int = Field(default=50, ge=2, le=60, description="number of bins of the histogram")
    privacy: PrivacyPlan = Field(description="the plan of the histogram, a round of its own")

    @model_validator(mode="after")
    def _fits_together(self) -> SelectionSection:
        if (self.percentiles is None) == (self.thresholds is None):
            got = "neither" if self.percentiles is None else "both"
            raise ValueError(f"expected either selection.percentiles or selection.thresholds, got {got}")
        low, high = self.percentiles or self.thresholds or (0.0, 0.0)
        if not 0 < low <= high < 1:
            name = "percentiles" if self.percentiles else "thresholds"
            raise ValueError(f"expected 0 < low ≤ high < 1 in selection.{name}, got {low:g} and {high:g}")
        if self.sound is not None and self.percentiles is None:
            raise ValueError(
                "expected selection.percentiles with selection.sound, the histogram that they are read from"
            )
        require_plain(self.privacy)
        if self.privacy.clip_norm not in ((1,) if self.privacy.claims else (1, None)):
            raise ValueError(
                f"expected selection.privacy.clip_norm = 1: a user counts in one bin, got {self.privacy.clip_norm}"
            )
        for name in ("clip_schedule", "example_cap", "total_weight"):
            if getattr(self.privacy, name):
                raise ValueError(f"expected no selection.privacy.{name}: every user adds 1 to one bin of the histogram")
        return self


class GeneratorSection(RecipeSection):
    """How the server trains the generator after each round."""

    steps: int = Field(default=6, gt=0, description="steps after each round")
    batch_size: int = Field(default=32, ge=2, description="generated images per step")
    optimizer: Literal["sgd", "momentum", "nesterov", "adam"] = Field(
        default="sgd", description="optimizer of the generator"
    )
    learning_rate: float = Field(default=0.005, gt=0, allow_inf_nan=False, description="step size of the generator")
    momentum: float = Field(default=0.9, ge=0, lt=1, description="of momentum and nesterov; others ignore it")


class GanSection(ImageTraining):
    """The generative models: the discriminator is learned through the gate, the generator from its releases."""

    preset: str = Field(default="small", description="a pair of models by name: small or paper")
    penalty: float = Field(
        default=10.0, ge=0, allow_inf_nan=False, description="weight of the penalty on the discriminator's gradient"
    )
    populations: tuple[int, int] | None = Field(
        default=None,
        description="public estimates of the users with low and with high accuracy; default: privacy.population for both",
    )
    generator: GeneratorSection = GeneratorSection()

    def of_side(self, side: str) -> GanSection:
        """The section with the population of this side, of which its cohort is drawn."""
        if self.populations is None:
            return self
        population = self.populations[side == "high"]
        return self.model_copy(update={"privacy": plan_with(self.privacy, population)})

    @model_validator(mode="after")
    def _populations_fit(self) -> GanSection:
        for population in self.populations or ():
            if population < self.privacy.cohort:
                raise ValueError(
                    f"expected gan.populations of at least gan.privacy.cohort = {self.privacy.cohort:g}, got {population}"
                )
            plan_with(self.privacy, population)
        return self


def plan_with(plan: PrivacyPlan, population: int) -> PrivacyPlan:
    """The plan for another number of users; ValueError if it does not fit them."""
    return PrivacyPlan.model_validate({**plan.model_dump(exclude_none=True), "population": population})


class ImageLook(RecipeSection):
    """How the trained generators are examined; all of this is post-processing and costs no privacy."""

    made: int = Field(default=256, ge=64, le=10_000, description="images to generate and score; the first 64 are shown")
    seed: Seed = Field(default=1, description="for drawing them; no privacy depends on it")


class ImageInspection(RecipeSection):
    """The whole recipe of an inspection of images."""

    inspect: Literal["images"] = Field(default="images", description="what is inspected")
    name: str = Field(
        default="inspect-images",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="the folder of the inspection is named after it",
    )
    data: ImageData
    fault: ImageFault | None = None
    classifier: ClassifierSection
    selection: SelectionSection
    gan: GanSection
    look: ImageLook = ImageLook()
    engine: EngineSection = EngineSection()
    paper: dict[str, Any] = Field(default_factory=dict, description="notes: the paper's figures, how to scale up")

    @model_validator(mode="after")
    def _fits_together(self) -> ImageInspection:
        if self.selection.minimum_examples > self.data.most_images:
            raise ValueError(
                f"expected selection.minimum_examples ≤ data.most_images = {self.data.most_images}, got "
                f"{self.selection.minimum_examples}: no user has that many"
            )
        everybody, delta = self.selection.privacy.population, self.gan.privacy.delta
        if self.gan.privacy.claims and delta >= 1 / everybody:
            raise ValueError(
                f"expected gan.privacy.delta < 1/selection.privacy.population = {1 / everybody:.3g}, because all users "
                f"are sampled and not only those in the selection, got {delta:g}"
            )
        return self

    @property
    def counts_sound_users(self) -> bool:
        """Whether a histogram is released of users before the recipe's own fault, for the percentiles."""
        selection, fault = self.selection, self.fault
        wanted = selection.by == "user" and selection.percentiles is not None and selection.sound is None
        return wanted and fault is not None and fault.share > 0

    def to_toml(self) -> str:
        """The effective recipe, with every default written out."""
        return toml_of(self.model_dump(mode="json", exclude_none=True))


def require_plain(plan: PrivacyPlan) -> None:
    """ValueError unless rounds are Poisson samples with independent noise and a fixed clip.

    Most sampled users are outside the selection and contribute zeros. A Poisson sample of all users is also a Poisson sample of
    the selection; no other sampling has this property. Zeros would pull an adaptive clip norm down.
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
    """Read and validate the recipe of an inspection of images, with changes of the form section.key=value.

    With `store` the inspection reads that store's users instead of the recipe's, without the recipe's fault. With `classifier`
    the primary model is the classifier of that run.
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
    """Validate the recipe of an inspection of images given as nested dictionaries."""
    try:
        return ImageInspection.model_validate(tree)
    except ValidationError as error:
        raise recipe_error(error, ImageInspection) from None


def image_inspection_of(folder: Path) -> ImageInspection:
    """The recipe of the inspection in this folder."""
    try:
        return parse_image_inspection(tomllib.loads((folder / RECIPE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        what = "is not an inspection of images" if folder.exists() else "does not exist"
        raise RunError(f"The folder {folder} {what}.") from None
    except (OSError, ValueError):
        raise RunError(f"The inspection {folder} is damaged: its {RECIPE} cannot be read.") from None


def refuse_if_inspected(folder: Path) -> None:
    """RunError unless the folder is empty or does not exist yet."""
    if (folder / RECIPE).exists():
        raise RunError(
            f"The folder {folder} holds an inspection already.",
            hint=f"Continue it with tacit inspect images --resume {folder}, or choose another folder.",
        )
    refuse_if_taken(folder)
