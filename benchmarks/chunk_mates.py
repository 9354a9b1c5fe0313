"""Whether a user's update depends on the user alone: not on the call, on who shares the chunk, or on the place in it.

    python benchmarks/chunk_mates.py

One JSON line for each precision: the relative difference of one user's update between two calls of the same kind, which has
to be exactly 0. (Sums that others' presence changes in their last bits are not covered by the stated bound.)
"""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.models.layers.precision import PRECISIONS, Precision
from tacit.models.layers.sgd import sgd_step
from tacit.models.word_lm import build, preset

USERS, STEPS, BATCH, LENGTH = 64, 20, 8, 10


def updates(model: Any, tokens: Any, precision: Precision) -> Any:
    """Every user's update after his local steps."""

    def one_user(mine: jax.Array) -> Any:
        def one_step(i: jax.Array, local: Any) -> Any:
            batch: Any = {"tokens": mine[i], "mask": jnp.ones((BATCH, LENGTH), jnp.float32)}
            return sgd_step(local, batch, 0.5, precision=precision)

        return jax.tree.map(jnp.subtract, jax.lax.fori_loop(0, STEPS, one_step, model), model)

    return jax.vmap(one_user)(tokens)


def flat(tree: Any, user: int) -> NDArray[np.float32]:
    return np.concatenate([np.asarray(leaf[user]).ravel() for leaf in jax.tree.leaves(tree)])


def main() -> None:
    model = build(preset("benchmark"), key=jax.random.key(0))
    words = np.random.default_rng(0).zipf(1.3, (2, USERS, STEPS, BATCH, LENGTH + 1))
    tokens, others = (4 + words % 9_996).astype(np.int32)
    place = USERS // 2 + 1
    moved = np.concatenate([others[:place], tokens[:1], others[place + 1 :]])
    for precision in PRECISIONS:
        compiled = jax.jit(updates, static_argnames="precision")
        one = flat(compiled(model, tokens, precision), 0)
        again = flat(compiled(model, tokens, precision), 0)
        other_mates = flat(compiled(model, np.concatenate([tokens[:1], others[1:]]), precision), 0)
        other_place = flat(compiled(model, moved, precision), place)
        norm = np.linalg.norm(one)
        differences = {
            name: float(np.linalg.norm(other - one) / norm)
            for name, other in (("called again", again), ("other mates", other_mates), ("other place", other_place))
        }
        print(json.dumps({"device": jax.devices()[0].device_kind, "precision": precision, **differences}), flush=True)


if __name__ == "__main__":
    main()
