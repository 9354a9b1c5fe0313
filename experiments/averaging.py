"""What does averaging the models of a run do for accuracy? The demo recipe, at three amounts of noise and two schedules.

    python experiments/averaging.py             (about a minute a run on two free cores; again until all is done)
    python experiments/pages.py                 (writes the table of the page)

Averaging changes no round, so all averages of one row are taken from the models of one run: they differ in nothing else. Runs
are seeded, to be repeatable, so none of them claims a guarantee; ε is what the same run without a seed would state. Lines go
to docs/experiments/averaging/results.jsonl.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from grid import in_turn, say

import tacit
from tacit.learning.averaging import Averaging, ExponentialAverage, LastAverage, RunningAverage
from tacit.learning.trainable import EVERYTHING
from tacit.recipe.reading import find_recipe
from tacit.recipe.training import load_recipe
from tacit.simulation.training import estimate_of_recipe
from tacit.training.recipes import RecipeSetup

RESULTS = Path(__file__).parents[1] / "docs" / "experiments" / "averaging" / "results.jsonl"
NOISE, SCHEDULES, SEEDS = (0.5, 1.0, 2.0), ("constant", "linear"), (1, 2, 3)
AVERAGES: dict[str, Averaging | None] = {
    "last model": None,
    "last 5": LastAverage(5),
    "last 20": LastAverage(20),
    "decay 0.9": ExponentialAverage(0.9),
    "decay 0.97": ExponentialAverage(0.97),
}


def one_run(noise: float, schedule: str, seed: int, changes: list[str]) -> dict[str, Any]:
    """Train once, and measure every average of the models."""
    settings = [f"privacy.noise_multiplier={noise}", f"server.schedule={schedule}", "run.evaluate_every=1000", *changes]
    recipe = load_recipe(find_recipe("demo"), [*settings, f"run.seed={seed}"])
    setup = RecipeSetup.build(recipe)
    averages = {name: RunningAverage.of(each, setup.start.model, EVERYTHING) for name, each in AVERAGES.items()}
    model: Any = None
    with tempfile.TemporaryDirectory() as folder:
        for step in tacit.rounds(recipe=recipe, out=Path(folder) / "run"):
            model = step.model
            averages = {name: each and each.after(model, step.number) for name, each in averages.items()}
    found = {name: setup.evaluate(model if each is None else each.model(model)) for name, each in averages.items()}
    private = load_recipe(find_recipe("demo"), settings)
    return {
        "noise": noise,
        "schedule": schedule,
        "changes": settings,
        "seed": seed,
        "epsilon": estimate_of_recipe(private, trial=False)[0].epsilon,
        "delta": recipe.privacy.delta,
        "metrics": found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no run that would not be done by then")
    parser.add_argument("--set", action="append", default=[], help="a change of the recipe, such as run.rounds=20")
    asked = parser.parse_args()
    tacit.use_every_core()
    cases = {
        f"z{noise:g}-{schedule}-s{seed}": (noise, schedule, seed)
        for seed in SEEDS
        for noise in NOISE
        for schedule in SCHEDULES
    }
    say(in_turn(cases, asked.results, lambda name: one_run(*cases[name], asked.set), asked.minutes))


if __name__ == "__main__":
    main()
