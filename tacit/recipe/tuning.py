"""Training settings that a search may change, and the settings that lie next to others.

A setting is a value for each of these keys. Its neighbours differ in one of them: a rate, the clip or the number of rounds is
halved or doubled, a schedule or the set of trained parts is exchanged for another. How models are averaged is no part of it:
averaging changes no round, so every average can be measured on one training.

Nothing here reads data. The noise of a setting is the least with which the recipe, with its own population and cohort and with
the discovery of its words, costs at most the target.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from tacit.errors import RecipeError
from tacit.recipe.target import Targeted, at_epsilon
from tacit.recipe.training import Recipe, parse_recipe
from tacit.recipe.writing import commented_toml

# A setting: (key, value) for each key that the search changes, in the order of the table that is printed.
Setting = tuple[tuple[str, Any], ...]
ROUNDS, CLIP, TRAINABLE, SCHEDULE = "run.rounds", "privacy.clip_norm", "work.trainable", "server.schedule"
SCALED = ("server.learning_rate", CLIP, "work.learning_rate")
SCHEDULES = ("constant", "linear", "cosine")
AVERAGE_KEYS = ("server.average", "server.average_rounds", "server.average_decay")
# How far from the recipe's own value a search goes, as a factor.
FARTHEST, FARTHEST_ROUNDS = 8.0, 4
NOT_EMBEDDING = ("cell", "output", "output_bias")


class Tunable:
    """A recipe as its TOML tree, the target for its epsilon, and the settings that can be tried."""

    def __init__(self, tree: Mapping[str, Any], epsilon: float, parts: tuple[str, ...]) -> None:
        """`parts` are the parts that the recipe's model has; RecipeError if its own settings cannot reach the epsilon."""
        self._tree, self._epsilon = dict(tree), epsilon
        self._for_rounds: dict[int, Targeted] = {}
        recipe = parse_recipe(copy.deepcopy(self._tree))
        values = recipe.model_dump(mode="python")
        self.own: Setting = tuple((key, _of(values, key)) for key in (ROUNDS, *SCALED, SCHEDULE, TRAINABLE))
        self._fixed_clip = recipe.privacy.adaptive is not None or bool(recipe.privacy.clip_schedule)
        self._frozen_embedding = tuple(part for part in NOT_EMBEDDING if part in parts)
        self.targeted(self.own)

    def targeted(self, setting: Setting, average: Mapping[str, Any] | None = None) -> Targeted:
        """The recipe with this setting, and the noise with which it reaches the epsilon; RecipeError if it cannot."""
        tree, rounds = self.tree(setting, average), dict(setting)[ROUNDS]
        if rounds not in self._for_rounds:
            # Rates, the clip and the trained parts do not change what a round costs: the number of rounds decides.
            self._for_rounds[rounds] = at_epsilon(parse_recipe(copy.deepcopy(tree)), self._epsilon)
        found = self._for_rounds[rounds]
        tree["privacy"]["noise_multiplier"] = found.recipe.privacy.noise_multiplier
        return Targeted(parse_recipe(tree), found.planned)

    def tree(self, setting: Setting, average: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The recipe's TOML tree with this setting, and this average."""
        tree = copy.deepcopy(self._tree)
        own = dict(self.own)
        for key, value in setting:
            if value != own[key]:
                _set(tree, key, list(value) if isinstance(value, tuple) else value)
        if average is not None:
            for key in AVERAGE_KEYS:
                tree.get("server", {}).pop(key.partition(".")[2], None)
            tree.setdefault("server", {}).update(average)
        return tree

    def neighbours(self, setting: Setting) -> Iterator[Setting]:
        """The settings next to this one that the recipe's plan can run."""
        for key, value in setting:
            for other in self._others(key, value):
                changed = tuple((each, other if each == key else old) for each, old in setting)
                if self._possible(changed):
                    yield changed

    def _others(self, key: str, value: Any) -> list[Any]:
        own = dict(self.own)[key]
        if key == ROUNDS:
            halved, doubled = max(value // 2, 1), 2 * value
            return [each for each in (halved, doubled) if each != value and _near(each, own, FARTHEST_ROUNDS)]
        if key in SCALED:
            if value is None or (key == CLIP and self._fixed_clip):
                return []
            scaled = [float(f"{value * factor:.4g}") for factor in (0.5, 2.0)]
            return [each for each in scaled if _near(each, own, FARTHEST)]
        if key == SCHEDULE:
            return [each for each in SCHEDULES if each != value]
        choices = [(), self._frozen_embedding] if self._frozen_embedding else [()]
        return [each for each in choices if tuple(each) != tuple(value)]

    def _possible(self, setting: Setting) -> bool:
        try:
            self.targeted(setting)
        except RecipeError:
            return False
        return True

    def written(self, recipe: Recipe, heading: list[str]) -> str:
        """A tuned recipe as TOML: the keys of the recipe that was tuned, and those that differ, with their meaning."""
        mentioned = {*_keys(self._tree), *(key for key, _ in self.own), "privacy.noise_multiplier"} - {*AVERAGE_KEYS}
        if recipe.server.average != "none":
            mentioned |= {"server.average", f"server.average_{_PARAMETER[recipe.server.average]}"}
        if not recipe.work.trainable:
            mentioned -= {TRAINABLE}
        return "".join(f"# {line}\n" for line in heading) + f"\n{commented_toml(recipe, only=mentioned)}\n"


_PARAMETER = {"last": "rounds", "exponential": "decay"}


def differences(setting: Setting, own: Setting) -> dict[str, Any]:
    """The keys in which a setting differs from the recipe's own, and its values there."""
    before = dict(own)
    return {key: value for key, value in setting if value != before[key]}


def _near(value: float, own: float, factor: float) -> bool:
    return own / factor <= value * (1 + 1e-9) and value <= own * factor * (1 + 1e-9)


def _of(values: Mapping[str, Any], key: str) -> Any:
    section, _, name = key.partition(".")
    return values[section][name]


def _set(tree: dict[str, Any], key: str, value: Any) -> None:
    section, _, name = key.partition(".")
    tree.setdefault(section, {})[name] = value


def _keys(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _keys(value, f"{prefix}{name}.")
        else:
            yield prefix + name
