"""Measures on devices how well a trained model predicts what people really type, through the same gate as training.

An evaluation is a run of its own. Devices download the trained model, and each answers with one vector of norm at most 1
(`task_compiler.prepare_evaluation`), which is clipped, summed, noised and recorded in a ledger as an update is. The run's
*model* is the mean of these vectors. The evaluation costs privacy, and its ledger states how much.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from tacit.errors import FleetError
from tacit.fleet.database.budget_table import FleetAccount
from tacit.fleet.rounds.fleet_context import FleetContext
from tacit.fleet.rounds.program import DeviceUsers, FleetProgram, describe_fleet, with_device_lines
from tacit.fleet.rounds.task_compiler import checkpoint_bytes, metrics_of
from tacit.fleet.wire.blobs import sha256_of
from tacit.learning.loop import TrainingState
from tacit.learning.server import Server, build_optimizer
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.record.records import UPDATE, Opened
from tacit.runs.folder import RunFolder
from tacit.runs.journal import Schedule
from tacit.runs.opening import opening
from tacit.training.recipes import RecipeSetup
from tacit.training.trained import load_trained

_METRICS = 2


def evaluated_model(setup: RecipeSetup, run: Path) -> bytes:
    """The model of a run's last checkpoint as devices download it; FleetError unless it fits the recipe."""
    trained = load_trained(run)
    if tuple(trained.words) != setup.dataset.words:
        raise FleetError(f"The recipe's data has another vocabulary than the run {run}.")
    content, expected = checkpoint_bytes(trained.model), checkpoint_bytes(setup.start.model)
    if len(content) != len(expected):
        raise FleetError(
            f"Expected the recipe's model to have the size of the run {run}'s, {len(content)} bytes, got {len(expected)}."
        )
    return content


def evaluation_program(
    setup: RecipeSetup, folder: RunFolder, context: FleetContext, content: bytes, *, transport: str, odometer: Path
) -> FleetProgram:
    """The rounds in which devices evaluate the model in `content`. The result is the mean over all rounds."""
    recipe, plan, rounds = setup.recipe, setup.recipe.privacy, setup.recipe.run.rounds
    mean = (jnp.zeros(_METRICS, jnp.float32),)
    server = Server.build(build_optimizer("sgd", 1.0 / rounds, 0.0), plan.denominator)
    mechanism = plan.build_mechanism(rounds, setup.strategy)

    def finish(state: TrainingState, opened: Opened, spent: Spent) -> dict[str, Any]:
        found = {"evaluated": context.section.evaluates, "metrics": _metrics(state.model), "privacy": spent.as_dict()}
        return with_device_lines(found, opened)

    return FleetProgram(
        plan=plan,
        schedule=Schedule(rounds, rounds, 1, save_first=True),
        seed=recipe.run.seed,
        opened=opening(
            folder,
            plan,
            mean,
            rounds=rounds,
            recipe_text=recipe.to_toml(),
            seeded=recipe.run.seed is not None,
            reasons_not_private=setup.reasons_not_private,
            data=setup.dataset.description,
            strategy=setup.strategy,
            secure_sum=None if context.secure is None else context.secure.record(),
            fleet=describe_fleet(context, transport=transport),
            evaluates=sha256_of(content),
            witness=None if setup.witness is None else setup.witness.record(),
        ),
        store=odometer,
        start=TrainingState(0, mean, server.init(mean), plan.build_clipping().init(), mechanism.init({UPDATE: mean})),
        users=DeviceUsers(plan, context.secure),
        sampler=plan.build_sampler(),
        mechanism=mechanism,
        server=server,
        evaluate=lambda model: {"measured_on": "devices, through the gate", **_metrics(model)},  # type: ignore[dict-item]
        finish=finish,
        witness=setup.witness,
        context=context,
        folder=folder,
        account=FleetAccount(context.engine, context.lease),
    )


def _metrics(mean: tuple[Any]) -> dict[str, float]:
    return metrics_of(np.asarray(mean[0], np.float64))
