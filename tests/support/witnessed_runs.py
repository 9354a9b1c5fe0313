"""Runs made by hand whose ledger a witness signs: no training, no JAX."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tacit.privacy.plan import PrivacyPlan
from tacit.recipe.reading import toml_of
from tacit.runs.folder import RunFolder
from tacit.runs.witness import Witness
from tests.support.planned_ledgers import POISSON, intent_of, opened_with

PLAN = PrivacyPlan(**POISSON)


def begun(path: Path, witness: Witness | None, *, rounds: int = 2) -> RunFolder:
    """A run that has begun so many rounds; nobody has signed anything of it."""
    planned = {"privacy": PLAN.model_dump(mode="json", exclude_none=True), "run": {"rounds": 9}}
    recipe = toml_of({"name": "small", **planned, **({} if witness is None else witness.settings())})
    run = RunFolder.create(path, recipe)
    record = None if witness is None else witness.record()
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    run.create_ledger(opened_with(PLAN, run_id=run.run_id, rounds=9, recipe=digest, witness=record)).close()
    add_rounds(run, rounds)
    return run


def add_rounds(run: RunFolder, rounds: int, *, cohorts: str = "ab") -> None:
    """Begin so many more rounds, with cohorts of this digest."""
    with run.open_ledger() as ledger:
        for _ in range(rounds):
            ledger.append(intent_of(PLAN, ledger.ledger.next_round, participation=cohorts * 32))
