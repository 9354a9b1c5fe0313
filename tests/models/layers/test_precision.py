"""Products of matrices: the operands are rounded as stated, whichever axes are summed over."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.models.layers.precision import PRECISIONS, product, round_operand


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("contract", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_product_is_that_of_the_rounded_operands(precision, contract):
    generator = np.random.default_rng(0)
    a = jnp.asarray(generator.normal(size=(7, 5)[:: 1 if contract[0] == 0 else -1]), jnp.float32)
    b = jnp.asarray(generator.normal(size=(7, 3)[:: 1 if contract[1] == 0 else -1]), jnp.float32)
    exactly = [np.asarray(round_operand(x, precision), np.float64) for x in (a, b)]
    expected = np.tensordot(*exactly, axes=contract)
    found = jax.jit(lambda a, b: product(a, b, precision, contract=contract))(a, b)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    several = jax.vmap(lambda a: product(a, b, precision, contract=contract))(jnp.stack([a, 2 * a]))
    np.testing.assert_allclose(several, np.stack([expected, 2 * expected]), rtol=1e-5, atol=1e-6)
