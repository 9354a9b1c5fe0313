"""The one place where an engine is chosen: the built-in one, or Ray. Training, inspections and tuning all come here."""

from __future__ import annotations

from contextlib import suppress

import jax

from tacit.data.users import Users
from tacit.learning.batches import Batching
from tacit.learning.secure_sums import SecureSums
from tacit.learning.work import UserWork
from tacit.privacy.plan import PrivacyPlan
from tacit.recipe.engine import Ray
from tacit.simulation.batched import BatchedUsers
from tacit.simulation.engine import Engine
from tacit.simulation.placement import suitable_spread, use_every_core, usual_cohort
from tacit.simulation.ray.connection import Connection
from tacit.simulation.ray.users import RayUsers


def engine_for(
    ray: Ray | None,
    users: Users,
    work: UserWork,
    plan: PrivacyPlan,
    shape: Batching,
    *,
    parameters: int,
    chunk: int | None = None,
    secure: SecureSums | None = None,
) -> Engine:
    """The engine that trains these users: on Ray if that is asked for, else on this process's accelerators."""
    if ray is not None:
        return RayUsers(users, work, plan, shape, settings=ray, parameters=parameters, chunk=chunk, secure=secure)
    return BatchedUsers(users, work, plan, shape, suitable_spread(parameters, usual_cohort(plan), chunk), secure)


def use_accelerators(ray: Ray | None) -> None:
    """Make this process use every core; or the CPU alone, where workers on Ray hold the GPUs. No effect once JAX is used.

    Ray is connected to before JAX is used. WorkerError if it cannot be.
    """
    if ray is not None:
        Connection.of(ray)
    use_every_core()
    if ray is not None and ray.gpus_per_worker:
        with suppress(RuntimeError):
            jax.config.update("jax_platforms", "cpu")
