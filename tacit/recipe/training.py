"""A run as validated data: a TOML file whose every key is known and every value checked before anything starts.

A mistake is refused in one sentence that names the field, the value and what would be right. `--set a.b=c` changes a value
from the command line; the effective recipe is written into the run folder.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tacit.errors import RecipeError
from tacit.privacy.plan import PrivacyPlan, with_rounds
from tacit.privacy.planning.scaling import ScaleSection, scaled_up

# Inside an installed package, else beside it in a checkout.
_INSTALLED = Path(__file__).parents[1] / "recipes"
RECIPES = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[2] / "recipes"

# What every generator in use takes whole: jax.random.key keeps 32 bits, NumPy refuses what is negative.
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSection(_Section):
    """Users' data: a built-in world, or a store made by `tacit data import`."""

    world: Literal["keyboard"] | None = None
    store: str | None = None
    users: int = Field(default=500_000, gt=0, description="users of the world")
    vocabulary: int = Field(
        default=2_000, ge=100, description="entries of the world's vocabulary, four reserved ones included"
    )
    world_seed: Seed = 1
    held_out: int = Field(
        default=200,
        gt=0,
        le=100_000,
        description="users to measure accuracy on: so many of a world, at most so many of those whom the store holds out",
    )
    shuffle_seed: Seed = Field(default=1, description="draws the order of central training, and the users of data.iid")
    iid: bool = Field(
        default=False, description="reshuffle all examples into synthetic users (Memorization, section 3)"
    )
    layout: Literal["windows", "sentences"] = "windows"
    length: int = Field(default=10, gt=0, description="predictions a row")
    tokens_per_user: int = Field(
        default=1_600, gt=0, description="cap on one user's predictions, rounded up to whole batches"
    )

    @model_validator(mode="after")
    def _one_source(self) -> DataSection:
        if (self.world is None) == (self.store is None):
            raise ValueError("expected either data.world or data.store, got " + ("both" if self.world else "neither"))
        if self.iid and self.store is None:
            raise ValueError("expected data.iid with a store only: a world's users are made one by one")
        return self


class PretrainSection(_Section):
    """Central training on public text before the first round (Gboard, section 2.3): a store, or a built-in world.

    The world is another one than the users', and its writers all have one style, so that its text is not distributed as
    theirs: tidy writers spell out and punctuate what most others shorten and run together.
    """

    world: Literal["keyboard"] | None = None
    store: str | None = None
    public: bool = Field(default=False, description="you assert that the store's text is public")
    world_seed: Seed = 2
    style: Literal["tidy", "relaxed", "texter", "chatty"] | None = Field(
        default=None, description="how the world's users write; none: tidy"
    )
    users: int | None = Field(
        default=None, gt=0, description="so many users are read; none: 2,000 of a world, all of a store"
    )
    epochs: int | None = Field(default=None, gt=0)
    steps: int | None = Field(default=None, gt=0, description="batches, in place of epochs")
    batch_size: int = Field(default=32, gt=0, description="rows a batch")
    optimizer: Literal["sgd", "momentum", "nesterov", "adam"] = "adam"
    learning_rate: float = Field(default=0.005, gt=0, allow_inf_nan=False)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    order_seed: Seed = 1

    @model_validator(mode="after")
    def _one_source(self) -> PretrainSection:
        if (self.world is None) == (self.store is None):
            got = "both" if self.world else "neither"
            raise ValueError(f"expected either pretrain.world or pretrain.store, got {got}")
        if (self.epochs is None) == (self.steps is None):
            got = "both" if self.epochs else "neither"
            raise ValueError(f"expected either pretrain.epochs or pretrain.steps, got {got}")
        if self.store is not None and not self.public:
            raise ValueError(
                f"expected pretrain.public = true, which asserts that the text of pretrain.store = {self.store!r} is public, "
                "got false: a store is private unless you say otherwise"
            )
        if self.store is not None and self.style is not None:
            raise ValueError(f"expected pretrain.style with a world only, got {self.style!r}")
        return self


class ModelSection(_Section):
    """A preset of `tacit.models.word_lm`, and what to change in it. The vocabulary's size comes from the data."""

    preset: str = "tiny"
    cell: Literal["lstm", "cifg"] | None = None
    embedding: int | None = Field(default=None, gt=0)
    units: int | None = Field(default=None, gt=0)
    projection: int | None = Field(default=None, gt=0)
    tied: bool | None = None
    output_bias: bool | None = None
    unit_norm: bool | None = None
    init_seed: Seed = 1


class WorkSection(_Section):
    """What one user computes."""

    kind: Literal["fedavg", "fedsgd"] = "fedavg"
    epochs: int = Field(default=1, gt=0)
    batch_size: int = Field(default=8, gt=0, description="rows a batch")
    learning_rate: float = Field(default=0.5, gt=0, allow_inf_nan=False)
    clip_every_step: bool = Field(default=False, description="clip after each local step, as DP-FedAvg does")


class ServerSection(_Section):
    """What the server does with a release."""

    optimizer: Literal["sgd", "momentum", "nesterov", "adam"] = "sgd"
    learning_rate: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    momentum: float = Field(default=0.9, ge=0, lt=1)


class RunSection(_Section):
    """How long, and what is written down how often."""

    rounds: int = Field(gt=0)
    evaluate_every: int = Field(default=20, gt=0)
    evaluate_words: int = Field(default=20_000, gt=0, description="about so many held-out predictions an evaluation")
    checkpoint_every: int = Field(default=10, gt=0)
    seed: Seed | None = Field(default=None, description="replayable noise, for science: the run is then not private")


class EngineSection(_Section):
    """How the simulation runs; nothing here changes what is computed but for rounding."""

    chunk: int | None = Field(default=None, gt=0, description="users a compiled call; none: what suits the device")
    precision: Literal["float32", "tf32", "bf16"] = "float32"


class PopulationSection(_Section):
    """Devices that check in when they can, in place of a uniform choice (Gboard, section 2.2; `tacit population`)."""

    timer_hours: float = Field(
        default=24.0, ge=0, allow_inf_nan=False, description="rest after a report, on the device"
    )
    over_selection: float = Field(default=1.3, ge=1, le=10)
    deadline_hours: float = Field(default=12.0, gt=0, allow_inf_nan=False)
    work_minutes: float = Field(default=2.5, gt=0, allow_inf_nan=False)
    drop_out: float = Field(default=0.06, ge=0, lt=1)
    zones: str = Field(default="us", description="shares of time zones: one, us, europe, world, or a list")
    seed: Seed = 1


class FleetSection(_Section):
    """Rounds on real devices (`tacit serve`); a simulation of the same recipe passes over it."""

    evaluates: str | None = Field(
        default=None, description="a run whose model devices look at, instead of training one"
    )
    over_selection: float = Field(default=1.3, ge=1, le=10, description="places in a round for each report wanted")
    deadline_s: float = Field(
        default=600.0, gt=0, allow_inf_nan=False, description="how long a round waits for reports"
    )
    timer_s: float = Field(
        default=86_400.0, ge=0, allow_inf_nan=False, description="rest after a report, on the device"
    )
    selection_s: float = Field(
        default=60.0, gt=0, allow_inf_nan=False, description="secure aggregation: how long devices are gathered"
    )
    stage_s: float = Field(
        default=60.0, gt=0, allow_inf_nan=False, description="secure aggregation: how long each stage waits"
    )
    dropout: float = Field(default=0.3, ge=0, lt=1, description="secure aggregation: share that may be lost in a round")
    corruption: float = Field(
        default=0.1, ge=0, lt=1, description="secure aggregation: share that may work for the server"
    )


class AuditSection(_Section):
    """The audit of the gate in every round, and canaries planted among the users, to be looked for in the model afterwards."""

    gate: bool = Field(default=True, description="made-up contributions test clip and noise in every round")
    plan: str | None = Field(default=None, min_length=1, description="a canary plan made by `tacit audit plant`")
    public: str | None = Field(
        default=None, description="a store of public text, for synthetic devices; a world needs none"
    )


class Recipe(_Section):
    """Everything that makes a run."""

    name: str = Field(default="run", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    data: DataSection
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
    engine: EngineSection = EngineSection()
    paper: dict[str, Any] = Field(default_factory=dict, description="notes: the paper's figures, how to scale up")

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, tree: Any) -> Any:
        """What follows from the number of rounds is written out, so that the plan says all."""
        match tree:
            case {"privacy": dict() as privacy, "run": {"rounds": int() as rounds}}:
                return {**tree, "privacy": with_rounds(privacy, rounds)}
        return tree

    @model_validator(mode="after")
    def _plan_fits_rounds(self) -> Recipe:
        self.privacy.check_rounds(self.run.rounds)
        if self.privacy.participation is not None and (self.population is not None or self.fleet is not None):
            raise ValueError(
                "expected no privacy.participation with a [population] or a [fleet]: devices take part when they can, "
                f"got {self.privacy.participation!r}"
            )
        if self.population is not None and self.privacy.sampling != "check_in":
            raise ValueError(
                f"expected privacy.sampling = 'check_in' with a [population]: devices that come when they can are no sample, "
                f"got {self.privacy.sampling!r}"
            )
        if self.fleet is not None and self.privacy.sampling != "check_in":
            raise ValueError(
                f"expected privacy.sampling = 'check_in' with a [fleet]: no law of who comes can be promised, "
                f"got {self.privacy.sampling!r}"
            )
        if self.fleet is not None and self.fleet.evaluates is not None:
            plan = self.privacy
            if (plan.clip_norm, plan.clipping, plan.weighted) != (1.0, "flat", False) or plan.adaptive is not None:
                raise ValueError(
                    "expected privacy.clip_norm = 1, clipped 'flat', and neither adaptive nor a clipped estimator with "
                    "fleet.evaluates: a device's metrics are one vector of norm 1 at most"
                )
        if self.fleet is not None and (self.audit is not None or self.scale is not None):
            raise ValueError("expected neither [audit] nor [scale] with a [fleet]: both are about simulated users")
        if self.scale is not None:
            scaled_up(self.privacy, self.scale).check_rounds(self.run.rounds)
        return self

    def to_toml(self) -> str:
        """The effective recipe, every default written out."""
        return toml_of(self.model_dump(mode="json", exclude_none=True))

    def reasons_not_private(self) -> list[str]:
        """Why this recipe can claim no finite epsilon; empty if it can."""
        reasons = []
        if not self.privacy.claims:
            reasons.append(f"no noise is added (privacy.mechanism = '{self.privacy.mechanism}')")
        if self.run.seed is not None:
            reasons.append("the noise can be replayed by anybody who knows the seed (run.seed)")
        return reasons


def find_recipe(name: str) -> Path:
    """The file of this path, or the recipe of this name among the project's own."""
    for path in (Path(name), Path("recipes") / f"{name}.toml", RECIPES / f"{name}.toml"):
        if path.is_file():
            return path
    known = sorted(path.stem for path in RECIPES.glob("*.toml"))
    hint = f"Recipes by name: {', '.join(known)}." if known else None
    what = "is a folder" if Path(name).is_dir() else "does not exist"
    raise RecipeError(f"Expected a recipe file, got {name!r}, which {what}.", hint=hint)


def load_recipe(path: Path, changes: Iterable[str] = ()) -> Recipe:
    """Read and validate a recipe, with changes of the form section.key=value.

    A canary plan is looked for from the current folder; the run keeps its whole path, and can be audited from any other.
    """
    tree = read_toml(path)
    for change in changes:
        apply_change(tree, change)
    recipe = parse_recipe(tree)
    if recipe.audit is None or recipe.audit.plan is None:
        return recipe
    audit = recipe.audit.model_copy(update={"plan": str(Path(recipe.audit.plan).resolve())})
    return recipe.model_copy(update={"audit": audit})


def read_toml(path: Path) -> dict[str, Any]:
    """A recipe file as nested dictionaries, not validated yet."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"Expected TOML in {path}, but: {error}.") from None
    except OSError as error:
        raise RecipeError(f"Expected a readable recipe, but {path} gives: {error.strerror}.") from None


def parse_recipe(tree: dict[str, Any]) -> Recipe:
    """Validate a recipe given as nested dictionaries."""
    if "inspect" in tree:  # a recipe of `tacit.inspection`, which knows more sections than these
        raise RecipeError(
            f"Expected a recipe for training, got one for an inspection (inspect = {json.dumps(tree['inspect'])}).",
            hint=f"Such a recipe is for: tacit inspect {tree['inspect']}",
        )
    try:
        return Recipe.model_validate(tree)
    except ValidationError as error:
        raise sentence_of(error) from None


def toml_of(tree: dict[str, Any], prefix: str = "") -> str:
    """Nested dictionaries as TOML; lists of tables are written inline."""
    lines = [f"{_key(key)} = {_value(value)}" for key, value in tree.items() if not isinstance(value, dict)]
    for key, value in tree.items():
        if isinstance(value, dict):
            lines += ["", f"[{prefix}{_key(key)}]", toml_of(value, f"{prefix}{_key(key)}.")]
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # JSON strings, numbers and booleans are TOML


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else json.dumps(key)


def apply_change(tree: dict[str, Any], change: str) -> None:
    """Change a recipe given as nested dictionaries, in place; `change` is section.key=value."""
    name, equals, text = change.partition("=")
    keys = name.strip().split(".")
    if not equals or not all(keys):
        raise RecipeError(f"Expected --set section.key=value, got {change!r}.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
        if not isinstance(tree, dict):
            raise RecipeError(f"Expected --set section.key=value, got {change!r}, where {key} is not a section.")
    tree[keys[-1]] = value


def sentence_of(error: ValidationError) -> RecipeError:
    """The first mistake, as one sentence."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    value, context = first.get("input"), first.get("ctx", {})
    shown = json.dumps(value, default=str, ensure_ascii=False)
    match first["type"]:
        case "extra_forbidden":
            section = Recipe.model_fields if "." not in field else _fields_of(first["loc"][:-1])
            near = difflib.get_close_matches(str(first["loc"][-1]), section, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Known keys here: {', '.join(section)}."
            return RecipeError(f"Unknown key {field} in the recipe.", hint=hint)
        case "missing":
            return RecipeError(f"Expected {field} in the recipe, which does not have it.")
        case "value_error":
            text = str(context["error"])
            return RecipeError(text[0].upper() + text[1:] + ".")
        case "greater_than":
            return RecipeError(f"Expected {field} > {context['gt']:.15g}, got {shown}.")
        case "greater_than_equal":
            return RecipeError(f"Expected {field} ≥ {context['ge']:.15g}, got {shown}.")
        case "less_than_equal":
            return RecipeError(f"Expected {field} ≤ {context['le']:g}, got {shown}.")
        case "less_than":
            return RecipeError(f"Expected {field} < {context['lt']:.15g}, got {shown}.")
        case "literal_error":
            return RecipeError(f"Expected {field} to be {context['expected']}, got {shown}.")
        case "string_pattern_mismatch":
            return RecipeError(f"Expected {field} to be letters, digits, dots, dashes and underscores, got {shown}.")
        case "int_type" | "int_parsing" | "int_from_float":
            return RecipeError(f"Expected {field} to be a whole number, got {shown}.")
        case "float_type" | "float_parsing":
            return RecipeError(f"Expected {field} to be a number, got {shown}.")
        case "bool_type" | "bool_parsing":
            return RecipeError(f"Expected {field} to be true or false, got {shown}.")
        case "string_type":
            return RecipeError(f"Expected {field} to be text, got {shown}.")
        case "model_type" | "dict_type":
            return RecipeError(f"Expected {field} to be a section of the recipe, got {shown}.")
    wanted = first["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return RecipeError(f"Expected {field} to be {wanted}, got {shown}.")


def _fields_of(location: tuple[Any, ...]) -> list[str]:
    """The keys a section knows."""
    model: Any = Recipe
    for part in location:
        if isinstance(part, str) and part in model.model_fields:
            model = _section_of(model.model_fields[part].annotation)
        if not hasattr(model, "model_fields"):
            return []
    return list(model.model_fields)


def _section_of(annotation: Any) -> Any:
    """The section itself, where a recipe may also leave it out."""
    return next((each for each in get_args(annotation) if each is not type(None)), annotation)
