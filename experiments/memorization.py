"""What training regimes memorise, as resumable steps: Memorization's comparison, sized for a small machine.

    python experiments/memorization.py --minutes 8        (again, until it says that all is done)
    python experiments/memorization.py --report           (prints the tables)

Each regime is trained with the same planted canaries and attacked; see `tacit audit experiment`, which this calls. What is
reported comes from docs/experiments/memorization/results.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from tacit.audit.plans import mixed_plan
from tacit.recipe import load_recipe

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "experiments" / "memorization" / "results.json"
CANARIES, EXPECTED_SHARERS = 3, (1.0, 4.0, 16.0)  # a setting; the paper has 10, shared by 8, 24 and 78 of 392,000


def step(folder: Path, minutes: float, changes: list[str], only: list[str], suffixes: int | None) -> bool:
    """Train and attack regimes until the time is nearly up; says whether all are done."""
    from tacit.simulation.datasets import open_dataset
    from tacit.simulation.regimes import compare_regimes

    base = load_recipe(HERE / "memorization.toml", changes)
    folder.mkdir(parents=True, exist_ok=True)
    plan = folder / "canaries.json"
    if not plan.exists():
        data = open_dataset(base)
        settings = {"users": len(data.train), "seed": 1, "sharers": CANARIES, "expected_sharers": EXPECTED_SHARERS}
        mixed_plan(data.words, data.description, **settings).save(plan)
    _, done = compare_regimes(
        base,
        plan,
        folder,
        names=only,
        minutes=minutes,
        suffixes=suffixes,
        told=lambda name: print(name, flush=True),
    )
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / "results.json", RESULTS)
    return done


def report() -> None:
    """Print the table of regimes, and how many canaries of each setting were memorised."""
    from tacit.simulation.regimes import table_of

    results = json.loads(RESULTS.read_text())
    heads, rows = table_of(results)
    print("\n".join("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows)))
    finished = {name: found for name, found in results.items() if "settings" in found}
    settings = list(next(iter(finished.values()))["settings"])
    print("\n| median rank | " + " | ".join(settings) + " |\n|" + "---|" * (1 + len(settings)))
    for name, found in finished.items():
        ranks = [each["ranks"] for each in found["settings"].values()]
        print(f"| {name} | " + " | ".join(f"{each[len(each) // 2]:,}" for each in ranks) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0, help="begin no regime that would not be done by then")
    parser.add_argument("--only", nargs="*", default=[], help="these regimes, by name")
    parser.add_argument("--runs", type=Path, default=Path("runs/memorization"))
    parser.add_argument("--suffixes", type=int)
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a value in every regime")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if arguments.report:
        report()
    elif step(arguments.runs, arguments.minutes, arguments.changes, arguments.only, arguments.suffixes):
        print("all done")
    else:
        print("time is up; run again to go on")


if __name__ == "__main__":
    main()
