"""The rounds of benchmarks/rounds.py in FedJAX, to be measured beside ours on one machine. Prints one JSON line.

    python3.11 -m venv peers && peers/bin/pip install fedjax==0.0.17 jax==0.10.2
    peers/bin/python benchmarks/peers/fedjax_rounds.py --cohort 16                    every core
    taskset -c 0 peers/bin/python benchmarks/peers/fedjax_rounds.py --cohort 16       one core

The algorithm is FedJAX's own `fed_avg`, the model is the benchmark model in plain JAX: the same 1,142,800 parameters and
the same mathematics as ours, differentiated by JAX. Users have the same words as ours; a user's rows are shuffled, as FedJAX
does. Unlike ours it neither clips nor adds noise, and the users' rows are made before the clock starts: what is timed is
local training, the mean over the cohort and the server's momentum step. Of FedJAX's backends `jit`, its default, is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
from fedjax.algorithms import fed_avg
from fedjax.core import client_datasets, for_each_client, optimizers

VOCABULARY, FIRST_WORD, BOS, EOS = 10_000, 4, 1, 2
TOKENS, LENGTH, BATCH = 1_600, 10, 8
EMBEDDING, UNITS = 96, 256


def initial_parameters(key: jax.Array) -> dict[str, jax.Array]:
    """CIFG of 256 units, its 96-wide projection fed back and scored against the tied embedding, an output bias."""
    embedding, gates, projection = jax.random.split(key, 3)
    wide, narrow = (3 / (2 * EMBEDDING)) ** 0.5, (3 / UNITS) ** 0.5
    return {
        "embedding": jax.random.normal(embedding, (VOCABULARY, EMBEDDING)) / EMBEDDING**0.5,
        "kernel": jax.random.uniform(gates, (2 * EMBEDDING, 3 * UNITS), minval=-wide, maxval=wide),
        "gate_bias": jnp.repeat(jnp.array([0.0, 1.0, 0.0]), UNITS),  # candidate, forget, output
        "projection": jax.random.uniform(projection, (UNITS, EMBEDDING), minval=-narrow, maxval=narrow),
        "output_bias": jnp.zeros(VOCABULARY),
    }


def loss(parameters: dict[str, jax.Array], tokens: jax.Array) -> jax.Array:
    """The mean cross-entropy of the words after the first of each row, tokens [B, L + 1]."""
    table, kernel = parameters["embedding"], parameters["kernel"]
    tokens = tokens.T  # time first
    from_inputs = table[tokens[:-1]] @ kernel[:EMBEDDING] + parameters["gate_bias"]

    def step(state: tuple[jax.Array, jax.Array], z: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        c, r = state
        g, f, o = jnp.split(z + r @ kernel[EMBEDDING:], 3, axis=-1)
        f = jax.nn.sigmoid(f)
        c = f * c + (1 - f) * jnp.tanh(g)
        r = (jax.nn.sigmoid(o) * jnp.tanh(c)) @ parameters["projection"]
        return (c, r), r

    rows = tokens.shape[1]
    start = (jnp.zeros((rows, UNITS)), jnp.zeros((rows, EMBEDDING)))
    _, outputs = jax.lax.scan(step, start, from_inputs, unroll=LENGTH)
    logits = outputs.reshape(-1, EMBEDDING) @ table.T + parameters["output_bias"]
    at_target = jnp.take_along_axis(logits, tokens[1:].reshape(-1, 1), axis=1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=1) - at_target)


def zipf_tape() -> np.ndarray:
    ranks = np.random.default_rng(0).zipf(1.2, 1 << 20)
    return (FIRST_WORD + ranks % (VOCABULARY - FIRST_WORD)).astype(np.int32)


def rows_of(tape: np.ndarray, user: int) -> np.ndarray:
    """One long sentence of 1,600 predictions in rows of 10, each row beginning with the last word of the one before."""
    start = user * 7919 % (len(tape) - TOKENS)
    sentence = np.concatenate([[BOS], tape[start : start + TOKENS - 1], [EOS]]).astype(np.int32)
    return np.lib.stride_tricks.sliding_window_view(sentence, LENGTH + 1)[::LENGTH]


def restore_names() -> None:
    """The one function that FedJAX's `fed_avg` calls under a name this version of JAX no longer has."""
    jax.tree_map = jax.tree.map


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    restore_names()
    for_each_client.set_for_each_client_backend("jit")

    algorithm = fed_avg.federated_averaging(
        lambda parameters, batch, _: jax.grad(loss)(parameters, batch["tokens"]),
        optimizers.sgd(0.5),
        optimizers.sgd(1.0, momentum=0.9),
        client_datasets.ShuffleRepeatBatchHParams(batch_size=BATCH, num_epochs=1, seed=0),
    )
    state = algorithm.init(initial_parameters(jax.random.key(0)))
    assert sum(leaf.size for leaf in jax.tree.leaves(state.params)) == 1_142_800
    tape, chooser, seconds = zipf_tape(), np.random.default_rng(1), []
    for _ in range(arguments.rounds + 1):  # the first round compiles
        cohort = chooser.choice(100_000, arguments.cohort, replace=False)
        clients = [
            (int(user), client_datasets.ClientDataset({"tokens": rows_of(tape, int(user))}), jax.random.PRNGKey(user))
            for user in cohort
        ]
        begun = time.perf_counter()
        state, _ = algorithm.apply(state, clients)
        jax.block_until_ready(state)
        seconds.append(time.perf_counter() - begun)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(state.params))
    round_seconds = statistics.median(seconds[1:])
    result = {
        "peer": "fedjax",
        "versions": {name: version(name) for name in ("fedjax", "jax", "jaxlib", "dm-haiku", "optax", "numpy")},
        "cores": len(os.sched_getaffinity(0)),
        "cohort": arguments.cohort,
        "tokens_per_second": round(arguments.cohort * TOKENS / round_seconds),
        "seconds_per_round": round(round_seconds, 4),
        "first_round_seconds": round(seconds[0], 2),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
