"""How long the next word takes from an exported model, on one core.

    python benchmarks/export.py [--presets production gboard-10k gboard-20k gboard-30k] [--seconds 3]

One JSON line a preset, freshly initialised (the numbers in a model do not change its time): one step of ONNX Runtime with one
thread, from a token and a state to three words, their probabilities and the next state; single calls from Python, by the clock
and by the processor's time, which waits for nobody: on a busy machine only the second one is the model's. A keyboard makes one
step a word typed.
"""

from __future__ import annotations

import argparse
import json
import os
import time

import jax
import numpy as np

from tacit.data.users import BOS, FIRST_WORD
from tacit.export.onnx_check import require_agreement, session_of, synthetic_contexts
from tacit.export.onnx_step import onnx_step
from tacit.models.word_lm import PRESETS, build, parameter_count

PRODUCTION = ("production", "gboard-10k", "gboard-20k", "gboard-30k")


def measure(preset: str, seconds: float) -> dict[str, object]:
    """The times of one preset."""
    config = PRESETS[preset]
    model = build(config, key=jax.random.key(1))
    words = [f"w{id}" for id in range(config.vocabulary)]
    content = onnx_step(model, words, begin=BOS, first_word=FIRST_WORD, shown=3, metadata={})
    agreed = require_agreement(content, model, words, contexts=200, seed=1)
    began = time.perf_counter()
    session = session_of(content)
    opened = time.perf_counter() - began
    state = {each.name: np.zeros((1, each.shape[1]), np.float32) for each in session.get_inputs()[1:]}
    tokens = synthetic_contexts(1_000, config.vocabulary, np.random.default_rng(1)).ravel()
    times: list[tuple[float, float]] = []
    stop = time.perf_counter() + seconds
    for token in tokens:
        began, worked = time.perf_counter(), time.thread_time()
        *_, c, r = session.run(None, {"token": token[None], **state})
        times.append((time.perf_counter() - began, time.thread_time() - worked))
        state = {"c": c, "r": r}
        if began > stop:
            break
    by_clock, by_processor = 1e3 * np.array(times[20:]).T  # the first ones warm up
    return {
        "preset": preset,
        "parameters": parameter_count(model),
        "megabytes": round(len(content) / 1e6, 1),
        "steps": len(by_clock),
        "median_ms": round(float(np.median(by_clock)), 3),
        "p99_ms": round(float(np.quantile(by_clock, 0.99)), 3),
        "processor_p99_ms": round(float(np.quantile(by_processor, 0.99)), 3),
        "open_ms": round(1e3 * opened, 1),
        "same_top3": f"{agreed.same} of {agreed.contexts}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", choices=list(PRESETS), default=list(PRODUCTION))
    parser.add_argument("--seconds", type=float, default=3.0, help="at most so long a preset")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core, whatever the runtime would like
    for preset in arguments.presets:
        print(json.dumps(measure(preset, arguments.seconds)), flush=True)


if __name__ == "__main__":
    main()
