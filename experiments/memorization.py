"""What training memorises, as resumable steps: Memorization's regimes and Production's devices.

    python experiments/memorization.py --minutes 8                      (again, until it says that all is done)
    python experiments/memorization.py --table production
    python experiments/memorization.py [--table production] --report    (prints the tables)

`--table small` is the regimes on a small keyboard world, for two cores. The store of the others is made as the top of
experiments/dp_fedavg.py says. What is reported comes from docs/experiments/memorization/, where results add themselves; a
regime that is there is not run again, and canaries are the same in every step because a seed draws them.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from tacit.audit.plans import mixed_plan
from tacit.recipe.training import Recipe, load_recipe

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "experiments" / "memorization"
RECIPES = {
    "regimes": "memorization.toml",
    "production": "memorization_production.toml",
    "small": "memorization_small.toml",
}
CANARY_SEED = 1


def planted(base: Recipe, folder: Path) -> Path:
    """The plan of the canaries that [paper.canaries] asks for, in the folder of the runs."""
    from tacit.training.datasets import open_dataset

    path = folder / "canaries.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        data = open_dataset(base)
        settings = {"population": base.privacy.population, "seed": CANARY_SEED, **base.paper["canaries"]}
        mixed_plan(data.words, data.description.name, **settings).save(path)
    return path


def regimes(base: Recipe, options: argparse.Namespace, results: Path) -> bool:
    """Train and attack regimes until the time is nearly up; says whether all are done."""
    from tacit.audit.regimes import compare_regimes

    _, done = compare_regimes(
        base,
        planted(base, options.runs),
        options.runs,
        names=options.only,
        minutes=options.minutes,
        suffixes=options.suffixes,
        results_path=results,
        on_progress=lambda name: print(name, flush=True),
    )
    return done


def production(base: Recipe, options: argparse.Namespace, results: Path) -> bool:
    """Train with synthetic devices, attack, and count how often each canary was seen."""
    from tacit.audit.regimes import run_to_end
    from tacit.audit.run_audit import audit_run

    if results.exists():
        return True
    plan = planted(base, options.runs)
    out = options.runs / "production"
    summary = run_to_end(load_recipe(HERE / RECIPES["production"], [*options.changes, f"audit.plan={plan}"]), out)
    found = audit_run(out, suffixes=options.suffixes, on_progress=lambda doing: print(doing, flush=True))
    kept = {key: summary[key] for key in ("metrics", "baselines", "privacy")}
    results.write_text(json.dumps({"rounds": base.run.rounds, **kept, **found.as_dict()}, indent=1) + "\n")
    return True


def report_regimes(results: dict[str, Any]) -> None:
    """The table of regimes; how many canaries of each setting each memorised, and their median ranks."""
    from tacit.audit.regimes import table_of

    heads, rows = table_of(results)
    print_table([*heads, "seconds"], [[*row, f"{results[row[0]]['seconds']:.0f}"] for row in rows])
    finished = {name: found for name, found in results.items() if "settings" in found}
    settings = list(next(iter(finished.values()))["settings"])
    figures: dict[str, Callable[[dict[str, Any]], str]] = {
        "first among random endings": lambda found: str(found["random_sampling"]),
        "median rank": lambda found: f"{statistics.median(found['ranks']):,.0f}",
    }
    for head, figure in figures.items():
        rows = [[name, *map(figure, found["settings"].values())] for name, found in finished.items()]
        print_table([head, *settings], rows)


def report_production(results: dict[str, Any]) -> None:
    """Production's Tables 3 and 4 in one."""
    seen = {each["setting"]: each for each in results["exposures"]}
    rows = []
    for setting, group in groupby(results["canaries"], key=lambda each: each["setting"]):
        same = list(group)
        ranks = ", ".join(f"{rank:,}" for rank in sorted(each["rank"] for each in same))
        found = sum(each["place"] is not None for each in same)
        rows.append(
            [
                setting,
                f"{seen[setting]['expected']:,.0f}",
                f"{seen[setting]['seen']:,.0f}",
                ranks,
                f"{found} / {len(same)}",
            ]
        )
    heads = ["", "expected to be seen", "seen", f"ranks among {results['suffixes']:,}", "found by beam search"]
    print_table(heads, rows)
    metrics = results["metrics"]
    print(f"top-1 {metrics['papers_top1']:.2%}, perplexity {metrics['perplexity']:.4g}")
    for whose, proven in {"a person": results["privacy"], "a device, at its own rate": results["proven"]}.items():
        epsilon = "infinite" if proven is None or proven["epsilon"] is None else f"{proven['epsilon']:.2f}"
        print(f"epsilon of {whose}: {epsilon}")


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """As Markdown."""
    for row in (heads, ["---"] * len(heads), *rows):
        print("| " + " | ".join(row) + " |")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=RECIPES, default="regimes")
    parser.add_argument("--minutes", type=float, default=8.0, help="begin no regime that would not be done by then")
    parser.add_argument("--only", nargs="*", default=[], help="these regimes, by name")
    parser.add_argument("--runs", type=Path, help="a folder for the plan and the runs (default: runs/NAME)")
    parser.add_argument("--results", type=Path, help="what is done (default: docs/experiments/memorization/TABLE.json)")
    parser.add_argument("--suffixes", type=int, help="random endings (default: 2,000,000; 20,000 on a CPU)")
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a value of the recipe")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    results = options.results or RESULTS / f"{options.table}.json"
    if options.report:
        (report_production if options.table == "production" else report_regimes)(json.loads(results.read_text()))
        return
    base = load_recipe(HERE / RECIPES[options.table], options.changes)
    options.runs = options.runs or Path("runs") / base.name
    results.parent.mkdir(parents=True, exist_ok=True)
    step = production if options.table == "production" else regimes
    print("all done" if step(base, options, results) else "time is up; run again to go on")


if __name__ == "__main__":
    main()
