"""Noise left on prefix sums at equal ρ: trees against BLT and banded strategies, on every row of Gboard's Table 1.

    python benchmarks/prefix_error.py > prefix_error.jsonl

One JSON line a row: for ρ = 1/2, the root mean squared error of the noise on prefix sums in units of the clip, how many
times less each strategy leaves than the tree, what is left of that with 64 bands, and the seconds each search took.
Nothing is cached. Exits with an error if a row falls below 1.6.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from tacit.privacy.noise.strategies import Strategy, Tree
from tacit.privacy.noise.strategies.optimise import optimise_banded, optimise_buffered
from tacit.privacy.participation.limits import Gap

# Language, rounds, MinS and MaxP (Gboard, Table 1); with a star: trained with secure aggregation.
ROWS = [
    ("de-DE", 930, 212, 4),
    ("en-GB", 980, 226, 4),
    ("fr-FR", 1280, 180, 5),
    ("it-IT", 1620, 303, 5),
    ("pt-PT", 530, 54, 8),
    ("es-ES", 1900, 526, 3),
    ("es-ES*", 1750, 349, 4),
    ("en-US", 2800, 371, 7),
    ("en-US*", 1360, 622, 2),
    ("pt-BR", 3600, 909, 3),
    ("en-IN", 1290, 170, 6),
    ("es-MX", 1980, 343, 5),
    ("es-AR", 640, 90, 5),
]


def error(strategy: Strategy, rounds: int, gap: Gap, most: int) -> float:
    """z is sensitivity / √(2ρ), and ρ = 1/2."""
    return strategy.prefix_rmse(rounds) * strategy.sensitivity(rounds, gap, most).squared ** 0.5


def timed(search: Callable[[], Strategy]) -> tuple[Strategy, float]:
    began = time.perf_counter()
    return search(), time.perf_counter() - began


def main() -> None:
    smallest = {"blt": float("inf"), "banded": float("inf")}
    for language, rounds, between, most in ROWS:
        gap = Gap(between)
        tree = error(Tree(), rounds, gap, most)
        blt, blt_seconds = timed(lambda gap=gap, r=rounds, m=most: optimise_buffered(r, gap, m))
        band, band_seconds = timed(lambda gap=gap, r=rounds, m=most: optimise_banded(r, gap, m))
        capped = optimise_banded(rounds, gap, most, most_bands=64)
        ratios = {each.name: tree / error(each, rounds, gap, most) for each in (blt, band)}
        smallest = {name: min(smallest[name], ratio) for name, ratio in ratios.items()}
        line = {
            "row": language,
            "rounds": rounds,
            "min_separation": between,
            "max_participation": most,
            "tree_rmse": round(tree, 3),
            "blt": {
                "times_less": round(ratios["blt"], 3),
                "buffers": len(blt.describe()["theta"]),
                "seconds": round(blt_seconds, 2),
            },
            "banded": {
                "times_less": round(ratios["banded"], 3),
                "bands": len(band.describe()["coefficients"]),
                "seconds": round(band_seconds, 2),
                "times_less_with_64_bands": round(tree / error(capped, rounds, gap, most), 3),
            },
        }
        print(json.dumps(line), flush=True)
    print(json.dumps({"smallest": {name: round(ratio, 3) for name, ratio in smallest.items()}}))
    if min(smallest.values()) < 1.6:
        sys.exit("Expected at least 1.6 times less error than the tree on every row.")


if __name__ == "__main__":
    main()
