"""What the scripts of experiments/ share: cases of a sweep, a results file to which each run adds itself, a command line.

A script lists its cases and calls `main`. `tacit.sweep` runs them; here is only what is kept of them. Results are lines of JSON
(.jsonl), or one JSON object by the names of cases (.json). In lines, a run adds one at every evaluation, and the last line of a
name counts: a run that was cut off leaves its curve up to there. A case that is finished in the results is not run again,
wherever its folder is.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tacit
from tacit.privacy.record.ledger import read_ledger
from tacit.recipe.target import at_epsilon
from tacit.recipe.training import Recipe, load_recipe
from tacit.runs.metrics import read_metrics

Results = dict[str, Any]
DONE = "all done"


@dataclass(frozen=True)
class Case:
    """A run: its name, a recipe, what is changed in it, and the epsilon that its noise is made for, if any.

    `base` is the name of the object that it belongs to in results of one JSON object, if they have several.
    """

    name: str
    recipe: Path
    changes: tuple[str, ...] = ()
    epsilon: float | None = None
    base: str | None = None

    def load(self, more: Sequence[str] = ()) -> Recipe:
        recipe = load_recipe(self.recipe, [*self.changes, *more])
        return recipe if self.epsilon is None else at_epsilon(recipe, self.epsilon).recipe

    @property
    def label(self) -> str:
        """The name with that of its base."""
        return self.name if self.base is None else f"{self.base}, {self.name}"

    @property
    def folder(self) -> str:
        """The label without spaces and commas, which is the name of the run's folder."""
        return self.label.replace(" ", "_").replace(",", "")


# What is kept of a run that has ended: of a case, its recipe and its run.
Record = Callable[[Case, Recipe, tacit.Run], dict[str, Any]]


def read_results(path: Path) -> Results:
    """The results by name; of lines, the last one of each name, without one that was cut off."""
    text = path.read_text() if path.exists() else ""
    if path.suffix == ".json":
        found: Results = json.loads(text or "{}")
        return found
    found = {}
    for line in text.splitlines():
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


def add_to_object(path: Path, name: str, record: dict[str, Any], base: str | None = None) -> None:
    """Add a record to results of one JSON object; several processes may do so one after another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    results = read_results(path)
    within = results if base is None else results.setdefault(base, {})
    within[name] = record
    path.write_text(json.dumps(results, indent=1) + "\n")


def in_turn(names: Iterable[str], results: Path, make: Callable[[str], dict[str, Any]], minutes: float) -> bool:
    """Make the record of each name that the results lack; says whether all are there.

    For what is not one run of a recipe, such as an inspection. Nothing is begun that would take longer than there is time left,
    by the longest that there has been.
    """
    deadline, longest = time.monotonic() + 60 * minutes, 0.0
    for name in names:
        if name in read_results(results):
            continue
        if time.monotonic() + longest > deadline:
            return False
        began = time.monotonic()
        record = make(name)
        seconds = time.monotonic() - began
        longest = max(longest, seconds)
        record["seconds"] = round(seconds, 1)
        if results.suffix == ".jsonl":
            add_line(results, {"name": name, **record})
        else:
            add_to_object(results, name, record)
        print(f"{name}: {seconds:.0f} s", flush=True)
    return True


def say(done: bool) -> None:
    """The last line that a script prints."""
    print(DONE if done else "not all done; run again to go on", flush=True)


def is_finished(results: Results, case: Case) -> bool:
    """Whether the results have this case; of lines, its last one."""
    found = (results if case.base is None else results.get(case.base, {})).get(case.name)
    return found is not None and bool(found.get("finished", True))


def curve_of(run: Path, *, perplexity: bool = True) -> list[list[float]]:
    """Round, top-1 and perplexity at each evaluation."""
    path = run / "metrics.jsonl"
    names = ("round", "papers_top1", *(("perplexity",) if perplexity else ()))
    return [[record[name] for name in names] for record in (read_metrics(path) if path.exists() else [])]


def record_of(case: Case, recipe: Recipe, run: tacit.Run) -> dict[str, Any]:
    """What most scripts keep of a run."""
    kept = {key: run.summary[key] for key in ("metrics", "baselines", "privacy", "at_scale") if key in run.summary}
    clips = [
        [intent.round, intent.blocks["update"]["bound"]] for intent in read_ledger(run.path / "ledger.jsonl").intents
    ]
    return {**kept, "curve": curve_of(run.path), "clips": clips[:: max(1, len(clips) // 40)]}


class Recorder(tacit.SweepCallback):
    """Prints a line at every evaluation, and adds to the results what a run is, at its end and, of lines, on its way there."""

    def __init__(
        self, cases: dict[str, tuple[Case, Recipe]], runs: Path, options: argparse.Namespace, record: Record
    ) -> None:
        self._cases, self._runs, self._options, self._record = cases, runs, options, record
        self._began: dict[str, float] = {}

    def on_begin(self, case: str, number: int, cases: int) -> None:
        self._began[case] = time.monotonic()

    def on_warning(self, case: str, sentence: str) -> None:
        print(f"{case}: {sentence}", flush=True)

    def on_evaluation(self, case: str, round: int, metrics: Any) -> None:
        seconds = self._seconds(case) or 0.0
        if self._options.results.suffix == ".jsonl":
            curve = [point for point in curve_of(self._runs / case) if point[0] < round]
            curve.append([round, metrics["papers_top1"], metrics["perplexity"]])
            add_line(
                self._options.results, {**self._settings(case), "finished": False, "seconds": seconds, "curve": curve}
            )
        print(f"{case}: round {round}, top-1 {metrics['papers_top1']:.2%}, {seconds:.0f} s", flush=True)

    def on_end(self, case: str, result: tacit.CaseResult) -> None:
        if result.state not in ("finished", "diverged"):
            print(f"{case}: {result.problem or result.state}", flush=True)
            return
        asked, recipe = self._cases[case]
        record = self._record(asked, recipe, tacit.open_run(self._runs / case))
        if result.state == "diverged":
            record["diverged"] = result.problem
        record["seconds"] = self._seconds(case)
        path = self._options.results
        if path.suffix == ".jsonl":
            add_line(path, {**self._settings(case), **record, "finished": True})
        else:
            add_to_object(path, asked.name, record, asked.base)
        print(f"{case}: done", flush=True)

    def complete(self, results: Iterable[tacit.CaseResult]) -> None:
        """Add the cases that were done already, and that the results do not have."""
        for result in results:
            if (
                result.name in self._cases
                and result.name not in self._began
                and result.state in ("finished", "diverged")
            ):
                self.on_end(result.name, result)

    def _seconds(self, case: str) -> float | None:
        """How long this attempt has taken; None if the case was done before."""
        return float(f"{time.monotonic() - self._began[case]:.1f}") if case in self._began else None

    def _settings(self, case: str) -> dict[str, Any]:
        asked, recipe = self._cases[case]
        plan = recipe.privacy
        return {
            "name": asked.name,
            "recipe": asked.recipe.name,
            "changes": [*asked.changes, *self._options.changes],
            "rounds": recipe.run.rounds,
            "mechanism": plan.mechanism,
            "population": plan.population,
            "cohort": plan.cohort,
            "clip_norm": plan.clip_norm,
            "noise_multiplier": plan.noise_multiplier,
            "seed": recipe.run.seed,
        }


def main(
    doc: str | None,
    cases: Iterable[Case],
    results: Path,
    report: Callable[[Results, Path], None],
    arguments: Sequence[str] | None = None,
    *,
    record: Record = record_of,
) -> None:
    """The command line of a grid."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="the cases whose names begin with one of these")
    parser.add_argument("--minutes", type=float, default=8.0, help="begin no run after this time")
    parser.add_argument("--at-once", type=int, default=1, help="runs at a time, each in a process of its own")
    parser.add_argument("--runs", type=Path, default=Path("runs") / results.parent.name, help="a folder for the runs")
    parser.add_argument("--results", type=Path, default=results, help="the file that the results are added to")
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a value in every run")
    parser.add_argument("--report", action="store_true", help="draw the figures and print the tables")
    options = parser.parse_args(arguments)
    if options.report:
        report(read_results(options.results), options.results.parent)
        return
    chosen = [case for case in cases if not options.only or case.label.startswith(tuple(options.only))]
    if not chosen:
        parser.error(f"no case begins with {' or '.join(options.only)}")
    known = read_results(options.results)
    left = [case for case in chosen if not is_finished(known, case)]
    if left:
        loaded = {case.folder: (case, case.load(options.changes)) for case in left}
        recorder = Recorder(loaded, options.runs, options, record)
        with suppress(tacit.StopRequested):
            sweep = tacit.sweep(
                [tacit.SweepCase(name, recipe) for name, (_, recipe) in loaded.items()],
                out=options.runs,
                at_once=options.at_once,
                minutes=options.minutes,
                add=True,
                callback=recorder,
            )
            recorder.complete(sweep.results())
    known = read_results(options.results)
    done = all(is_finished(known, case) for case in chosen)
    say(done)
