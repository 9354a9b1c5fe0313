"""Gboard's algorithm and its alternatives at one guarantee, as resumable steps.

    tacit data import scotus_advocates_en.jsonl.gz --user user --text sentences \\
        --vocabulary-private 10000 --key-file experiments/people.key --out stores/scotus
    python experiments/gboard.py --minutes 8        (again, until it says that all is done)
    python experiments/gboard.py --report           (draws the figure and prints the tables)

Every variant gets the noise that makes it cost EPSILON at its recipe's delta: on the keyboard world for the run itself, on the
real corpus for the scaled-up run that it stands for. Each is one run in runs/gboard; a finished one is not repeated.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grid import Case, curve_of, main

import tacit
from tacit.privacy.accounting.gaussian import sensitivity_squared as independent
from tacit.privacy.planning.calibration import calibrate_sampled, calibrate_unsampled
from tacit.privacy.planning.scaling import scaled_up
from tacit.recipe.reading import apply_change
from tacit.recipe.training import Recipe, parse_recipe

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "experiments" / "gboard" / "results.json"
RECIPE = HERE.parent / "recipes" / "gboard.toml"
# The same recipe with two budgets, measured on more people than the recipe holds out; and the real corpus.
BASES = {"world": RECIPE, "world, strict": RECIPE, "scotus": HERE / "gboard_scotus.toml"}
EPSILON = {"world": 8.0, "world, strict": 2.0, "scotus": 6.0}
MEASURED = ["data.held_out=1000", "run.evaluate_words=160000", "run.evaluate_every=40"]

TREE, BLT, BANDED = (f"privacy.mechanism={name}" for name in ("tree", "blt", "banded"))
FRESH = "privacy.mechanism=gaussian"
ADAPTIVE = ["privacy.adaptive={}", "privacy.clip_norm=0.1", "privacy.restarts=[32, 128]"]
PUBLIC = ['pretrain={world="keyboard", world_seed=2, style="tidy", users=2000, epochs=2}']
POISSON = [FRESH, "privacy.sampling=poisson"]
QUIET = ["privacy.mechanism=none", "privacy.noise_multiplier=0.0"]

MECHANISMS = {
    "tree": [TREE],
    "blt": [BLT],
    "banded": [BANDED],
    "DP-FedAvg, Poisson": POISSON,
    "fresh noise, check-in": [FRESH],
}

# Base: name → changes to its recipe, the most wanted first. Noise is fresh in every run, so a repeat shows the spread.
VARIANTS: dict[str, dict[str, list[str]]] = {
    "world": {
        **MECHANISMS,
        "tree, adaptive clip": [TREE, *ADAPTIVE],
        "blt, adaptive clip": [BLT, *ADAPTIVE],
        "blt, pre-trained": [BLT, *PUBLIC],
        "tree, pre-trained": [TREE, *PUBLIC],
        "blt, pre-trained, tied": [BLT, *PUBLIC, "model.tied=true"],
        "blt, tied": [BLT, "model.tied=true"],
        "no noise": QUIET,
    }
    | {f"{name}, again": changes for name, changes in MECHANISMS.items()},
    "world, strict": {
        f"{name}{again}": changes for again in ("", ", again", ", once more") for name, changes in MECHANISMS.items()
    },
    "scotus": {
        "tree": [TREE],
        "blt": [BLT],
        "DP-FedAvg, Poisson": POISSON,
        "no noise": QUIET,
        "fresh noise, check-in": [FRESH],
        "banded, 64 bands": [BANDED, "privacy.most_bands=64"],
    },
}


@dataclass(frozen=True)
class Variant(Case):
    """A case whose noise brings it to EPSILON."""

    def load(self, more: Sequence[str] = ()) -> Recipe:
        assert self.base is not None
        return recipe_of(self.base, list(self.changes), more)


CASES = [
    Variant(name, BASES[base], tuple(changes), base=base)
    for base, each in VARIANTS.items()
    for name, changes in each.items()
]


def recipe_of(base: str, changes: Sequence[str], more: Sequence[str]) -> Recipe:
    """The variant's recipe, with the noise that brings it to EPSILON."""
    tree = tomllib.loads(BASES[base].read_text())
    if changes == POISSON:  # a sample needs no limits on who may come
        for section in ("privacy", "scale"):
            tree.setdefault(section, {}).pop("min_separation", None)
            tree[section].pop("max_participation", None)
        tree = {section: content for section, content in tree.items() if content}
    for change in [*(MEASURED if BASES[base] == RECIPE else ()), *changes, *more]:
        apply_change(tree, change)
    recipe = parse_recipe(tree)
    if recipe.privacy.mechanism == "none":
        return recipe
    apply_change(tree, f"privacy.noise_multiplier={_noise(EPSILON[base], recipe)!r}")
    return parse_recipe(tree)


def _noise(epsilon: float, recipe: Recipe) -> float:
    """The noise of the run, so that it, or the larger run it stands for, costs epsilon."""
    plan, factor, rounds = recipe.privacy, 1.0, recipe.run.rounds
    if recipe.scale is not None:
        plan, factor = scaled_up(plan, recipe.scale), recipe.scale.cohort / plan.cohort
    if plan.sampling == "poisson":
        size = {"population": plan.population, "cohort": plan.cohort}
        return calibrate_sampled(epsilon, plan.delta, sampling="poisson", rounds=rounds, **size).value / factor
    strategy, most = plan.build_strategy(rounds), plan.max_participation or rounds

    def squared(rounds: int) -> float:
        if strategy is None:
            return independent(rounds, plan.gap, most)
        return strategy.sensitivity(rounds, plan.gap, most, plan.restarts).squared

    return calibrate_unsampled(squared, plan.delta, epsilon=epsilon, rounds=rounds).value / factor


def record(case: Case, recipe: Recipe, run: tacit.Run) -> dict[str, Any]:
    """What the figure and the tables need."""
    clips = [intent.blocks["update"]["bound"] for intent in run.ledger.intents]
    return {
        "noise_multiplier": recipe.privacy.noise_multiplier,
        "clip": clips[:: max(1, recipe.run.rounds // 40)],
        **{key: run.summary[key] for key in ("metrics", "baselines", "privacy") if key in run.summary},
        "at_scale": run.summary.get("at_scale"),
        "curve": curve_of(run.path, perplexity=False),
    }


if __name__ == "__main__":
    from figures import gboard_report

    main(__doc__, CASES, RESULTS, gboard_report, record=record)
