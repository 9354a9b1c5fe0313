"""A sweep as validated data: a base recipe, what is varied in it, and the cases that come out, each a whole recipe.

    name = "rates"                       # the runs lie in runs/rates
    recipe = "mine.toml"                 # beside this file, or a recipe that comes with Tacit
    epsilon = 4                          # the noise of each case is the least for it
    repeats = 2                          # or seeds = [1, 2], whose noise can be replayed

    [set]                                # changes to the recipe, for every case
    run.rounds = 200

    [axes]                               # each value with each value of the others
    privacy.clip_norm = [0.2, 0.4]
    server.learning_rate = [1.0, 2.0]

    [variants.momentum]                  # changes under a name; each variant with each point of the axes
    server.optimizer = "momentum"

A case is named after its variant and its values: `momentum,clip_norm=0.2,learning_rate=1.0,r1`. Its folder has that name. Every
case is parsed here, so a mistake in any of them is found before anything runs, and the sentence begins with the case.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from tacit.errors import RecipeError, TacitError
from tacit.mistakes import recipe_error
from tacit.recipe.reading import find_recipe, read_toml
from tacit.recipe.sections import RecipeSection, Seed
from tacit.recipe.training import Recipe, recipe_of

# What a sweep's folder holds besides its runs.
RESERVED = ("private", "sweep.json", "sweep.lock", "results.json", "results.png", "statement.txt")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=,-]*")
_LONGEST = 150
MOST_CASES = 10_000
EPSILON = "epsilon"

Epsilon = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class SweepCase:
    """A run of a sweep: the name of its folder, its recipe, and the epsilon that its noise is made for, if any.

    `settings` are the values in which it differs from the others, for tables and pictures.

    >>> import tacit
    >>> from tacit.recipe.reading import find_recipe
    >>> tacit.SweepCase("short", tacit.load_recipe(find_recipe("demo"), ["run.rounds=20"])).recipe.run.rounds
    20
    """

    name: str
    recipe: Recipe
    epsilon: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` reads it."""
        recipe = self.recipe.model_dump(mode="json", exclude_none=True)
        return {"name": self.name, "recipe": recipe, "epsilon": self.epsilon, "settings": dict(self.settings)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> SweepCase:
        """What `as_dict` wrote."""
        return cls(found["name"], Recipe.model_validate(found["recipe"]), found["epsilon"], found["settings"])


class Grid(RecipeSection):
    """The file of a sweep."""

    name: str = Field(default="sweep", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="the folder of its runs")
    recipe: str = Field(description="the recipe that is varied: a file, or the name of one that comes with Tacit")
    epsilon: Epsilon | None = Field(default=None, description="what each case may cost by itself; its noise follows")
    repeats: int = Field(default=1, ge=1, le=1_000, description="runs of each case, with fresh noise in each")
    seeds: tuple[Seed, ...] = Field(default=(), description="instead of repeats: run.seed of each; not private")
    set: dict[str, Any] = Field(default_factory=dict, description="changes to the recipe for every case")
    axes: dict[str, Any] = Field(default_factory=dict, description="keys of the recipe, each with a list of values")
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict, description="named changes to the recipe")

    @model_validator(mode="after")
    def _fits_together(self) -> Grid:
        if self.seeds and self.repeats != 1:
            raise ValueError(f"expected either seeds or repeats, got seeds and repeats = {self.repeats}")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"expected each of seeds once, got {list(self.seeds)}")
        return self


def load_grid(path: Path) -> tuple[str, list[SweepCase]]:
    """The name of the sweep in this file, and its cases; RecipeError names the case and the field that is wrong."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise RecipeError(f"Expected the file of a sweep, got {str(path)!r}, which {what}.")
    return grid_of(read_toml(path), path.parent)


def grid_of(tree: Mapping[str, Any], beside: Path) -> tuple[str, list[SweepCase]]:
    """The name and the cases of a sweep given as nested dictionaries; files are looked for in the folder `beside` first."""
    if "data" in tree or "privacy" in tree:
        raise RecipeError(
            "Expected the file of a sweep, got a recipe.",
            hint='A sweep names its recipe: recipe = "mine.toml", and below [axes] what is varied.',
        )
    try:
        grid = Grid.model_validate(tree)
    except ValidationError as error:
        raise recipe_error(error, Grid, what="sweep") from None
    cases = list(_cases(grid, beside))
    return grid.name, checked(cases)


def checked(cases: Iterable[SweepCase]) -> list[SweepCase]:
    """The cases, if each has a name of its own that can be a folder's; RecipeError otherwise."""
    cases = list(cases)
    if not cases:
        raise RecipeError("Expected a sweep with at least one case, got none.")
    names = [case.name for case in cases]
    taken = Counter(name.casefold() for name in names)
    for name in names:
        if not _NAME.fullmatch(name) or len(name) > _LONGEST or name.endswith("."):
            raise RecipeError(
                f"Expected the name of a case to be up to {_LONGEST} letters, digits and any of . _ + = , - got {name!r}."
            )
        if name.casefold() in RESERVED:
            raise RecipeError(f"The name {name!r} of a case is that of a file which every sweep has: choose another.")
        if taken[name.casefold()] > 1:
            raise RecipeError(f"Two cases have the name {name!r}: each needs one of its own.")
        if f"{name}-words".casefold() in taken:
            raise RecipeError(f"The case {name}-words has the name of the folder for the words of the case {name}.")
    return cases


@contextmanager
def naming(case: str) -> Iterator[None]:
    """A mistake of this case says so at its beginning."""
    try:
        yield
    except TacitError as error:
        raise type(error)(f"Case {case}: {error.sentence}", hint=error.hint) from None


def _cases(grid: Grid, beside: Path) -> Iterator[SweepCase]:
    axes = list(_axes(grid.axes))
    for key, values in axes:
        if not isinstance(values, list) or not values:
            raise RecipeError(f"Expected axes.{key} to be a list of values, got {_shown(values)}.")
        texts = [_text(value, place) for place, value in enumerate(values, start=1)]
        if again := next((text for text, count in Counter(texts).items() if count > 1), None):
            raise RecipeError(f"Expected each value of axes.{key} once, got {again} twice.")
    sizes = [len(grid.variants) or 1, *(len(values) for _, values in axes), len(grid.seeds) or grid.repeats]
    count = 1
    for size in sizes:
        count *= size
    if count > MOST_CASES:
        raise RecipeError(f"Expected at most {MOST_CASES:,} cases, got {count:,}.")
    short = _short_names([key for key, _ in axes])
    runs: Sequence[int | None] = grid.seeds or ([*range(1, grid.repeats + 1)] if grid.repeats > 1 else [None])
    for variant, changes in (grid.variants or {"": {}}).items():
        own = dict(changes)
        base = _base(str(own.pop("recipe", grid.recipe)), beside)
        for values in itertools.product(*([*enumerate(each, start=1)] for _, each in axes)):
            chosen = {key: value for (key, _), (_, value) in zip(axes, values, strict=True)}
            parts = [f"{short[key]}={_text(value, place)}" for key, (place, value) in zip(short, values, strict=True)]
            for run in runs:
                last = [] if run is None else [f"{'s' if grid.seeds else 'r'}{run}"]
                name = ",".join([variant] * bool(variant) + parts + last) or "base"
                with naming(name):
                    yield _case(name, grid, base, own, variant, chosen, run)


def _case(
    name: str,
    grid: Grid,
    base: Mapping[str, Any],
    own: Mapping[str, Any],
    variant: str,
    chosen: Mapping[str, Any],
    run: int | None,
) -> SweepCase:
    tree = copy.deepcopy(dict(base))
    _merge(tree, grid.set)
    epsilon = own.get(EPSILON, grid.epsilon)
    _merge(tree, {key: value for key, value in own.items() if key != EPSILON})
    for key, value in chosen.items():
        if key == EPSILON:
            epsilon = value
        else:
            _put(tree, key.split("."), value)
    if grid.seeds:
        _put(tree, ["run", "seed"], run)
    if epsilon is not None and (isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not epsilon > 0):
        raise RecipeError(f"Expected epsilon > 0, got {_shown(epsilon)}.")
    settings = ({"variant": variant} if variant else {}) | dict(chosen)
    return SweepCase(name, recipe_of(tree), None if epsilon is None else float(epsilon), settings)


def _base(name: str, beside: Path) -> dict[str, Any]:
    return read_toml(beside / name if (beside / name).is_file() else find_recipe(name))


def _axes(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted key of each axis, and its values; a table is a section of the recipe."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _axes(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _short_names(keys: Sequence[str]) -> dict[str, str]:
    """The last part of each key, or the whole key where two end alike."""
    last = Counter(key.rpartition(".")[2] for key in keys)
    return {key: key if last[key.rpartition(".")[2]] > 1 else key.rpartition(".")[2] for key in keys}


def _text(value: Any, place: int) -> str:
    """A value as part of a name; a table is named by its place among the values."""
    if isinstance(value, dict):
        return str(place)
    if isinstance(value, list):
        return "+".join(_text(each, number) for number, each in enumerate(value, start=1)) or "none"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text) or "none"


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _merge(tree: dict[str, Any], changes: Mapping[str, Any], name: str = "") -> None:
    """Make the changes in place; a table changes the keys that it names and leaves the others."""
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(tree.get(key), dict):
            _merge(tree[key], value, f"{name}{key}.")
        else:
            tree[key] = copy.deepcopy(value)


def _put(tree: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
        if not isinstance(tree, dict):
            raise RecipeError(f"Expected {'.'.join(keys)} to be a key of a section, and {key} is none.")
    tree[keys[-1]] = copy.deepcopy(value)
