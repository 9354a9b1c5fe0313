"""The privacy columns of Gboard's Tables 1 and 2, its Figure 4, and MinS by timer: arithmetic, without training.

    python experiments/gboard_privacy.py

Writes results.json and figure_4.png to docs/experiments/gboard_privacy; `python experiments/pages.py` then writes the page's
tables.

The table of timers comes from what this command writes:

    tacit population --devices 4210000 --report-goal 6500 --rounds 1900 --timer-hours 24 --timer-hours 48 \\
        --timer-hours 144 --json > docs/experiments/gboard_privacy/timers.json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from figures import INK

from tacit.plotting import load_pyplot, save_figure
from tacit.privacy.accounting import tree
from tacit.privacy.accounting.conventions import rounded_rho_epsilon
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian
from tacit.privacy.participation.limits import Gap, most_participations

DOCS = Path(__file__).parent.parent / "docs" / "experiments" / "gboard_privacy"
NOISE, GOAL, DELTA = 7.0, 6_500, 1e-10


@dataclass(frozen=True)
class Row:
    """A model of the paper, with what it prints of it."""

    table: str
    model: str
    rounds: int
    min_separation: int
    max_participation: int
    printed_rho: float
    printed_epsilon: float | None = None

    @property
    def rho(self) -> float:
        return rho_of(NOISE, self.rounds, self.min_separation, self.max_participation)


ROWS = (
    Row("1", "de-DE", 930, 212, 4, 0.48),
    Row("1", "en-GB", 980, 226, 4, 0.48),
    Row("1", "fr-FR", 1280, 180, 5, 0.89),
    Row("1", "it-IT", 1620, 303, 5, 0.71),
    Row("1", "pt-PT", 530, 54, 8, 1.86, 13.69),  # ε of this and of en-US*: appendix C
    Row("1", "es-ES", 1900, 526, 3, 0.35),
    Row("1", "es-ES*", 1750, 349, 4, 0.52),
    Row("1", "en-US", 2800, 371, 7, 1.31),
    Row("1", "en-US*", 1360, 622, 2, 0.25, 4.49),
    Row("1", "pt-BR", 3600, 909, 3, 0.45),
    Row("1", "en-IN", 1290, 170, 6, 1.14),
    Row("1", "es-MX", 1980, 343, 5, 0.64),
    Row("1", "es-AR", 640, 90, 5, 0.84),
    Row("2", "de-DE", 1170, 206, 5, 0.89, 9.01),
    Row("2", "en-GB", 1220, 206, 5, 0.89, 9.01),
    Row("2", "es-ES", 1280, 197, 5, 0.89, 9.01),
    Row("2", "fr-FR", 1300, 290, 4, 0.61, 7.31),
    Row("2", "it-IT", 1360, 188, 5, 0.89, 9.01),
    Row("2", "ru-RU", 870, 327, 3, 0.32, 5.13),
    Row("2", "pt-PT", 430, 54, 7, 0.99, 9.56),
)


def rho_of(noise: float, rounds: int, min_separation: int, max_participation: int) -> float:
    """ρ of one binary tree over all rounds, as the paper runs it."""
    return tree.sensitivity_squared(rounds, Gap(min_separation), max_participation) / (2 * noise**2)


def scaled_rho(goal: float, population: float, rounds: int) -> float:
    """ρ where noise grows with the report goal, and devices rest for as long as the population allows (Figures 4a, 4b)."""
    min_separation = int(population // goal) - 1
    if min_separation < 0:
        return np.inf
    worst = most_participations(rounds, Gap(min_separation), rounds)
    return rho_of(NOISE * goal / GOAL, rounds, min_separation, worst)


def tables() -> list[dict[str, Any]]:
    return [
        asdict(row)
        | {
            "rho": row.rho,
            "epsilon": epsilon_of_gaussian(row.rho, DELTA),
            "epsilon_by_convention": rounded_rho_epsilon(row.rho, DELTA),
        }
        for row in ROWS
    ]


def figure_4(path: Path) -> dict[str, Any]:
    """Draw the three panels; returns their curves."""
    goals, many_rounds = np.geomspace(500, 20_000, 40), np.arange(200, 4_001, 100)
    gaps = np.unique(np.geomspace(20, 1_000, 40).astype(int))
    curves: dict[str, Any] = {"goals": goals.tolist(), "rounds": many_rounds.tolist(), "min_separation": gaps.tolist()}
    curves["by_goal"] = {
        f"{millions:g} million": [scaled_rho(goal, millions * 1e6, 2_000) for goal in goals] for millions in (1, 3, 10)
    }
    curves["by_rounds"] = {
        f"report goal {goal:,}": [scaled_rho(goal, 3e6, int(rounds)) for rounds in many_rounds]
        for goal in (500, 1_500, 6_500)
    }
    curves["by_min_separation"] = {
        f"{rounds:,} rounds": [
            rho_of(NOISE, rounds, int(gap), most_participations(rounds, Gap(int(gap)), rounds)) for gap in gaps
        ]
        for rounds in (1_000, 2_000, 3_000)
    }
    pyplot = load_pyplot()
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.8), layout="constrained", facecolor="white", sharey=True)
    panels = (
        ("by_goal", goals, "Report goal", "2,000 rounds, by population"),
        ("by_rounds", many_rounds, "Rounds", "3 million devices, by report goal"),
        ("by_min_separation", gaps, "MinS", "Report goal 6,500 and noise 7, by rounds"),
    )
    for axis, (name, places, label, title) in zip(axes, panels, strict=True):
        for ink, (curve, values) in zip(INK, curves[name].items(), strict=False):
            axis.plot(places, values, color=ink, label=curve)
        axis.set(xlabel=label, title=title, yscale="log", xscale="linear" if name == "by_rounds" else "log")
        axis.grid(alpha=0.3, which="both")
        axis.legend(frameon=False)
    axes[0].set_ylabel("ρ of zCDP")
    axes[2].scatter(
        [row.min_separation for row in ROWS], [row.printed_rho for row in ROWS], color="black", s=14, zorder=3
    )
    save_figure(figure, path)
    return curves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DOCS, help="the folder for what comes out")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = {"rows": tables(), "figure_4": figure_4(options.out / "figure_4.png")}
    (options.out / "results.json").write_text(json.dumps(found) + "\n")
    print(f"wrote {options.out / 'results.json'}")


if __name__ == "__main__":
    main()
