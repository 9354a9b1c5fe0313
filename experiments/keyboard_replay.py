"""Held-out people type their sentences again with each model of experiments/keyboard.py, and with n-grams.

    python experiments/keyboard_replay.py [--users 100]
    python experiments/keyboard_replay.py --report

A run that is not there yet is left out. Writes docs/experiments/keyboard/replay.json and comparison.png, and prints tables.
Rows are scored by the runs themselves and by experiments/real_epsilon_ngrams.py: a row holds up to 20 words, begins in the
middle of a sentence where the sentence is longer, and each model reads it from an empty state. In a replay each sentence is
read whole.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from corpora import RUNS as REAL_EPSILON_RUNS
from grid import Results, read_results
from keyboard import CASES, CORPUS, RESULTS, RUNS

from tacit.runs.finding import is_run
from tacit.runs.folder import RunFolder

DOCS = RESULTS.parent
ORDERS = (3, 5)
PRIVATE = ("scotus-eps8", "scotus-eps4")


def finished_runs(folder: Path) -> list[str]:
    """The folders of the runs that are there and finished, the private ones last."""
    paths = [folder / case.name for case in CASES] + [REAL_EPSILON_RUNS / name for name in PRIVATE]
    return [str(path) for path in paths if is_run(path) and RunFolder.open(path).summary() is not None]


def replayed(runs: list[str], docs: Path, users: int | None) -> dict[str, Any]:
    """Every run, and the n-grams of public text, against the n-grams of everybody, by the order of the n-grams."""
    from tacit.keyboard.comparison import NGRAM, NGRAM_WITH_HISTORY, NgramSettings, compare
    from tacit.keyboard.plots import plot_comparison

    found: dict[str, Any] = {}
    for order in ORDERS:
        began, saved = time.monotonic(), docs / f"public-{order}.npz"
        public = NgramSettings(order, CORPUS.public_store, is_public=True, save=saved)
        # Counting public n-grams and counting everybody's are two comparisons: one has one set of n-grams.
        compare([NGRAM, runs[0]], str(CORPUS.store), held_out=2, buckets=2, ngram=public)
        models = [NGRAM, NGRAM_WITH_HISTORY, str(saved), *(runs if order == ORDERS[0] else runs[:1])]
        compared = compare(models, str(CORPUS.store), held_out=users, ngram=NgramSettings(order))
        saved.unlink()
        if order == ORDERS[0]:
            plot_comparison(compared, docs / "comparison.png")
        found[f"order {order}"] = {
            "users": compared.users,
            "words": compared.words,
            "buckets": compared.buckets,
            "models": [each.as_dict() for each in compared.results],
        }
        print(f"order {order}: {time.monotonic() - began:.0f} s", flush=True)
    return found


def table(outcomes: list[dict[str, Any]]) -> str:
    """One row a model, one column a metric: its value, and the change against the first with its interval."""
    metrics = list(outcomes[0]["metrics"])
    lines = ["| | " + " | ".join(metrics) + " |", "|---" * (len(metrics) + 1) + "|"]
    for each in outcomes:
        cells = [_cell(metric, each["metrics"][metric], each["changes"].get(metric)) for metric in metrics]
        lines.append(f"| {Path(each['model']).name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(metric: str, value: float | None, change: dict[str, float | None] | None) -> str:
    if value is None:
        return "-"
    shown = f"{value:.2f}" if metric == "words per minute" else f"{value:.2%}"
    if change is None or change["relative"] is None:
        return shown
    relative, low, high = (100 * (change[key] or 0.0) for key in ("relative", "low", "high"))
    return f"{shown}, {relative:+.1f}% ({low:.1f}, {high:.1f})"


def print_runs(results: Results, docs: Path) -> None:
    """What each run reached on rows, and what the larger run would cost."""
    print("| run | rounds | noise multiplier | top-1 on a keyboard | papers' metric | ε at scale |")
    print("|---|---|---|---|---|---|")
    for name, line in results.items():
        if "metrics" not in line:
            continue
        metrics, scale = line["metrics"], line.get("at_scale", {}).get("privacy", {}).get("epsilon")
        cost = "∞" if scale is None else f"{scale:.2f}"
        noise = f"{line['noise_multiplier']:.4f}"
        accuracy = f"{metrics['top1']:.2%} | {metrics['papers_top1']:.2%}"
        print(f"| {name} | {line['rounds']:,} | {noise} | {accuracy} | {cost} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=RUNS, help="the folder with the runs")
    parser.add_argument("--users", type=int, default=None, help="replay at most so many held-out people")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder for what comes out")
    parser.add_argument("--report", action="store_true", help="print the tables of what was recorded")
    options = parser.parse_args()
    path = options.docs / "replay.json"
    if not options.report:
        runs = finished_runs(options.runs)
        if not runs:
            parser.error(f"there is no finished run in {options.runs}; experiments/keyboard.py makes them")
        path.write_text(json.dumps(replayed(runs, options.docs, options.users), indent=1, allow_nan=False) + "\n")
    print_runs(read_results(options.docs / RESULTS.name), options.docs)
    for order, found in json.loads(path.read_text()).items():
        print(f"\n{order}: {found['words']:,} words of {found['users']} people\n\n{table(found['models'])}")


if __name__ == "__main__":
    main()
