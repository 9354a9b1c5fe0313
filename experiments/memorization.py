"""What training memorises, as resumable steps: Memorization's regimes and Production's devices.

    python experiments/memorization.py --minutes 8                 (again, until it says that all is done)
    python experiments/memorization.py --table sizes --minutes 8   (users a round, batches of records, Adam at the paper's rate)
    python experiments/memorization.py --table production_paper_steps
    python experiments/pages.py                                    (writes the tables of the page)

`--table small` is the regimes on a small keyboard world, for two cores. The store of the others is made as the top of
experiments/dp_fedavg.py says. What is reported comes from docs/experiments/memorization/, where results add themselves; a
regime that is there is not run again, and canaries are the same in every step because a seed draws them.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from tacit.audit.plans import mixed_plan
from tacit.audit.regimes import ADAM, NO_NOISE, REGIMES, Regime
from tacit.recipe.training import Recipe, load_recipe

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "experiments" / "memorization"
RECIPES = {
    "regimes": "memorization.toml",
    "sizes": "memorization.toml",
    "small": "memorization_small.toml",
    **dict.fromkeys(("production", "production_paper_steps", "production_as_often"), "memorization_production.toml"),
}
CANARY_SEED = 1
# The paper's local steps and server, with its noise on the mean and a tenth of its users a round.
PAPER_STEPS = (
    "work.batch_size=50",
    "work.learning_rate=0.5",
    "privacy.clip_norm=0.8",
    "privacy.noise_multiplier=0.08",
    "server.momentum=0.99",
    "server.learning_rate=1.0",
    "run.rounds=2000",
    "run.evaluate_every=500",
    "engine.chunk=256",
)
# What is changed in a table's recipe. As often: a device is in as many rounds as the paper's, 1,150 of 2,000.
CHANGES: dict[str, tuple[str, ...]] = {
    "production_paper_steps": PAPER_STEPS,
    "production_as_often": (*PAPER_STEPS, "paper.canaries.device_rate=0.575"),
}


# Unclipped FedAvg with the settings under which it learns as much as the clipped one.
SETTLED = (
    *NO_NOISE,
    "server.optimizer=nesterov",
    "server.momentum=0.9",
    "server.learning_rate=0.5",
    "work.learning_rate=0.25",
)
PEOPLE = 8_807


def sizes() -> list[Regime]:
    """Memorization's Tables 1, 3, 4 and 7: FedAvg by users a round, SGD by records a batch, Adam at the paper's rate."""
    found = []
    for whose, mixed in (("by user", False), ("IID", True)):

        def federated(
            name: str,
            rounds: int,
            users: int,
            changes: tuple[str, ...] = SETTLED,
            *,
            whose: str = whose,
            mixed: bool = mixed,
        ) -> Regime:
            more = (f"run.rounds={rounds}", f"privacy.cohort={users}")
            return Regime(f"{name}, {whose}", mixed=mixed, changes=(*changes, *more), unclipped=True)

        def central(optimizer: Any, batch: int, rate: float, *, whose: str = whose, mixed: bool = mixed) -> Regime:
            changes = ("run.rounds=106", f"work.batch_size={batch}", f"work.learning_rate={rate}")
            return Regime(f"{optimizer} of {batch} records, {whose}", optimizer, mixed=mixed, changes=changes)

        found += [
            federated("FedAvg of 500 users, 1,500 rounds", 1_500, 500),
            federated("FedAvg + Adam of 500 users", 400, 500, (*NO_NOISE, ADAM, "server.learning_rate=0.001")),
            central("adam", 32, 1e-4),
            *(federated(f"FedAvg of {users:,} users, equal rounds", 300, users) for users in (200, 500, 1_000, 2_000)),
            *(
                federated(f"FedAvg of {users:,} users, 12 passes", round(12 * PEOPLE / users), users)
                for users in (200, 500, 1_000, 2_000)
            ),
            *(central("sgd", batch, 0.5 * math.sqrt(batch / 64)) for batch in (32, 128, 256)),
        ]
    return found


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
        regimes=sizes() if options.table == "sizes" else REGIMES,
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
    changes = [*CHANGES.get(options.table, ()), *options.changes, f"audit.plan={plan}"]
    summary = run_to_end(load_recipe(HERE / RECIPES[options.table], changes), out)
    found = audit_run(out, suffixes=options.suffixes, on_progress=lambda doing: print(doing, flush=True))
    kept = {key: summary[key] for key in ("metrics", "baselines", "privacy")}
    results.write_text(json.dumps({"rounds": base.run.rounds, **kept, **found.as_dict()}, indent=1) + "\n")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=RECIPES, default="regimes")
    parser.add_argument("--minutes", type=float, default=8.0, help="begin no regime that would not be done by then")
    parser.add_argument("--only", nargs="*", default=[], help="these regimes, by name")
    parser.add_argument("--runs", type=Path, help="a folder for the plan and the runs (default: runs/NAME)")
    parser.add_argument("--results", type=Path, help="what is done (default: docs/experiments/memorization/TABLE.json)")
    parser.add_argument("--suffixes", type=int, help="random endings (default: 2,000,000; 20,000 on a CPU)")
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a value of the recipe")
    options = parser.parse_args()
    results = options.results or RESULTS / f"{options.table}.json"
    base = load_recipe(HERE / RECIPES[options.table], [*CHANGES.get(options.table, ()), *options.changes])
    options.runs = options.runs or Path("runs") / (
        base.name if options.table in ("regimes", "small") else options.table
    )
    results.parent.mkdir(parents=True, exist_ok=True)
    step = production if options.table.startswith("production") else regimes
    print("all done" if step(base, options, results) else "time is up; run again to go on")


if __name__ == "__main__":
    main()
