"""Speed of pre-training on public text: one JSON line, without reading the text and without compiling.

    python benchmarks/pretraining.py --precision bf16              batches of 128 rows of 20 predictions, Adam
    python benchmarks/pretraining.py --model gboard-30k --rows 64

`product_fraction` is the share of the device's rate of matrix products, measured in the same run at the same precision, that
the unavoidable ones amount to: each parameter that is multiplied takes six operations a token, forward and backward. The input
table of an untied model is not multiplied.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.data.users import FIRST_WORD
from tacit.learning.central import BLOCK_STEPS, Descent
from tacit.learning.next_word import NextWord
from tacit.learning.pretrain import PretrainingSchedule, pretrain
from tacit.models.layers.precision import PRECISIONS, Precision, product
from tacit.models.word_lm import PRESETS, build, parameter_count, preset


def product_rate(precision: Precision) -> float:
    """Operations a second of a large product of two square matrices, the best of several."""
    size = 1_024 if jax.default_backend() == "cpu" else 8_192
    square = jax.random.normal(jax.random.key(0), (size, size), jnp.float32)
    multiply = jax.jit(lambda a, b: product(a, b, precision))
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        jax.block_until_ready(multiply(square, square))
        seconds.append(time.perf_counter() - began)
    return 2 * size**3 / min(seconds)


def measured(arguments: argparse.Namespace) -> dict[str, Any]:
    config = preset(arguments.model)
    model = build(config, key=jax.random.key(0))
    words = np.random.default_rng(0).zipf(1.2, (arguments.blocks * BLOCK_STEPS * arguments.rows, arguments.length + 1))
    rows = (FIRST_WORD + words % (config.vocabulary - FIRST_WORD)).astype(np.int32)
    descent = Descent(NextWord(arguments.precision), "adam", 0.002)
    times: list[float] = []

    def note(done: int, total: int, loss: float) -> None:
        times.append(time.perf_counter())

    pretrain(model, rows, PretrainingSchedule(arguments.rows, epochs=1), descent, on_progress=note)
    seconds = statistics.median(np.diff(times)) / BLOCK_STEPS
    tokens = arguments.rows * arguments.length / seconds
    multiplied = parameter_count(model) - (0 if model.output is None else model.embedding.size)
    return {
        "device": jax.devices()[0].device_kind,
        "model": arguments.model,
        "parameters": parameter_count(model),
        "precision": arguments.precision,
        "rows": arguments.rows,
        "length": arguments.length,
        "ms_a_step": round(1e3 * seconds, 3),
        "tokens_per_second": round(tokens),
        "product_fraction": round(6 * multiplied * tokens / product_rate(arguments.precision), 4),
    }


def main() -> None:
    on_cpu = jax.default_backend() == "cpu"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny" if on_cpu else "benchmark", choices=PRESETS)
    parser.add_argument("--precision", default="float32", choices=PRECISIONS)
    parser.add_argument("--rows", type=int, default=128, help="rows a batch")
    parser.add_argument("--length", type=int, default=20, help="predictions a row")
    parser.add_argument(
        "--blocks", type=int, default=4, help=f"blocks of {BLOCK_STEPS} steps; the first is not counted"
    )
    print(json.dumps(measured(parser.parse_args())))


if __name__ == "__main__":
    main()
