"""Noise on the sum of all updates at one guarantee: fresh noise on Poisson cohorts against banded noise on cyclic ones.

    python benchmarks/cyclic_noise.py > cyclic_noise.md

Nothing is trained: noise is calibrated for a population of 8,800 people at δ = 1e-5, and two figures follow from it, both in
units of clip / population. The noise on the mean of one round is z · population / cohort. The root mean square over rounds of
the noise on the sum of all means so far is the noise on the mean times the strategy's prefix error. A cell has both. The
smallest prefix error of a cohort is in bold. Cohorts are expected ones; with b bands, one of b groups has its turn, so a
cohort is at most population / b.
"""

from __future__ import annotations

import argparse
from functools import cache

import tacit

POPULATION, DELTA = 8_800, 1e-5
COHORTS = (8_400, 4_200, 2_100, 1_050, 525, 260)
BANDS = (1, 2, 4, 8)


@cache
def figures(bands: int, cohort: int, rounds: int, epsilon: float) -> tuple[float, float]:
    """The noise on the mean of a round, and on the sum of all means so far, in units of clip / population."""
    # One band is fresh noise on a Poisson sample, to the last digit of epsilon.
    plan = tacit.calibrate(
        epsilon=epsilon,
        rounds=rounds,
        mechanism="banded",
        sampling="cyclic_poisson",
        bands=bands,
        population=POPULATION,
        cohort=cohort,
        clip_norm=1.0,
        delta=DELTA,
    )
    strategy = plan.build_strategy(rounds)
    assert strategy is not None
    on_the_mean = plan.noise_multiplier * POPULATION / cohort
    return on_the_mean, on_the_mean * strategy.prefix_rmse(rounds)


def table(rounds: int, epsilons: list[float]) -> str:
    """Markdown, a line for each cohort and number of bands."""
    head = f"| {rounds} rounds | " + " | ".join(f"ε = {epsilon:g}" for epsilon in epsilons) + " |"
    lines = [head, "|---|" + "---|" * len(epsilons)]
    for cohort in COHORTS:
        possible = [bands for bands in BANDS if bands * cohort <= POPULATION]
        for bands in possible:
            cells = []
            for epsilon in epsilons:
                mean, total = figures(bands, cohort, rounds, epsilon)
                least = min(figures(each, cohort, rounds, epsilon)[1] for each in possible)
                shown = f"**{total:.1f}**" if total == least and len(possible) > 1 else f"{total:.1f}"
                cells.append(f"{mean:.2f}, {shown}")
            kind = "fresh" if bands == 1 else f"{bands} bands"
            lines.append(f"| {cohort:,} people, {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, nargs="+", default=[60, 120, 240])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.0, 4.0, 8.0])
    chosen = parser.parse_args()
    for rounds in chosen.rounds:
        print(table(rounds, chosen.epsilon), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
