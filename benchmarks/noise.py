"""What noise costs a round: ChaCha20 with exact rounding, beside the Threefry Box-Muller of before. One JSON line a case.

    python benchmarks/noise.py               the cases that suit this machine
    python benchmarks/noise.py --rounds 9    more rounds to take the median of

A case trains whole rounds and times them; then it times, in the same process and in turns, the mechanism's release of
a sum of that size, and the release as it was before. `share_of_round` is their ratio to the whole round,
`share_at_papers_cohort` what it would be with as many users as the paper's rounds have (the cost of users is linear,
that of noise does not depend on them). The first line compares ten thousand draws of float64 on this device with what
exact arithmetic makes of the same bits: `error_over_tolerance` must be below 0.25 (`tacit.privacy.noise.gaussian`).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rounds import ZipfUsers

from tacit.data.users import names_of_numbers
from tacit.learning.batches import TextBatches
from tacit.learning.next_word import NextWord
from tacit.learning.server import Server, build_optimizer
from tacit.learning.work import FedAvg, LocalWork
from tacit.models.word_lm import build, parameter_count, preset
from tacit.privacy.gate.sums import Block, BoundedSum, ClipThresholds
from tacit.privacy.noise import exact
from tacit.privacy.noise import gaussian as noise
from tacit.privacy.noise.mechanisms import Gaussian, Mechanism
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.records import UPDATE
from tacit.simulation.batched import BatchedUsers
from tacit.simulation.cohorts import CohortStream
from tacit.simulation.placement import suitable_spread, use_every_core

LENGTH, BATCH, POPULATION = 10, 8, 500_000
RANDOMNESS = Randomness.from_seed(0)


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and what a user has; the cohort that is timed here, and the one of the recipe or paper."""

    name: str
    model: str
    tokens: int
    cohort: int
    papers_cohort: int


def whole_rounds(case: Case, rounds: int) -> tuple[list[float], Any]:
    """Seconds of `rounds` rounds after a warm-up, noise included, and the model."""
    plan = PrivacyPlan(
        population=POPULATION,
        cohort=case.cohort,
        sampling="fixed",
        clip_norm=0.8,
        noise_multiplier=1.0,
        delta=0.1 / POPULATION,
    )
    config = preset(case.model)
    model = build(config, key=jax.random.key(0))
    server = Server.build(build_optimizer("momentum", 1.0, 0.9), plan.denominator)
    mechanism, state, kept = plan.build_mechanism(rounds, None), server.init(model), ()
    engine = BatchedUsers(
        ZipfUsers(POPULATION, config.vocabulary, case.tokens),
        LocalWork(FedAvg(learning_rate=0.5), NextWord("float32" if jax.default_backend() == "cpu" else "bf16")),
        plan,
        TextBatches("windows", LENGTH, BATCH, case.tokens // (LENGTH * BATCH)),
        suitable_spread(parameter_count(model), case.cohort, None),
    )
    names = names_of_numbers(np.arange(POPULATION))
    stream = CohortStream(plan.build_sampler(), RANDOMNESS, names, engine.prepare, start=0, stop=rounds + 1)
    seconds, asked = [], time.perf_counter()
    for cohort in stream:
        bounded = engine.collect(model, cohort, ClipThresholds(0.8))[0]
        release, kept = mechanism.release(bounded, kept, key=cohort.noise_key)
        model, state, finite = server.step(model, state, release)
        assert bool(finite)  # waits for the device
        seconds.append(time.perf_counter() - asked)
        asked = time.perf_counter()
    return seconds[1:], model


def run(case: Case, rounds: int) -> dict[str, Any]:
    """One case: whole rounds, then both kinds of noise in turns."""
    seconds, model = whole_rounds(case, rounds)
    with jax.enable_x64(True):
        total = jax.tree.map(lambda leaf: jnp.zeros_like(leaf, jnp.float64), model)
    bounded = BoundedSum({UPDATE: Block(total, 0.8)})
    mechanism: Mechanism = Gaussian({UPDATE: 1.0})
    key, before_key = RANDOMNESS.noise_key(round=0, attempt=0), jax.random.key(0)
    now, before = _in_turns(
        lambda: mechanism.release(bounded, (), key=key)[0], lambda: _released_before(total, before_key, 0.8)
    )
    whole = statistics.median(seconds)
    users = max(whole - now, 0.0) * case.papers_cohort / case.cohort
    return {
        "case": case.name,
        "device": jax.devices()[0].device_kind,
        "parameters": parameter_count(model),
        "cohort": case.cohort,
        "seconds_per_round": round(whole, 4),
        "noise_ms": round(1e3 * now, 3),
        "noise_ms_before": round(1e3 * before, 3),
        "now_over_before": round(now / before, 2),
        "share_of_round": f"{now / whole:.2%}",
        "papers_cohort": case.papers_cohort,
        "share_at_papers_cohort": f"{now / (users + now):.3%}",
    }


def _in_turns(*calls: Callable[[], Any], times: int = 15) -> list[float]:
    """The median seconds of each call, after one to compile it."""
    seconds: list[list[float]] = [[] for _ in calls]
    for each in range(times + 1):
        for call, kept in zip(calls, seconds, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(call())
            if each > 0:
                kept.append(time.perf_counter() - start)
    return [statistics.median(kept) for kept in seconds]


def accuracy(draws: int = 10_000) -> dict[str, Any]:
    """How far float64 on this device is from the exact draws, in units of the tolerance."""
    stream = RANDOMNESS.noise_key(round=1, attempt=0).stream(0)
    with jax.enable_x64(True):
        found = jax.jit(noise.standard_normal, static_argnums=0)(draws, stream.key, stream.nonce)
        g, tolerance = (np.asarray(each) for each in found)
    worst = 0.0
    for place in range(draws):
        block, pair, member = noise.place_of(place, draws)
        further = stream.further_bits(block, pair, 0)
        u, v = (
            first << 128 | int.from_bytes(rest, "little")
            for first, rest in zip(stream.first_bits(block, pair), (further[:16], further[16:]), strict=True)
        )
        low, high = exact.gaussian(u, v, 192, member)
        off = max(abs(Fraction(float(g[place])) - Fraction(end)) for end in (low, high))
        worst = max(worst, float(off) / float(tolerance[place]))
    undecided = 2 * 2**20 * float(tolerance.mean())
    return {"draws": draws, "error_over_tolerance": round(worst, 4), "undecided_per_million": round(1e6 * undecided, 3)}


def _released_before(total: Any, key: jax.Array, deviation: float) -> Any:
    with jax.enable_x64(True):
        return _noised_before(total, key, deviation, noise.grid_step(deviation))


@jax.jit
def _noised_before(total: Any, key: jax.Array, deviation: float, step: float) -> Any:
    """Threefry words with 64-bit keys, 53-bit Box-Muller by the library's logarithm and cosines, float64 addition, one grid."""
    leaves, tree = jax.tree.flatten(total)
    noised = [
        (jnp.round((leaf + deviation * _normal_before(each, leaf.shape)) / step) * step).astype(jnp.float32)
        for leaf, each in zip(leaves, jax.random.split(key, len(leaves)), strict=True)
    ]
    return jax.tree.unflatten(tree, noised)


def _normal_before(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    size = math.prod(shape)
    zeros, radius, angle = jax.random.bits(key, (3, (size + 1) // 2), jnp.uint64)
    unused = ((radius & 0x7FF) << 53) | ((angle & 0x7FF) << 42)
    leading = jnp.where(zeros != 0, jax.lax.clz(zeros), 64 + jnp.minimum(jax.lax.clz(unused), 22))
    mantissa, turn = (((word >> 11).astype(jnp.float64) + 0.5) * 2.0**-53 for word in (radius, angle))
    exponential = (leading.astype(jnp.float64) + 1) * math.log(2) - jnp.log1p(mantissa)
    r, theta = jnp.sqrt(2 * jnp.maximum(exponential, 0)), 2 * math.pi * turn
    return jnp.stack([r * jnp.cos(theta), r * jnp.sin(theta)]).reshape(-1)[:size].reshape(shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    use_every_core()
    on_cpu = jax.default_backend() == "cpu"
    print(json.dumps(accuracy()), flush=True)
    cases = [
        Case("demo", "tiny", 160, 500, 500),
        Case("production", "production", 1_600, 8 if on_cpu else 1_024, 20_000),
    ]
    for case in cases:
        print(json.dumps(run(case, arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
