"""Products of matrices at a stated precision; parameters, state and accumulation stay in float32.

``float32`` multiplies in full float32 everywhere. ``tf32`` lets an accelerator round the operands to 10 bits of mantissa
(NVIDIA's TF32; a CPU has no such unit and multiplies in float32). ``bf16`` rounds the operands to 7 bits everywhere.
"""

from __future__ import annotations

from typing import Literal, get_args

import jax.numpy as jnp
from jax import Array, lax

Precision = Literal["float32", "tf32", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def round_operand(x: Array, precision: Precision) -> Array:
    """x rounded as `product` rounds it; rounding an operand of several products once saves work."""
    return x.astype(jnp.bfloat16) if precision == "bf16" else x


def product(a: Array, b: Array, precision: Precision, *, contract: tuple[int, int] = (1, 0)) -> Array:
    """The float32 product of two matrices, summed over axis ``contract[0]`` of a and ``contract[1]`` of b."""
    a, b = round_operand(a, precision), round_operand(b, precision)
    if precision == "bf16" and contract[0] == 0:
        a, contract = lax.platform_dependent(a, cpu=_transposed, default=jnp.transpose), (1, contract[1])
    return lax.dot_general(
        a,
        b,
        (((contract[0],), (contract[1],)), ((), ())),
        precision=lax.Precision.HIGHEST if precision == "float32" else lax.Precision.DEFAULT,
        preferred_element_type=jnp.float32,
    )


def _transposed(a: Array) -> Array:
    """The transpose of a matrix, written to memory.

    XLA multiplies bf16 on a CPU in float32, after widening both operands, unless the left one lies with the axis that is summed
    over last. Through one axis and a barrier, so that XLA cannot make the transpose part of the product again.
    """
    return lax.optimization_barrier(a.T.reshape(-1)).reshape(a.shape[::-1])
