"""A grid of runs: named variants of recipes, several at a time if you like, one line of results each.

A script lists its cases and calls `main`. The lines of a results file are JSON objects; a run adds a line at every evaluation,
and the last line of a name counts. A run that was cut off leaves the curve up to there and goes on where it was, if its folder
is still there; a finished run is not repeated.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tacit
from tacit.errors import DivergedError
from tacit.privacy.record.ledger import read_ledger
from tacit.recipe.target import at_epsilon
from tacit.recipe.training import Recipe, load_recipe
from tacit.runs.folder import is_run
from tacit.runs.metrics import read_metrics

Results = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A run: a name without spaces, a recipe, what is changed in it, and the epsilon that its noise is made for, if any."""

    name: str
    recipe: Path
    changes: tuple[str, ...] = ()
    epsilon: float | None = None

    def load(self, more: Sequence[str] = ()) -> Recipe:
        recipe = load_recipe(self.recipe, [*self.changes, *more])
        return recipe if self.epsilon is None else at_epsilon(recipe, self.epsilon).recipe


def read_results(path: Path) -> Results:
    """The last line of each name; a line that was cut off is left out."""
    found: Results = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        found[record["name"]] = record
    return found


def add_line(path: Path, record: dict[str, Any]) -> None:
    """Append a line; several processes may do so at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(record) + "\n")


class Recorder(tacit.Callback):
    """Prints a line and adds one to the results at every evaluation."""

    def __init__(self, path: Path, record: dict[str, Any], curve: list[list[float]]) -> None:
        self._path, self._record, self._curve, self._began = path, record, curve, time.monotonic()

    def on_warning(self, sentence: str) -> None:
        print(f"{self._record['name']}: {sentence}", flush=True)

    def on_evaluation(self, round: int, metrics: Any) -> None:
        seconds = time.monotonic() - self._began
        self._curve.append([round, metrics["papers_top1"], metrics["perplexity"]])
        add_line(self._path, {**self._record, "finished": False, "seconds": round_(seconds), "curve": self._curve})
        print(f"{self._record['name']}: round {round}, top-1 {metrics['papers_top1']:.2%}, {seconds:.0f} s", flush=True)


def round_(seconds: float) -> float:
    """Seconds with one decimal."""
    return float(f"{seconds:.1f}")


def run_case(case: Case, runs: Path, results: Path, more: Sequence[str] = ()) -> None:
    """Run the case, or go on with it, and add its line to the results."""
    from tacit.simulation.training import resume_run, start_run

    recipe, out, began = case.load(more), runs / case.name, time.monotonic()
    plan = recipe.privacy
    record: dict[str, Any] = {
        "name": case.name,
        "recipe": case.recipe.name,
        "changes": [*case.changes, *more],
        "rounds": recipe.run.rounds,
        "mechanism": plan.mechanism,
        "population": plan.population,
        "cohort": plan.cohort,
        "clip_norm": plan.clip_norm,
        "noise_multiplier": plan.noise_multiplier,
        "seed": recipe.run.seed,
    }
    curve = [[m["round"], m["papers_top1"], m["perplexity"]] for m in _metrics(out)]
    recorder = Recorder(results, record, curve)
    try:
        summary = resume_run(out, recorder) if is_run(out) else start_run(recipe, out, recorder)
        record |= {key: summary[key] for key in ("metrics", "baselines", "privacy", "at_scale") if key in summary}
    except DivergedError as error:
        record["diverged"] = error.sentence
    record["curve"] = [[m["round"], m["papers_top1"], m["perplexity"]] for m in _metrics(out)]
    clips = [[intent.round, intent.blocks["update"]["bound"]] for intent in read_ledger(out / "ledger.jsonl").intents]
    record["clips"] = clips[:: max(1, len(clips) // 40)]
    seconds = round_(time.monotonic() - began)
    add_line(results, {**record, "finished": True, "seconds": seconds})
    print(f"{case.name}: done in {seconds:.0f} s", flush=True)


def _metrics(run: Path) -> list[dict[str, Any]]:
    return read_metrics(run / "metrics.jsonl") if (run / "metrics.jsonl").exists() else []


def main(
    doc: str | None,
    cases: Iterable[Case],
    results: Path,
    report: Callable[[Results, Path], None],
    arguments: Sequence[str] | None = None,
) -> None:
    """The command line of a grid."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="the cases whose names begin with one of these")
    parser.add_argument("--minutes", type=float, default=8.0, help="begin no run after this time")
    parser.add_argument("--at-once", type=int, default=1, help="runs at a time, each in a process of its own")
    parser.add_argument("--runs", type=Path, default=Path("runs") / results.parent.name, help="a folder for the runs")
    parser.add_argument("--results", type=Path, default=results, help="the file that gets the lines")
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a value in every run")
    parser.add_argument("--report", action="store_true", help="draw the figures and print the tables")
    options = parser.parse_args(arguments)
    if options.report:
        report(read_results(options.results), options.results.parent)
        return
    chosen = [case for case in cases if not options.only or case.name.startswith(tuple(options.only))]
    if not chosen:
        parser.error(f"no case begins with {' or '.join(options.only)}")
    deadline = time.monotonic() + 60 * options.minutes

    def run(case: Case) -> bool:
        """Whether the case is done."""
        if read_results(options.results).get(case.name, {}).get("finished", False):
            return True
        if time.monotonic() > deadline:
            return False
        if options.at_once == 1:
            run_case(case, options.runs, options.results, options.changes)
            return True
        changes = [word for change in options.changes for word in ("--set", change)]
        places = ["--runs", str(options.runs), "--results", str(options.results)]
        command = [sys.executable, sys.argv[0], "--only", case.name, *places, *changes]
        return subprocess.run(command, check=False).returncode == 0

    if options.at_once == 1:
        done = list(map(run, chosen))
    else:
        with ThreadPoolExecutor(options.at_once) as pool:
            done = list(pool.map(run, chosen))
    print("all done" if all(done) else "not all done; run again to go on", flush=True)
