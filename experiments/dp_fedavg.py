"""The figures of DP-FedAvg that nine thousand people can show, as resumable steps.

    tacit data import scotus_advocates_en.jsonl.gz --user user --text sentences \\
        --vocabulary-private 10000 --key-file experiments/people.key --out stores/scotus
    python experiments/dp_fedavg.py --minutes 8        (again, until it says that all is done)
    python experiments/dp_fedavg.py --report           (draws the figures and prints the tables)

Each variant is one run in runs/dp_fedavg; a run that was cut off goes on where it was, and a finished one is not repeated.
What is reported comes from docs/experiments/dp_fedavg/results.json, which every finished run adds itself to.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import tacit
from tacit.errors import DivergedError
from tacit.recipe.training import load_recipe
from tacit.runs.folder import RunFolder, is_run
from tacit.runs.metrics import read_metrics

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "experiments" / "dp_fedavg" / "results.json"


def noisy(sigma: float, clip: float = 0.8, cohort: int = 100) -> list[str]:
    """Noise of standard deviation σ on the mean of a cohort, clipped at S: z = σ · cohort / S."""
    z = sigma * cohort / clip
    return ["privacy.mechanism=gaussian", f"privacy.clip_norm={clip}", f"privacy.noise_multiplier={z!r}"]


def clipped(norm: float) -> list[str]:
    return [f"privacy.clip_norm={norm}"]


PER_LAYER = ["privacy.clipping=per_layer"]
SGD = ["server.optimizer=sgd", "server.learning_rate=1.0"]
FEDSGD = ["work.kind=fedsgd", "work.batch_size=44"]

# Name → changes to experiments/dp_fedavg.toml, the most wanted first.
VARIANTS: dict[str, list[str]] = {
    "unclipped": ["server.learning_rate=0.5"],
    "clip 0.8": clipped(0.8),
    "clip 0.8, noise 3.2e-4": noisy(3.2e-4),
    "clip 0.8, noise 1e-3": noisy(1e-3),
    "clip 0.8, noise 3.2e-3": noisy(3.2e-3),
    "unclipped, server rate 0.7": ["server.learning_rate=0.7"],
    "unclipped, server rate 1": ["server.learning_rate=1.0"],
    "clip 0.8, server rate 2": [*clipped(0.8), "server.learning_rate=2.0"],
    "clip 0.8, noise 3.2e-4, server rate 2": [*noisy(3.2e-4), "server.learning_rate=2.0"],
    "clip 0.8, noise 3.2e-4, server rate 1.5": [*noisy(3.2e-4), "server.learning_rate=1.5"],
    "clip 0.8, noise 3.2e-4, server rate 2.5": [*noisy(3.2e-4), "server.learning_rate=2.5"],
    "clip 0.8, noise 3.2e-4, server rate 2, seed 2": [*noisy(3.2e-4), "server.learning_rate=2.0", "run.seed=2"],
    "clip 0.8, noise 3.2e-4, server rate 2, seed 3": [*noisy(3.2e-4), "server.learning_rate=2.0", "run.seed=3"],
    "clip 0.8, noise 3.2e-4, server rate 1.5, seed 2": [*noisy(3.2e-4), "server.learning_rate=1.5", "run.seed=2"],
    "clip 0.2": clipped(0.2),
    "clip 0.4": clipped(0.4),
    "clip 1.6": clipped(1.6),
    "per layer 0.8": clipped(0.8) + PER_LAYER,
    "per layer 0.8, noise 1e-3": noisy(1e-3) + PER_LAYER,
    "fedsgd, clip 0.8": FEDSGD + clipped(0.8) + ["work.learning_rate=6.0"],
    "fedsgd, clip 0.8, noise 1e-3": FEDSGD + noisy(1e-3) + ["work.learning_rate=6.0"],
    "clip 0.8, float32": [*clipped(0.8), "engine.precision=float32"],
    "clip 0.8, tf32": [*clipped(0.8), "engine.precision=tf32"],
    "clip 0.8, poisson": [*clipped(0.8), "privacy.sampling=poisson"],
    "clip 0.8, poisson, clipped denominator": [
        *clipped(0.8),
        "privacy.sampling=poisson",
        "privacy.estimator=clipped",
        "privacy.total_weight=8000.0",
    ],
    "clip 0.8, server sgd": clipped(0.8) + SGD,
    "clip 0.8, momentum 0.99": [*clipped(0.8), "server.optimizer=momentum", "server.momentum=0.99"],
    "clip 0.8, every step": [*clipped(0.8), "work.clip_every_step=true"],
    "noise 1e-3, S halved at 500": [*noisy(1e-3), "privacy.clip_schedule=[{round=500, clip_norm=0.4}]"],
}


class Say(tacit.Callback):
    """A line an evaluation."""

    def __init__(self, name: str) -> None:
        self._name, self._started = name, time.monotonic()

    def on_warning(self, sentence: str) -> None:
        print(f"{self._name}: {sentence}", flush=True)

    def on_evaluation(self, round: int, metrics: Any) -> None:
        seconds = time.monotonic() - self._started
        print(f"{self._name}: round {round}, top-1 {metrics['papers_top1']:.2%}, {seconds:.0f} s", flush=True)


def step(names: list[str], folder: Path, results_path: Path, minutes: float, changes: list[str]) -> bool:
    """Run variants until the time is nearly up; says whether all are done."""
    from tacit.learning.next_word import head_word_histogram
    from tacit.simulation.training import resume_run, start_run
    from tacit.training.datasets import open_dataset
    from tacit.training.trained import load_trained

    deadline = time.monotonic() + 60 * minutes
    longest = 0.0
    for name in names:
        results = json.loads(results_path.read_text()) if results_path.exists() else {}
        if name in results:
            continue
        if time.monotonic() + longest > deadline:
            return False
        began = time.monotonic()
        out = folder / name.replace(" ", "_").replace(",", "")
        recipe = load_recipe(HERE / "dp_fedavg.toml", VARIANTS[name] + changes)
        record: dict[str, Any] = {
            "changes": VARIANTS[name],
            "rounds": recipe.run.rounds,
            "precision": recipe.engine.precision,
        }
        try:
            record |= resume_run(out, Say(name)) if is_run(out) else start_run(recipe, out, Say(name))
            model = load_trained(out).model
            rows = open_dataset(recipe).held_out[:5_000]
            record["head_words"] = head_word_histogram(model, rows)
        except DivergedError as error:
            record["diverged"] = error.sentence
        record["curve"] = [[m["round"], m["papers_top1"], m["perplexity"]] for m in read_metrics(out / "metrics.jsonl")]
        clip = [
            [d["round"], d["clipped"], *d["norm_quantiles"].values()]
            for d in read_metrics(RunFolder.open(out).diagnostics_path)
        ]
        record["diagnostics"] = clip[:: max(1, len(clip) // 50)]
        record["seconds"] = time.monotonic() - began
        longest = max(longest, record["seconds"])
        results_path.parent.mkdir(parents=True, exist_ok=True)
        results_path.write_text(json.dumps({**results, name: record}))
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0, help="stop starting variants when this is nearly up")
    parser.add_argument("--only", nargs="*", help="these variants, by name")
    parser.add_argument("--runs", type=Path, default=Path("runs/dp_fedavg"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a value in every variant")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if arguments.report:
        from figures import dp_fedavg_report

        dp_fedavg_report(json.loads(RESULTS.read_text()), RESULTS.parent)
    elif step(
        arguments.only or list(VARIANTS), arguments.runs, arguments.results, arguments.minutes, arguments.changes
    ):
        print("all done")
    else:
        print("time is up; run again to go on")


if __name__ == "__main__":
    main()
