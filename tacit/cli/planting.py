"""The command that trains with a canary plan: `tacit audit plant` prints it, and it is all that is needed."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tacit.data.canaries.plan import CanaryPlan
from tacit.errors import AuditError
from tacit.recipe.reading import find_recipe
from tacit.recipe.training import Recipe, load_recipe

# What trains on a store, and on the built-in world, where no recipe was named.
FOR_A_STORE, FOR_THE_WORLD = "own_data", "demo"


@dataclass(frozen=True)
class Planting:
    """A recipe to train with a canary plan, and what to change in it.

    `public` is a store of public text, from which synthetic devices on a store fill up what they hold.
    """

    recipe: str
    changes: Sequence[str] = field(default=())
    public: Path | None = None

    @classmethod
    def on_store(cls, store: Path, population: int | None, public: Path | None) -> Planting:
        """Tacit's recipe for a store of one's own; `population` is a public estimate of how many users there are."""
        return cls(FOR_A_STORE, [change("data.store", str(store)), *_sizes(FOR_A_STORE, population)], public)

    @classmethod
    def on_world(cls, users: int, seed: int, vocabulary: int) -> Planting:
        """The demo, in the world with this seed and so many users and words."""
        demo = load_recipe(find_recipe(FOR_THE_WORLD))
        wanted = {"users": users, "world_seed": seed, "vocabulary": vocabulary}
        changes = [f"data.{key}={value}" for key, value in wanted.items() if getattr(demo.data, key) != value]
        return cls(FOR_THE_WORLD, [*changes, *_sizes(FOR_THE_WORLD, users)])

    def arguments(self, plan: CanaryPlan, out: Path) -> list[str]:
        """The arguments of `tacit` that train with this plan, once it is in the file `out`.

        RecipeError or AuditError if training would refuse the plan.
        """
        recipe = load_recipe(find_recipe(self.recipe), self.changes)
        public = recipe.audit.public if recipe.audit is not None else None
        self._require_fitting(recipe, plan, None if public is None else Path(public))
        given = [*self.changes, change("audit.plan", str(out))]
        if self.public is not None:
            given.append(change("audit.public", str(self.public)))
        load_recipe(find_recipe(self.recipe), given)
        return ["train", self.recipe, *(word for each in given for word in ("--set", each))]

    def _require_fitting(self, recipe: Recipe, plan: CanaryPlan, public: Path | None) -> None:
        from tacit.training.datasets import public_store, require_plantable

        require_plantable(plan, recipe.privacy, iid=recipe.data.iid)
        if recipe.data.store is None or not len(plan.device_canaries()):
            return
        named = self.public or public
        if named is None:
            raise AuditError(
                f"Expected --public with made-up devices on the store {recipe.data.store}, got none: beside its canary such a "
                "device holds public text.",
                hint="Name a store of public text, or plant --devices 0 with --coins or --sharers.",
            )
        public_store(named, recipe.data.store)


def change(key: str, text: str) -> str:
    """key=text as --set takes it, quoted where TOML would read something else than this text."""
    try:
        tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return f"{key}={text}"
    return f"{key}={json.dumps(text, ensure_ascii=False)}"


def _sizes(recipe: str, population: int | None) -> list[str]:
    """Changes to [privacy] for a population of this size: the same share of it takes part, delta is below 1/population."""
    privacy = load_recipe(find_recipe(recipe)).privacy
    if population is None or population == privacy.population:
        return []
    changes = [f"privacy.population={population}"]
    if population < privacy.population:
        changes.append(f"privacy.cohort={max(1, round(population * privacy.cohort / privacy.population))}")
    if population * privacy.delta >= 0.1:
        changes.append(f"privacy.delta=1e{math.floor(math.log10(0.1 / population))}")
    return changes
