"""Gboard's algorithm and its alternatives at one guarantee, as resumable steps.

    tacit data import scotus_advocates_en.jsonl.gz --user user --text sentences \\
        --vocabulary-private 10000 --key-file experiments/people.key --out stores/scotus
    python experiments/gboard.py --minutes 8        (again, until it says that all is done)
    python experiments/gboard.py --report           (draws the figure and prints the tables)

Every variant gets the noise that makes it cost EPSILON at its recipe's delta: on the keyboard world for the run itself, on the
real corpus for the scaled-up run that it stands for. Each is one run in runs/gboard; a finished one is not repeated.
"""

from __future__ import annotations

import argparse
import json
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from dp_fedavg import Say

from tacit.privacy.accounting.gaussian import sensitivity_squared as independent
from tacit.privacy.planning.calibration import calibrate_sampled, calibrate_unsampled
from tacit.privacy.planning.scaling import scaled_up
from tacit.privacy.record.ledger import read_ledger
from tacit.recipe.reading import apply_change
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.folder import is_run
from tacit.runs.metrics import read_metrics

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


def step(
    chosen: list[tuple[str, str]], folder: Path, results_path: Path, minutes: float, more: dict[str, list[str]]
) -> bool:
    """Run variants until the time is nearly up; says whether all are done."""
    from tacit.simulation.training import resume_run, start_run

    deadline, longest = time.monotonic() + 60 * minutes, 0.0
    for base, name in chosen:
        results = json.loads(results_path.read_text()) if results_path.exists() else {}
        if name in results.get(base, {}):
            continue
        if time.monotonic() + longest > deadline:
            return False
        began = time.monotonic()
        recipe = recipe_of(base, VARIANTS[base][name], more[base])
        out = folder / base / name.replace(" ", "_").replace(",", "")
        say = Say(f"{base}, {name}")
        summary = resume_run(out, say) if is_run(out) else start_run(recipe, out, say)
        record = {
            "noise_multiplier": recipe.privacy.noise_multiplier,
            "clip": _clips(out)[:: max(1, recipe.run.rounds // 40)],
            **{key: summary[key] for key in ("metrics", "baselines", "privacy") if key in summary},
            "at_scale": summary.get("at_scale"),
            "curve": [[m["round"], m["papers_top1"]] for m in read_metrics(out / "metrics.jsonl")],
            "seconds": time.monotonic() - began,
        }
        longest = max(longest, record["seconds"])
        results_path.parent.mkdir(parents=True, exist_ok=True)
        results_path.write_text(json.dumps({**results, base: {**results.get(base, {}), name: record}}))
    return True


def _clips(run: Path) -> list[float | None]:
    """Where updates were clipped, round by round."""
    return [intent.blocks["update"]["bound"] for intent in read_ledger(run / "ledger.jsonl").intents]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0, help="stop starting variants when this is nearly up")
    parser.add_argument("--only", choices=list(VARIANTS), help="this base alone")
    parser.add_argument("--runs", type=Path, default=Path("runs/gboard"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--store", help="where the real corpus lies")
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a value in every variant")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if arguments.report:
        from figures import gboard_report

        gboard_report(json.loads(RESULTS.read_text()), RESULTS.parent)
        return
    store = [] if arguments.store is None else [f"data.store={json.dumps(arguments.store)}"]
    more = {base: [*(store if base == "scotus" else ()), *arguments.changes] for base in VARIANTS}
    bases = [arguments.only] if arguments.only else list(VARIANTS)
    chosen = [(base, name) for base in bases for name in VARIANTS[base]]
    done = step(chosen, arguments.runs, arguments.results, arguments.minutes, more)
    print("all done" if done else "time is up; run again to go on")


if __name__ == "__main__":
    main()
