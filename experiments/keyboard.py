"""Who predicts best on the keyboards of people who were not trained on: n-grams, FedAvg, DP-FedAvg or DP-FTRL.

    tacit data import scotus_advocates_en.jsonl.gz --user user --text sentences --max-tokens 400 \\
        --vocabulary-private 2000 --key-file experiments/people.key --out stores/scotus_keyboard
    python experiments/keyboard.py

The four runs are made one after the other in runs/keyboard: a run that was cut off goes on where it was, and a finished one
is not repeated. Then every model is in the keyboard while held-out people type their sentences again, first with the n-gram
model as the baseline, then with FedAvg. What comes out is written to docs/experiments/keyboard and printed as tables.
"""

from __future__ import annotations

import argparse
import json
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dp_fedavg import Say

from tacit.privacy.planning.scaling import scaled_up
from tacit.privacy.record.ledger import read_ledger
from tacit.recipe.reading import apply_change
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.folder import RunFolder, is_run

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs" / "experiments" / "keyboard"
NGRAM_ORDER = 3
DEVICES, COHORT = 6_500, 100

# Noise multipliers of the large run at epsilon 2, delta 1e-8 and 150 rounds: docs/experiments/keyboard.md gives the commands.
BLT_NOISE, POISSON_NOISE = 4.126, 0.7003


def scaled(noise: float) -> str:
    """The same noise on the mean of the small cohort."""
    return f"privacy.noise_multiplier={noise * COHORT / DEVICES!r}"


QUIET = ["privacy.mechanism=none", "privacy.noise_multiplier=0.0"]
# Name → changes to experiments/keyboard.toml.
RUNS: dict[str, list[str]] = {
    "fedavg": [*QUIET, "server.learning_rate=1.0"],  # not clipped either: norms are near 2.5
    "fedavg_clipped": QUIET,
    "dp_fedavg": ["privacy.mechanism=gaussian", "privacy.sampling=poisson", scaled(POISSON_NOISE)],
    "dp_ftrl": [scaled(BLT_NOISE)],
}


def recipe_of(name: str, more: Sequence[str]) -> Recipe:
    """The recipe of a run."""
    tree = tomllib.loads((HERE / "keyboard.toml").read_text())
    if name == "fedavg":
        del tree["privacy"]["clip_norm"]
    if name == "dp_fedavg":  # a sample needs no limits on who may come
        for section in ("privacy", "scale"):
            tree[section].pop("min_separation", None)
            tree[section].pop("max_participation", None)
    for change in [*RUNS[name], *more]:
        apply_change(tree, change)
    return parse_recipe(tree)


def train(folder: Path, more: Sequence[str]) -> dict[str, Any]:
    """Make the runs that are not there yet, or not finished; what each of them was."""
    from tacit.simulation.training import resume_run, start_run

    found = {}
    for name in RUNS:
        out, began = folder / name, time.monotonic()
        recipe = recipe_of(name, more)
        summary = RunFolder.open(out).summary() if is_run(out) else None
        if summary is None:
            summary = resume_run(out, Say(name)) if is_run(out) else start_run(recipe, out, Say(name))
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
        plan = recipe.privacy
        found[name] = {
            "noise_multiplier": plan.noise_multiplier,
            "noise_multiplier_at_scale": None
            if recipe.scale is None or plan.mechanism == "none"
            else scaled_up(plan, recipe.scale).noise_multiplier,
            "clip_norm": plan.clip_norm,
            "server_rate": recipe.server.learning_rate,
            "releases": len(read_ledger(out / "ledger.jsonl").intents),
            **{key: summary[key] for key in ("rounds", "parameters", "metrics")},
        }
    return found


def replay(folder: Path, store: str) -> dict[str, Any]:
    """Everybody against the n-gram model, and the private runs against the run that is not; draws the first."""
    from tacit.keyboard.comparison import NGRAM, NGRAM_WITH_HISTORY, NgramSettings, compare
    from tacit.keyboard.plots import plot_comparison

    runs = [str(folder / name) for name in RUNS]
    began = time.monotonic()
    against_ngram = compare([NGRAM, NGRAM_WITH_HISTORY, *runs], store, ngram=NgramSettings(NGRAM_ORDER))
    print(f"replay: {time.monotonic() - began:.0f} s", flush=True)
    plot_comparison(against_ngram, DOCS / "comparison.png")
    against_fedavg = compare(runs, store)
    return {
        "users": against_ngram.users,
        "words": against_ngram.words,
        "buckets": against_ngram.buckets,
        "against n-grams": [each.as_dict() for each in against_ngram.results],
        "against FedAvg": [each.as_dict() for each in against_fedavg.results],
    }


def table(outcomes: list[dict[str, Any]]) -> str:
    """One row a metric, one column a model: its value, and the change against the first with its interval."""
    lines = [
        "| | " + " | ".join(Path(each["model"]).name for each in outcomes) + " |",
        "|---" * (len(outcomes) + 1) + "|",
    ]
    for metric in outcomes[0]["metrics"]:
        cells = [_cell(metric, each["metrics"][metric], each["changes"].get(metric)) for each in outcomes]
        lines.append(f"| {metric} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(metric: str, value: float | None, change: dict[str, float | None] | None) -> str:
    if value is None:
        return "-"
    shown = f"{value:.2f}" if metric == "words per minute" else f"{value:.2%}"
    if change is None or change["relative"] is None:
        return shown
    relative, low, high = (100 * (change[key] or 0.0) for key in ("relative", "low", "high"))
    return f"{shown}, {relative:+.1f}% ({low:.1f}, {high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/keyboard"))
    parser.add_argument("--store", default="stores/scotus_keyboard", help="where the corpus lies")
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a value in every run")
    arguments = parser.parse_args()
    DOCS.mkdir(parents=True, exist_ok=True)
    results = {"runs": train(arguments.runs, [f"data.store={json.dumps(arguments.store)}", *arguments.changes])}
    results |= replay(arguments.runs, arguments.store)
    (DOCS / "results.json").write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    for baseline in ("against n-grams", "against FedAvg"):
        print(f"\n{table(results[baseline])}")


if __name__ == "__main__":
    main()
