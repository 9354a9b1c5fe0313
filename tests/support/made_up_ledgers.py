"""Ledgers, made up, for tests of what is read off them."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from tacit.privacy.participation.log import ParticipationWriter
from tacit.privacy.participation.samplers import Poisson
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import DataRecord
from tacit.privacy.record.records import FORMAT, Closed, Intent, Opened
from tacit.recipe.reading import toml_of
from tacit.runs.folder import RunFolder
from tests.support.draws import draws
from tests.support.first_record import FACTS


def opened(run_id: str, **changes: Any) -> Opened:
    fields: dict[str, Any] = {
        "run_id": run_id,
        "format": FORMAT,
        "tacit_version": "0",
        "plan": plan_of({"kind": "poisson", "probability": 0.01}).model_dump(mode="json"),
        "mechanism": "gaussian",
        "strategy": {},
        "population": 1000,
        "rounds": 20,
        "seeded": False,
        "reasons_not_private": (),
        **FACTS,
        "unit": "user",
        "adjacency": "add or remove one user",
    }
    return Opened(**(fields | changes))


def intent(round: int, sampling: dict[str, Any] | None = None, participation: str = "ab" * 32) -> Intent:
    sampling = {"kind": "poisson", "probability": 0.01} if sampling is None else sampling
    return Intent(round, 0, sampling, {"update": {"bound": 0.8, "noise_multiplier": 2.0}}, 10.0, participation)


def plan_of(sampling: dict[str, Any]) -> PrivacyPlan:
    """The plan whose sampler describes itself so, and whose intents are those of `intent`."""
    fields: dict[str, Any] = {"clip_norm": 0.8, "noise_multiplier": 2.0, "delta": 1e-6, "sampling": sampling["kind"]}
    match sampling["kind"]:
        case "poisson":
            who = {"population": round(10 / sampling["probability"]), "cohort": 10.0}
        case "fixed":
            who = {"population": sampling["population"], "cohort": sampling["size"]}
        case _:
            limits = {name: sampling[name] for name in ("min_separation", "max_participation")}
            who = {"population": 1000, "cohort": sampling["size"], **limits}
    return PrivacyPlan(**fields, **who)


def run(
    path: Path,
    *,
    rounds: int = 20,
    users: int = 1_000,
    sampler: Any = None,
    draw: Any = None,
    closed: bool = True,
    planned: int | None = None,
    about: dict[str, Any] | None = None,
    **changes: Any,
) -> RunFolder:
    """A run folder with a ledger and its participation record: each cohort is drawn by `draw`, or by the sampler itself.

    As many rounds as it has are planned, or `planned` of them. `about` is the [data] of its recipe; `changes` are fields of the
    first record.
    """
    sampler = Poisson(0.01) if sampler is None else sampler
    sampling = sampler.describe()
    plan = plan_of(sampling)
    planned = rounds if planned is None else planned
    described = plan.model_dump(mode="json", exclude_none=True)
    recipe = toml_of({"data": about or {}, "privacy": described, "run": {"rounds": planned}})
    changes = {
        "adjacency": plan.adjacency,
        "plan": plan.model_dump(mode="json"),
        "population": plan.population,
        "rounds": planned,
        "data": DataRecord(world="keyboard", seed=1, users=users),
        "recipe": hashlib.sha256(recipe.encode()).hexdigest(),
    } | changes
    folder = RunFolder.create(path, recipe)
    generator = np.random.default_rng(5)
    with (
        folder.create_ledger(opened(folder.run_id, **changes)) as ledger,
        ParticipationWriter(folder.participation_path) as participation,
    ):
        for round in range(rounds):
            cohort = (sampler if draw is None else draw).sample(draws(generator, users))
            record = intent(round, sampling, participation.append(round, 0, cohort))
            ledger.append(dataclasses.replace(record, denominator=plan.denominator))
        if closed:
            ledger.append(Closed(rounds, "finished"))
    return folder


def go_on(folder: RunFolder, rounds: int) -> None:
    """So many more rounds, Poisson-sampled."""
    generator = np.random.default_rng()
    with (
        folder.open_ledger() as ledger,
        ParticipationWriter(folder.participation_path) as participation,
    ):
        done = ledger.ledger.next_round
        for round in range(done, done + rounds):
            cohort = Poisson(0.01).sample(draws(generator, 1_000))
            ledger.append(intent(round, None, participation.append(round, 0, cohort)))
