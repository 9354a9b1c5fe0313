"""A small decoder-only transformer for next-word prediction: causal attention, a position code, tied embeddings.

Each block adds two things to its input x: attention to the words so far, and a two-layer network, both on normalised x
(pre-norm). Positions are sines and cosines, so a sequence may have any length. The output scores the last state against the
embeddings themselves. Sequences are written one at a time; `jax.vmap` reads several.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tacit.errors import RecipeError
from tacit.models.layers.precision import product


@dataclass(frozen=True)
class TransformerConfig:
    """The shape of a transformer; `hidden` is the width of the network in each block.

    >>> import tacit
    >>> tacit.TransformerConfig(vocabulary=2_000, width=32).heads
    4
    """

    vocabulary: int = 10_000
    width: int = 64
    heads: int = 4
    layers: int = 2
    hidden: int = 256


class TransformerBlock(eqx.Module):
    """One layer: D is the width, H the hidden width."""

    attention_gain: Array  # [D]
    queries: Array  # [D, D]
    keys: Array  # [D, D]
    values: Array  # [D, D]
    attended: Array  # [D, D]
    network_gain: Array  # [D]
    inward: Array  # [D, H]
    inward_bias: Array  # [H]
    outward: Array  # [H, D]
    heads: int = eqx.field(static=True)

    def __call__(self, x: Array) -> Array:
        """[L, D] to [L, D]."""
        x = x + self._attention(_normalised(x, self.attention_gain))
        hidden = _product(_normalised(x, self.network_gain), self.inward) + self.inward_bias  # [L, H]
        return x + _product(jax.nn.gelu(hidden), self.outward)

    def _attention(self, x: Array) -> Array:
        length, width = x.shape
        queries, keys, values = (
            _product(x, weight).reshape(length, self.heads, -1)  # [L, heads, D / heads]
            for weight in (self.queries, self.keys, self.values)
        )
        scores = jnp.einsum("qhd,khd->hqk", queries, keys, precision="highest") / jnp.float32(
            (width / self.heads) ** 0.5
        )
        visible = jnp.tril(jnp.ones((length, length), bool))  # nobody sees later words
        shares = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf), axis=-1)  # [heads, L, L]
        mixed = jnp.einsum("hqk,khd->qhd", shares, values, precision="highest").reshape(length, width)
        return _product(mixed, self.attended)


class Transformer(eqx.Module):
    """A next-word model: `model(tokens)` are the logits after each token of one sequence.

    >>> import jax, jax.numpy as jnp, tacit
    >>> from tacit.models.transformer import build
    >>> model = build(tacit.TransformerConfig(vocabulary=12), key=jax.random.key(0))
    >>> model(jnp.array([1, 4, 5])).shape
    (3, 12)
    """

    embedding: Array  # [V, D]
    blocks: tuple[TransformerBlock, ...]
    gain: Array  # [D]

    @staticmethod
    def build(config: TransformerConfig, *, key: Array) -> Transformer:
        """A transformer of this shape with random weights."""
        return build(config, key=key)

    def __call__(self, tokens: Array) -> Array:
        """int [L] to logits [L, V]."""
        width = self.embedding.shape[1]
        x = self.embedding[tokens] * jnp.float32(width**0.5) + positions(len(tokens), width)  # [L, D]
        for block in self.blocks:
            x = block(x)
        return product(_normalised(x, self.gain), self.embedding, "float32", contract=(1, 1))


def build(config: TransformerConfig, *, key: Array) -> Transformer:
    """A transformer with random weights."""
    _validate(config)
    embedding_key, *block_keys = jax.random.split(key, config.layers + 1)
    width = config.width
    return Transformer(
        embedding=_weight(embedding_key, config.vocabulary, width, 1 / width),
        blocks=tuple(_block(config, key=each) for each in block_keys),
        gain=jnp.ones((width,), jnp.float32),
    )


def positions(length: int, width: int) -> Array:
    """Sines and cosines of a position's angles, [length, width]; wavelengths grow from 2π to 2π · 10,000."""
    rates = jnp.float32(10_000) ** (-jnp.arange(width // 2, dtype=jnp.float32) / jnp.float32(width // 2))
    angles = jnp.arange(length, dtype=jnp.float32)[:, None] * rates  # [length, width / 2]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)


def _block(config: TransformerConfig, *, key: Array) -> TransformerBlock:
    width, hidden = config.width, config.hidden
    keys = jax.random.split(key, 6)
    # Two additions a layer: with this, the sum of all of them has about the variance of one.
    added = 1 / (2 * config.layers)
    return TransformerBlock(
        attention_gain=jnp.ones((width,), jnp.float32),
        queries=_weight(keys[0], width, width, 1 / width),
        keys=_weight(keys[1], width, width, 1 / width),
        values=_weight(keys[2], width, width, 1 / width),
        attended=_weight(keys[3], width, width, added / width),
        network_gain=jnp.ones((width,), jnp.float32),
        inward=_weight(keys[4], width, hidden, 1 / width),
        inward_bias=jnp.zeros((hidden,), jnp.float32),
        outward=_weight(keys[5], hidden, width, added / hidden),
        heads=config.heads,
    )


def _weight(key: Array, rows: int, columns: int, variance: float) -> Array:
    return jax.random.normal(key, (rows, columns), jnp.float32) * jnp.float32(variance**0.5)


def _normalised(x: Array, gain: Array) -> Array:
    """Rows [..., D] scaled to a mean square of 1, times the gain."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + jnp.float32(1e-6)) * gain


def _product(x: Array, weight: Array) -> Array:
    return product(x, weight, "float32")


def _validate(config: TransformerConfig) -> None:
    for field, value in vars(config).items():
        if value < 1:
            raise RecipeError(f"Expected {field} >= 1, got {value}.")
    if config.width % (2 * config.heads):
        raise RecipeError(f"Expected width to be a multiple of 2 · heads = {2 * config.heads}, got {config.width}.")
