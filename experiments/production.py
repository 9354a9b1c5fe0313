"""Production's ablations: Tables 6, 7 and 8 and Figure 1, around the setting of Table 1.

    python experiments/production.py --at-once 3 --minutes 8      (again, until it says that all is done)
    python experiments/production.py --report                     (draws Figure 1 and prints the tables)

The store is that of experiments/dp_fedavg.py. The noise on the mean is the paper's σ = 3.2e-5 in every run: z = σ · 500 / S.
"""

from __future__ import annotations

from pathlib import Path

from dp_fedavg import noisy, record
from figures import INK
from grid import Case, Results, main
from page_tables import table

from tacit.plotting import load_pyplot, save_figure

HERE = Path(__file__).parent
RECIPE = HERE / "production.toml"
RESULTS = HERE.parent / "docs" / "experiments" / "production" / "results.jsonl"
SIGMA, COHORT = 3.2e-5, 500
BASE = "table 1"


def server(optimizer: str, rate: float, momentum: float | None = None) -> tuple[str, ...]:
    changes = (f"server.optimizer={optimizer}", f"server.learning_rate={rate}")
    return changes if momentum is None else (*changes, f"server.momentum={momentum}")


def client(batch: int, rate: float) -> tuple[str, ...]:
    return (f"work.batch_size={batch}", f"work.learning_rate={rate}")


def clipped(norm: float) -> tuple[str, ...]:
    return tuple(noisy(SIGMA, norm, COHORT))


# Name → changes and the top-1 recall that the paper prints, in percent. The setting of Table 1 is one row of each table.
VARIANTS: dict[str, tuple[tuple[str, ...], float]] = {
    BASE: ((), 24.15),
    **{
        f"table 8, S {norm:g}": (clipped(norm), printed)
        for norm, printed in ((0.1, 23.78), (0.2, 23.97), (0.5, 24.09), (1.0, 24.12), (1.5, 23.81), (2.0, 23.45))
    },
    **{
        f"table 6, momentum {momentum:g}, rate {rate:g}": (server("momentum", rate, momentum), printed)
        for momentum, rate, printed in ((0.99, 0.5, 24.16), (0.9, 1.0, 23.69), (0.9, 0.5, 23.03))
    },
    **{
        f"table 6, sgd, rate {rate:g}": (server("sgd", rate), printed)
        for rate, printed in ((0.5, 18.49), (0.7, 19.52), (1.0, 20.41))
    },
    **{
        f"table 6, adam, rate {rate:g}": (server("adam", rate), printed)
        for rate, printed in ((1e-5, 4.73), (5e-5, 15.49), (1e-4, 19.78), (2e-4, 21.92), (5e-4, 23.38))
    },
    **{
        f"table 7, batches of {batch}, rate {rate:g}": (client(batch, rate), printed)
        for batch, rate, printed in (
            (5, 0.1, 23.92),
            (5, 0.5, 24.03),
            (10, 0.2, 24.03),
            (10, 0.5, 23.96),
            (20, 0.3, 24.00),
            (20, 0.5, 24.03),
        )
    },
}
CASES = [Case(name, RECIPE, changes) for name, (changes, _) in VARIANTS.items()]


def report(results: Results, folder: Path) -> None:
    """Every run beside the paper's recall, and Figure 1: the share of people clipped, by round and clip."""
    rows = [
        [name, f"{line['metrics']['papers_top1']:.2%}", f"{VARIANTS[name][1]}%"]
        for name, line in results.items()
        if "metrics" in line
    ]
    print(table(["run", "top-1", "paper, Stack Overflow"], rows))
    figure, axes = load_pyplot().subplots(figsize=(6, 3.6), layout="constrained", facecolor="white")
    shown = [name for name in VARIANTS if name in results and (name == BASE or name.startswith("table 8"))]
    for ink, name in zip(INK, shown, strict=False):
        points = [(row[0], 100 * row[1]) for row in results[name].get("diagnostics", []) if row[1] is not None]
        if points:
            axes.plot(*zip(*points, strict=True), color=ink, label=f"S = {results[name]['clip_norm']:g}")
    axes.set(xlabel="round", ylabel="people clipped, %", ylim=(0, 101))
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, folder / "figure_1.png")


if __name__ == "__main__":
    main(__doc__, CASES, RESULTS, report, record=record)
