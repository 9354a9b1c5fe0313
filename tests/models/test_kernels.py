"""The GPU kernels, interpreted: the same numbers as the plain code, and they still translate for a GPU."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tacit.models.layers import output_kernel
from tacit.models.layers.cross_entropy import output_derivatives
from tacit.models.layers.sgd import sgd_step
from tacit.models.layers.unit_norm import through_unit, unit
from tacit.models.word_lm import Batch, WordLMConfig, build


def relative(found: Any, expected: Any) -> float:
    pairs = list(zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True))
    return max(float(jnp.linalg.norm(a.astype(jnp.float32) - b) / jnp.linalg.norm(b)) for a, b in pairs)


def test_pieces_cover_without_overlap() -> None:
    assert output_kernel._pieces(80) == [(0, 64), (64, 16)]
    assert output_kernel._pieces(96) == [(0, 64), (64, 32)]
    assert output_kernel._pieces(64) == [(0, 64)]


@pytest.mark.parametrize("tokens", [20, 200])
@pytest.mark.parametrize("unit_norm", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_output_update_equals_the_plain_derivatives(with_bias: bool, unit_norm: bool, tokens: int) -> None:
    """300 rows: five tiles, the last one ragged, one program idle. 20 tokens are padded to 32, and 200 are two groups."""
    keys = jax.random.split(jax.random.key(0), 5)
    table, outputs = jax.random.normal(keys[0], (2, 300, 48)), jax.random.normal(keys[1], (2, tokens, 48))
    bias = jax.random.normal(keys[2], (2, 300)) if with_bias else None
    targets = jax.random.randint(keys[3], (2, tokens), 0, 300, dtype=jnp.int32)
    weights = -jax.random.uniform(keys[4], (2, tokens))

    def plain(table: jax.Array, bias: jax.Array | None, *rest: jax.Array) -> Any:
        read = unit(table) if unit_norm else table
        d_table, d_bias, d_outputs = output_derivatives(read, bias, *rest, "float32")
        return (through_unit(table, d_table) if unit_norm else d_table), d_bias, d_outputs

    def in_kernel(table: jax.Array, bias: jax.Array | None, *rest: jax.Array) -> Any:
        new, new_bias, d_outputs = output_kernel.output_update(
            table, bias, *rest, "tf32", unit_norm=unit_norm, interpret=True
        )
        return new - table, (None if bias is None else new_bias - bias), d_outputs

    arguments = (table, bias, outputs, targets, weights)
    axes = (0, 0 if with_bias else None, 0, 0, 0)
    assert relative(jax.vmap(in_kernel, axes)(*arguments), jax.vmap(plain, axes)(*arguments)) < 1e-5


@pytest.mark.parametrize(("rows", "unit_norm"), [(2, False), (50, True)])
def test_the_step_with_kernels_translates_for_a_gpu(rows: int, unit_norm: bool) -> None:
    model = build(WordLMConfig(300, 32, 64, 32, output_bias=True, unit_norm=unit_norm), key=jax.random.key(0))
    batch: Batch = {"tokens": jnp.zeros((4, rows, 4), jnp.int32), "mask": jnp.ones((4, rows, 3), jnp.float32)}

    def users(batch: Batch) -> Any:
        return jax.vmap(lambda one: sgd_step(model, one, 0.5, precision="bf16", kernels=True))(batch)

    text = jax.jit(users).trace(batch).lower(lowering_platforms=("cuda",)).as_text()
    for name in ("expected", "update"):
        assert name in text


def test_kernels_stay_off_where_they_do_not_serve() -> None:
    assert not output_kernel.available()  # the tests run on a CPU
    assert not output_kernel.supported(96, "float32")
    assert not output_kernel.supported(90, "bf16")
    assert not output_kernel.supported(670, "bf16")
    assert output_kernel.supported(96, "bf16")
