"""DP-FedAvg with the paper's own model and levels: Figures 1 to 6 and 8 to 12, Tables 2 and 3, the penalty of appendix D.

    python experiments/dp_fedavg_paper.py --at-once 3 --minutes 8      (again, until it says that all is done)
    python experiments/dp_fedavg_paper.py --report

The store is that of experiments/dp_fedavg.py; Figures 11 and 12 need two more, with 20,000 and 30,000 words
(--vocabulary-private 20000 --out stores/scotus_20k, and so on); `experiments/steps.py prepare` makes all of them. A σ is the
noise on the mean of a round, as in the paper: z = σ · cohort / S.
"""

from __future__ import annotations

from pathlib import Path

from dp_fedavg import noisy, record
from grid import Case, Results, main
from page_tables import table

HERE = Path(__file__).parent
RECIPE = HERE / "dp_fedavg_paper.toml"
RESULTS = HERE.parent / "docs" / "experiments" / "dp_fedavg" / "paper.jsonl"

UNCLIPPED = ("work.clip_every_step=false",)
PER_LAYER = "privacy.clipping=per_layer"
FEDSGD = (
    "work.kind=fedsgd",
    "work.batch_size=44",
    "work.clip_every_step=false",
    "privacy.cohort=50",
    "run.rounds=3000",
)
# Table 2: σ, S and the accuracy that the paper prints; without noise or clipping 17.62%.
TABLE_2 = {(0.003, 15.0): 17.49, (0.006, 10.0): 17.04, (0.012, 15.0): 16.33}
WITHOUT_NOISE = 17.62


def clipped(norm: float) -> tuple[str, ...]:
    return (f"privacy.clip_norm={norm}",)


def noised(sigma: float, norm: float, cohort: int = 100) -> tuple[str, ...]:
    return tuple(noisy(sigma, norm, cohort))


# The most wanted first.
VARIANTS: dict[str, tuple[str, ...]] = {
    "figure 5, fixed sample, true average": (*UNCLIPPED, "privacy.sampling=fixed"),
    **{f"table 2, sigma {sigma:g}, S {norm:g}": noised(sigma, norm) for sigma, norm in TABLE_2},
    "figure 5, fixed denominator": clipped(20.0),
    "figure 5, clipped denominator": (*clipped(20.0), "privacy.estimator=clipped", "privacy.total_weight=8000.0"),
    **{f"figure 2, S {norm:g}": clipped(norm) for norm in (10.0, 12.6, 15.0)},
    **{f"figure 3, sigma {sigma:g}": noised(sigma, 20.0) for sigma in (0.006, 0.012, 0.024, 0.2)},
    **{f"figure 3, sigma {sigma:g}, per layer": (*noised(sigma, 20.0), PER_LAYER) for sigma in (0.006, 0.012, 0.024)},
    "figure 8, S 10 later": (*noised(0.012, 20.0), "privacy.clip_schedule=[{round=750, clip_norm=10.0}]"),
    "figure 8, S 7.9 later": (*noised(0.012, 20.0), "privacy.clip_schedule=[{round=750, clip_norm=7.9}]"),
    **{f"figure 9, fedsgd, S {norm:g}": (*FEDSGD, *clipped(norm)) for norm in (1.0, 2.0, 20.0)},
    **{f"figure 10, fedsgd, sigma {sigma:g}": (*FEDSGD, *noised(sigma, 20.0, 50)) for sigma in (0.002, 0.006)},
    "figure 10, fedsgd, S 2, sigma 0.002": (*FEDSGD, *noised(0.002, 2.0, 50)),
    **{
        f"figure 6, {cohort} a round": (*UNCLIPPED, "privacy.sampling=fixed", f"privacy.cohort={cohort}")
        for cohort in (10, 30, 300)
    },
    **{f"appendix D, penalty {each:g}": (*clipped(20.0), f"work.update_penalty={each}") for each in (0.001, 0.01)},
    **{
        f"figure 12, {words}k words, sigma 0.012": (*noised(0.012, 20.0), f"data.store=stores/scotus_{words}k")
        for words in (20, 30)
    },
}
CASES = [Case(name, RECIPE, changes) for name, changes in VARIANTS.items()]


def report(results: Results, folder: Path) -> None:
    """Every run, with the paper's accuracy where it prints one."""
    del folder
    printed = {f"table 2, sigma {sigma:g}, S {norm:g}": f"{each}%" for (sigma, norm), each in TABLE_2.items()}
    printed["figure 5, fixed sample, true average"] = f"{WITHOUT_NOISE}%"
    rows = [
        [name, str(line["rounds"]), f"{line['metrics']['papers_top1']:.2%}", printed.get(name, "")]
        for name, line in results.items()
        if "metrics" in line
    ]
    print(table(["run", "rounds", "top-1", "paper, Reddit"], rows))


if __name__ == "__main__":
    main(__doc__, CASES, RESULTS, report, record=record)
