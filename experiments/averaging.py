"""What does averaging the models of a run do for accuracy? The demo recipe, at three amounts of noise and two schedules.

    python experiments/averaging.py             (about a minute a run on two free cores; again until all is done)
    python experiments/averaging.py --report

Averaging changes no round, so all averages of one row are taken from the models of one run: they differ in nothing else. Runs
are seeded, to be repeatable, so none of them claims a guarantee; ε is what the same run without a seed would state. Lines go
to docs/experiments/averaging/results.jsonl.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from grid import add_line, read_results

import tacit
from tacit.learning.averaging import Averaging, ExponentialAverage, LastAverage, RunningAverage
from tacit.learning.trainable import EVERYTHING
from tacit.privacy.statement.wording import round_up
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
        "changes": settings,
        "seed": seed,
        "epsilon": estimate_of_recipe(private, trial=False)[0].epsilon,
        "delta": recipe.privacy.delta,
        "metrics": found,
    }


def report(results: dict[str, dict[str, Any]]) -> None:
    """A row for each kind of run: the mean over seeds and, of the averages, the gain with its spread."""
    rows = defaultdict(list)
    for each in results.values():
        rows[each["noise"], each["schedule"], each["epsilon"]].append(each["metrics"])
    print("| noise multiplier | ε | rate | seeds | last model | " + " | ".join(list(AVERAGES)[1:]) + " |")
    print("|---" * (4 + len(AVERAGES)) + "|")
    for (noise, schedule, epsilon), runs in sorted(rows.items()):
        last = [run["last model"]["top1"] for run in runs]
        cells = [f"{statistics.mean(last):.2%}"]
        for name in list(AVERAGES)[1:]:
            gains = [100 * (run[name]["top1"] - run["last model"]["top1"]) for run in runs]
            cells.append(f"{statistics.mean(gains):+.2f} ({min(gains):+.2f} to {max(gains):+.2f})")
        print(f"| {noise:g} | {round_up(epsilon)} | {schedule} | {len(runs)} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true", help="print the table of what there is")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--set", action="append", default=[], help="a change of the recipe, such as run.rounds=20")
    asked = parser.parse_args()
    if asked.report:
        report(read_results(asked.results))
        return
    tacit.use_every_core()
    for seed in SEEDS:
        for noise in NOISE:
            for schedule in SCHEDULES:
                name = f"z{noise:g}-{schedule}-s{seed}"
                if name in read_results(asked.results):
                    continue
                found = one_run(noise, schedule, seed, asked.set)
                add_line(asked.results, {"name": name, "noise": noise, "schedule": schedule, **found})
                print(name, {each: f"{scores['top1']:.2%}" for each, scores in found["metrics"].items()}, flush=True)


if __name__ == "__main__":
    main()
