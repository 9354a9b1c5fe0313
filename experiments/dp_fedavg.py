"""The figures of DP-FedAvg that nine thousand people can show, as resumable steps.

    tacit data import scotus_advocates_en.jsonl.gz --user user --text sentences \\
        --vocabulary-private 10000 --key-file experiments/people.key --out stores/scotus
    python experiments/dp_fedavg.py --minutes 8        (again, until it says that all is done)
    python experiments/dp_fedavg.py --report           (draws the figures and prints the tables)

Each variant is one run in runs/dp_fedavg; a run that was cut off goes on where it was, and a finished one is not repeated.
What is reported comes from docs/experiments/dp_fedavg/results.json, which every finished run adds itself to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grid import Case, curve_of, main

import tacit
from tacit.recipe.training import Recipe
from tacit.runs.metrics import read_metrics

HERE = Path(__file__).parent
RECIPE = HERE / "dp_fedavg.toml"
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


CASES = [Case(name, RECIPE, tuple(changes)) for name, changes in VARIANTS.items()]


def record(case: Case, recipe: Recipe, run: tacit.Run) -> dict[str, Any]:
    """The run's summary, its curve, what was clipped, and how often frequent words are suggested."""
    from tacit.learning.next_word import head_word_histogram
    from tacit.training.datasets import open_dataset

    found: dict[str, Any] = {
        "changes": list(case.changes),
        "rounds": recipe.run.rounds,
        "precision": recipe.engine.precision,
        **run.summary,
    }
    if run.state == "finished":
        found["head_words"] = head_word_histogram(run.model, open_dataset(recipe).held_out[:5_000])
    clip = [
        [each["round"], each["clipped"], *each["norm_quantiles"].values()]
        for each in read_metrics(run.folder.diagnostics_path)
    ]
    return {**found, "curve": curve_of(run.path), "diagnostics": clip[:: max(1, len(clip) // 50)]}


if __name__ == "__main__":
    from figures import dp_fedavg_report

    main(__doc__, CASES, RESULTS, dp_fedavg_report, record=record)
