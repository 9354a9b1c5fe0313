"""Work on a user is a pure function of that user's batches: code on the host, which may keep something, is refused.

JAX traces work once and compiles it, so Python variables cannot carry anything from one user to the next. Three things can: a
callback to the host (`jax.pure_callback`, `jax.experimental.io_callback`), a print of values (`jax.debug.print`, which also
shows users' data), and a function that says itself how it is batched over users (`jax.custom_batching.custom_vmap`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax

from tacit.errors import PrivacyError
from tacit.learning.tasks import LossTask
from tacit.learning.work import LocalWork, UserWork

_IMPURE = ("callback", "debug_print", "custom_vmap")


def may_be_impure(work: UserWork, model: Any) -> bool:
    """Whether some of it is not Tacit's own: the work, the task or the model."""
    parts: tuple[Any, ...] = (work, model)
    if isinstance(work, LocalWork):
        # `as_task` wraps a loss function: the wrapper is Tacit's own, the function is not.
        task = work.task.loss if isinstance(work.task, LossTask) else work.task
        parts = (*parts, work.work, task)
    return not all(type(each).__module__.startswith("tacit.") for each in parts)


def require_pure(work: UserWork, model: Any, batches: Any, clip_norm: Any) -> None:
    """PrivacyError if the work on one user, whose batches are [steps, ...], calls code that can see other users."""
    arrays, rest = eqx.partition(model, eqx.is_array)
    traced = jax.make_jaxpr(lambda arrays, one, steps, norm: work(eqx.combine(arrays, rest), one, steps, norm))(
        arrays, batches, jax.ShapeDtypeStruct((), "int32"), clip_norm
    )
    found = next((name for name in _primitives(traced.jaxpr) if any(each in name for each in _IMPURE)), None)
    if found is not None:
        raise PrivacyError(
            f"The work on one user, its task or its model calls {found}, whose code can keep or show what other users hold.",
            hint="Remove host callbacks, jax.debug.print and custom_vmap, or train without noise, where nothing is claimed.",
        )


def _primitives(jaxpr: Any) -> Iterator[str]:
    """The names of all operations, those inside loops, branches and calls too."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for value in equation.params.values():
            for each in value if isinstance(value, list | tuple) else (value,):
                inner = getattr(each, "jaxpr", each)
                if hasattr(inner, "eqns"):
                    yield from _primitives(inner)
