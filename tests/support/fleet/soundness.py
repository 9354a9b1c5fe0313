"""Checks that a run on devices is sound: its ledger, participation and model agree, whatever failed on the way."""

from __future__ import annotations

import tomllib
from functools import cache
from itertools import pairwise
from pathlib import Path

import jax
import numpy as np
from sqlalchemy import Engine, select

from tacit.fleet.database import schema
from tacit.fleet.wire.public_log import TaskEntry, TryEntry
from tacit.privacy.gate.rounding import HEADROOM
from tacit.privacy.participation.log import verified
from tacit.privacy.record.ledger import read_ledger
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.folder import RunFolder
from tacit.training.recipes import RecipeSetup
from tacit.training.trained import load_trained
from tacit.transparency import merkle
from tests.support.fleet.crowd import vector_of


@cache
def built(text: str) -> RecipeSetup:
    return RecipeSetup.build(parse_recipe(tomllib.loads(text)))


def flat(model: object) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(model)])


def cohorts(run: Path) -> list[tuple[int, int, list[int]]]:
    ledger = read_ledger(run / "ledger.jsonl")
    return [
        (each.round, each.attempt, each.users.tolist()) for each in verified(run / "private/participation.bin", ledger)
    ]


def states(engine: Engine) -> list[tuple[int, str]]:
    with engine.connect() as connection:
        query = select(schema.rounds.c.round, schema.rounds.c.state).order_by(schema.rounds.c.opened_at)
        return [(round, state) for round, state in connection.execute(query)]


def expected_model(recipe: Recipe, run: Path) -> np.ndarray:
    """The first model plus the mean of what those who are in the run's record sent, round by round."""
    model = flat(built(recipe.to_toml()).start.model)
    live = {round: users for round, _, users in cohorts(run)}  # the last attempt of each
    for round, users in live.items():
        sent = sum(vector_of(user, round, len(model), 0.9 * 0.3).astype(np.float64) for user in users)
        model = model + HEADROOM * sent / recipe.privacy.denominator
    return model


def require_sound(
    engine: Engine, recipe: Recipe, run: Path, *, wanted: int = 3, often: int = 3, atol: float = 1e-6
) -> None:
    """The run is finished, its model is made of what those in its record sent, and nobody came too often or too early."""
    assert RunFolder.open(run).summary() is not None
    came = cohorts(run)
    assert {round for round, _, _ in came} == set(range(wanted))
    assert all(len(set(users)) == 4 for _, _, users in came)
    model = load_trained(run).model
    np.testing.assert_allclose(flat(model), expected_model(recipe, run), atol=atol)
    # Attempts that were lost are charged as branches of their own; MinS and MaxP hold in the rounds that the model is made of.
    live = {round: (attempt, users) for round, attempt, users in came}
    for device in {user for _, users in live.values() for user in users}:
        when = sorted(round for round, (_, users) in live.items() if device in users)
        assert len(when) <= often
        assert all(later - earlier > 1 for earlier, later in pairwise(when))
    with engine.connect() as connection:
        table = connection.execute(select(schema.participations)).all()
    assert {(row.round, row.attempt, row.device) for row in table} == {
        (round, attempt, user) for round, (attempt, users) in live.items() for user in users
    }
    assert sum(state == "committed" for _, state in states(engine)) == wanted
    assert all(state in ("committed", "abandoned") for _, state in states(engine))
    require_logged(engine, run)


def require_logged(engine: Engine, run: Path) -> None:
    """The public log has the task before all else, every committed round once, and each with as many as took part."""
    with engine.connect() as connection:
        entries = connection.execute(select(schema.log_entries).order_by(schema.log_entries.c.number)).all()
        task = connection.execute(select(schema.tasks.c.task).order_by(schema.tasks.c.opened_at)).scalars().first()
        receipts = connection.execute(select(schema.receipts).order_by(schema.receipts.c.number)).all()
    assert [row.number for row in entries] == list(range(len(entries)))
    assert TaskEntry.model_validate_json(entries[0].entry).task == task
    tries = [TryEntry.model_validate_json(row.entry) for row in entries if row.tried is not None]
    committed = [each for each in tries if each.outcome == "committed"]
    assert len(committed) == sum(state == "committed" for _, state in states(engine))
    assert all(each.counted == 4 for each in committed)
    digests = set(read_ledger(run / "ledger.jsonl").digests())
    assert all(each.ledger is None or each.ledger in digests for each in committed)
    for each in tries:
        leaves = [bytes.fromhex(row.leaf) for row in receipts if row.round_id == each.round_id]
        assert leaves == sorted(leaves)
        assert merkle.root(leaves).hex() == each.receipts
