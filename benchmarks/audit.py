"""Speed of the secret sharer's attacks: the canaries of Production's plan on its preset, untrained. One JSON line a case.

    python benchmarks/audit.py                    2,000,000 random suffixes on an accelerator, 20,000 on a CPU
    python benchmarks/audit.py --suffixes 200000 --chunk 2048

Seconds include drawing the suffixes, laying them out and compiling; `again` is a second attack with everything compiled, and
`laying_out` the part of it that the host spends before the first product. `teraflops` counts the products of the last level of
contexts alone, which are nearly all of the work of a large set. The last line holds ranks by TF32 products, the usual ones,
against ranks by float32 products, among fewer suffixes (a CPU has float32 alone). Exits with an error if the first attack of
the usual size takes longer than 30 s on an accelerator or 120 s on a CPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import jax
import numpy as np

from tacit.audit.plans import device_plan
from tacit.audit.scoring import build_forest
from tacit.audit.secret_sharer import BEAM_WIDTH, COMPARISONS, extraction, random_sampling, random_suffixes
from tacit.data.canaries.plan import choices, word_phrases
from tacit.models.word_lm import build, parameter_count, preset

CANARIES, LENGTH, PREFIX = 27, 5, 2
CHECKED = 200_000  # suffixes, at most, of the comparison of precisions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suffixes", type=int)
    parser.add_argument("--chunk", type=int)
    parser.add_argument("--width", type=int, default=BEAM_WIDTH)
    options = parser.parse_args()
    on_cpu = jax.default_backend() == "cpu"
    suffixes = options.suffixes or (20_000 if on_cpu else COMPARISONS)

    config = preset("production")
    model = build(config, key=jax.random.key(0))
    words = tuple(f"w{i}" for i in range(config.vocabulary))
    phrases = word_phrases(words, length=LENGTH, count=CANARIES, seed=1)
    canaries = device_plan(phrases, {"world": "none", "seed": 0}, seed=1).canaries

    seconds = []
    for seed in (2, 2):
        began = time.perf_counter()
        found = random_sampling(model, canaries, words, prefix=PREFIX, seed=seed, size=suffixes, chunk=options.chunk)
        seconds.append(time.perf_counter() - began)
    began = time.perf_counter()
    build_forest(
        random_suffixes(choices(canaries[0], words, PREFIX), suffixes, np.random.default_rng(2)), chunk=options.chunk
    )
    laying_out = time.perf_counter() - began
    # A context costs the cell's products and the output's: twice its parameters but for the embedding it merely reads.
    work = 2.0 * parameter_count(model) * suffixes * CANARIES * (LENGTH - PREFIX > 1)
    line = {
        "attack": "random sampling",
        "device": jax.devices()[0].device_kind,
        "canaries": CANARIES,
        "suffixes": suffixes,
        "words": LENGTH - PREFIX,
        "seconds": round(seconds[0], 2),
        "again": round(seconds[1], 2),
        "laying_out": round(laying_out, 2),
        "teraflops": round(work / seconds[1] / 1e12, 3),
        "best_rank": min(rank.rank for rank in found),
    }
    print(json.dumps(line), flush=True)

    began = time.perf_counter()
    places = extraction(model, canaries, words, prefix=PREFIX, width=options.width)
    took = time.perf_counter() - began
    print(
        json.dumps(
            {
                "attack": "beam search",
                "width": options.width,
                "seconds": round(took, 2),
                "found": sum(place is not None for place in places),
            }
        ),
        flush=True,
    )
    usual, exact = (
        np.array(
            [
                found.rank
                for found in random_sampling(
                    model, canaries, words, prefix=PREFIX, seed=3, size=min(suffixes, CHECKED), precision=precision
                )
            ]
        )
        for precision in ("tf32", "float32")
    )
    shift = np.abs(usual - exact)
    print(
        json.dumps(
            {
                "check": "ranks by tf32 against float32",
                "suffixes": min(suffixes, CHECKED),
                "same": int((shift == 0).sum()),
                "largest_shift": int(shift.max()),
                "largest_share_of_the_set": round(float(shift.max()) / min(suffixes, CHECKED), 6),
            }
        )
    )
    limit = 120 if on_cpu else 30
    if seconds[0] > limit and options.suffixes is None:
        sys.exit(f"Expected {suffixes} suffixes within {limit} s, took {seconds[0]:.1f} s.")


if __name__ == "__main__":
    main()
