"""Speed of whole rounds: gather, local steps, clip, sum, noise, server step. One JSON line a case.

    make bench                                 the cases that suit this machine
    python benchmarks/rounds.py --cohort 1024 --chunk 512 --precision bf16
    python benchmarks/rounds.py --cohort 512 --precision bf16 --model gboard-30k --rows 8 --length 20

The workload: vocabulary 10,000, the benchmark model (1.14M parameters), 1,600 tokens a user in 20 batches of 8 rows of 10,
local rate 0.5, clip, Gaussian noise, server momentum. `--model` takes another preset with its own vocabulary, or `transformer`,
a small one of 10,000 words (0.74M parameters), which JAX differentiates, in float32.

`bandwidth_fraction` is the share of the device's copy bandwidth, measured in the same run, that the unavoidable traffic amounts
to: each local step reads and writes each user's parameters.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.data.users import FIRST_WORD, Examples, Names, names_of_numbers
from tacit.learning.batches import TextBatches
from tacit.learning.next_word import NextWord
from tacit.learning.server import Server, build_optimizer
from tacit.learning.work import FedAvg, LocalWork
from tacit.models import transformer
from tacit.models.word_lm import PRESETS, build, parameter_count, preset
from tacit.privacy.gate.sums import ClipThresholds
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.plan import PrivacyPlan
from tacit.simulation.batched import BatchedUsers
from tacit.simulation.cohorts import CohortStream
from tacit.simulation.placement import suitable_spread, use_every_core

TOKENS, LENGTH, ROWS = 1_600, 10, 8
VOCABULARY = 10_000
TRANSFORMER = "transformer"


class ZipfUsers:
    """Any number of users, each with one long sentence of Zipf-distributed words, sliced from a shared tape."""

    def __init__(self, users: int, vocabulary: int = VOCABULARY, tokens: int = TOKENS) -> None:
        self._users, self._tokens = users, tokens
        ranks = np.random.default_rng(0).zipf(1.2, 1 << 20)
        self._tape = (FIRST_WORD + ranks % (vocabulary - FIRST_WORD)).astype(np.uint16)

    def __len__(self) -> int:
        return self._users

    def names(self, users: NDArray[np.int64]) -> Names:
        return names_of_numbers(users)

    def gather(self, users: NDArray[np.int64]) -> Examples:
        starts = users * 7919 % (len(self._tape) - self._tokens)
        items = self._tape[
            starts[:, None] + np.arange(self._tokens - 1)
        ].ravel()  # with bos and eos: as many predictions
        offsets = np.arange(len(users) + 1, dtype=np.int64)
        return Examples(items, offsets * (self._tokens - 1), offsets)


def copy_bandwidth() -> float:
    """Bytes read and written a second by a device-to-device copy, the best of several."""
    on_cpu = jax.default_backend() == "cpu"
    source = jnp.arange((1 << 26) if on_cpu else (1 << 29), dtype=jnp.float32)
    copy = jax.jit(lambda x: x + 1)
    return 2 * source.nbytes / min(_seconds(lambda: copy(source)) for _ in range(6))


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def case(
    name: str,
    bandwidth: float,
    *,
    cohort: int,
    users: int = 100_000,
    chunk: int | None = None,
    precision: str = "float32",
    rounds: int = 4,
    model: str = "benchmark",
    rows: int = ROWS,
    length: int = LENGTH,
) -> dict[str, Any]:
    """Train `rounds` rounds after a warm-up and report the median round."""
    plan = PrivacyPlan(
        population=users, cohort=cohort, sampling="fixed", clip_norm=0.8, noise_multiplier=1.0, delta=0.1 / users
    )
    model_name, shape = model, TextBatches("windows", length, rows, TOKENS // (length * rows))
    vocabulary = VOCABULARY if model == TRANSFORMER else preset(model).vocabulary
    model = built(model)
    parameters = parameter_count(model)
    server = Server.build(build_optimizer("momentum", 1.0, 0.9), plan.denominator)
    mechanism, state, noise = plan.build_mechanism(rounds, None), server.init(model), ()
    spread = suitable_spread(parameters, cohort, chunk)
    engine = BatchedUsers(
        ZipfUsers(users, vocabulary),
        LocalWork(FedAvg(learning_rate=0.5), NextWord(precision)),
        plan,
        shape,
        spread,
    )
    names = names_of_numbers(np.arange(users))
    stream = CohortStream(
        plan.build_sampler(), Randomness.from_seed(0), names, engine.prepare, start=0, stop=rounds + 1
    )
    seconds, last = [], None
    for each in _timed(iter(stream)):
        last, bounded = each[0], engine.collect(model, each[1], ClipThresholds(0.8))[0]
        release, noise = mechanism.release(bounded, noise, key=each[1].noise_key)
        model, state, finite = server.step(model, state, release)
        assert bool(finite)  # waits for the device
        seconds.append(time.perf_counter() - last)
    round_seconds = statistics.median(seconds[1:])
    traffic = cohort * shape.steps * parameters * 4 * 2 / round_seconds
    return {
        "case": name,
        "device": jax.devices()[0].device_kind,
        "model": model_name,
        "parameters": parameters,
        "rows": rows,
        "length": length,
        "precision": precision,
        "cohort": cohort,
        "population": users,
        "chunk": spread.chunk,
        "lanes": spread.lanes,
        "users_per_second": round(cohort / round_seconds, 2),
        "tokens_per_second": round(cohort * TOKENS / round_seconds),
        "seconds_per_round": round(round_seconds, 4),
        "first_round_seconds": round(seconds[0], 2),
        "bandwidth_fraction": round(traffic / bandwidth, 4),
        "copy_bandwidth_GB_per_second": round(bandwidth / 1e9, 1),
        "peak_memory_MB": _peak_memory(),
    }


def built(name: str) -> Any:
    """A preset, or a small transformer of as many words as the benchmark model has."""
    if name == TRANSFORMER:
        return transformer.build(transformer.TransformerConfig(VOCABULARY), key=jax.random.key(0))
    return build(preset(name), key=jax.random.key(0))


def _timed(cohorts: Iterator[Any]) -> Iterator[tuple[float, Any]]:
    """Each cohort with the moment it was asked for, so that waiting for it counts."""
    while True:
        asked = time.perf_counter()
        try:
            yield asked, next(cohorts)
        except StopIteration:
            return


def _peak_memory() -> int:
    """Of the device where it tells, else of this process; in megabytes, since the process began."""
    stats = jax.devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        return stats["peak_bytes_in_use"] // 1_000_000
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_000


def cases_for_this_machine() -> list[Callable[[float], dict[str, Any]]]:
    """Small cohorts first: peak memory only ever grows."""
    if jax.default_backend() == "cpu":
        return [
            partial(case, "cohort of 8", cohort=8),
            partial(case, "a thousand users", cohort=16, users=1_000),
            partial(case, "a million users", cohort=16, users=1_000_000),
            partial(case, "cohort of 32", cohort=32, rounds=3),
        ]
    return [
        partial(case, "float32", cohort=1024, precision="float32"),
        partial(case, "tf32", cohort=1024, precision="tf32"),
        partial(case, "bf16", cohort=1024, precision="bf16"),
        partial(case, "a thousand users", cohort=512, users=1_000, precision="bf16", chunk=512),
        partial(case, "a million users", cohort=512, users=1_000_000, precision="bf16", chunk=512),
        partial(case, "four times the cohort", cohort=4096, precision="bf16"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", type=int)
    parser.add_argument("--chunk", type=int)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--model", default="benchmark", choices=[*PRESETS, TRANSFORMER])
    parser.add_argument("--rows", type=int, default=ROWS, help="rows a batch")
    parser.add_argument("--length", type=int, default=LENGTH, help="predictions a row")
    arguments = parser.parse_args()
    use_every_core()
    bandwidth = copy_bandwidth()
    if arguments.cohort:
        options = {name: value for name, value in vars(arguments).items() if value is not None}
        print(json.dumps(case("as asked", bandwidth, **options)))
        return
    for run in cases_for_this_machine():
        print(json.dumps(run(bandwidth)), flush=True)


if __name__ == "__main__":
    main()
