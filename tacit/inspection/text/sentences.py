"""Draw sentences from a next-word model (Debugging, Figures 1 and 4, Table 7).

They are functions of a released model, so drawing them and counting unknown words in them costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.data.users import BOS, EOS, OOV, PAD
from tacit.models.word_lm import WordLM

# How an unknown word is shown, as in the paper's Table 7.
UNKNOWN = "UNK"
# Sentences per compiled call; each needs the logits of a whole vocabulary.
CHUNK = 500


def draw_sentences(model: WordLM, count: int, *, longest: int, key: jax.Array) -> NDArray[np.int32]:
    """Draw `count` sentences as word ids [count, longest], padded; longer sentences are cut."""
    keys = jax.random.split(key, -(-count // CHUNK))
    return np.concatenate([np.asarray(_draw(model, each, longest=longest)) for each in keys])[:count]


def in_words(sentence: NDArray[np.int32], words: Sequence[str]) -> str:
    """A drawn sentence as text; `words[i]` has the id i."""
    return " ".join(UNKNOWN if token == OOV else words[token] for token in sentence.tolist() if token >= OOV)


@eqx.filter_jit
def _draw(model: WordLM, key: jax.Array, *, longest: int) -> jax.Array:
    never = jnp.array([PAD, BOS])

    def one(key: jax.Array) -> jax.Array:
        def step(carry: tuple, key: jax.Array) -> tuple[tuple, jax.Array]:
            state, token, ended = carry
            state, logits = model.step(state, token)
            drawn = jax.random.categorical(key, logits.at[never].set(-jnp.inf)).astype(jnp.int32)
            ended = ended | (drawn == EOS)
            return (state, drawn, ended), jnp.where(ended, PAD, drawn)

        begin = (model.initial_state(), jnp.int32(BOS), jnp.array(False))
        return jax.lax.scan(step, begin, jax.random.split(key, longest))[1]

    return jax.vmap(one)(jax.random.split(key, CHUNK))
