"""Ledgers, made up, for tests of what is read off them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit.privacy.participation import Poisson
from tacit.privacy.participation_record import ParticipationWriter
from tacit.privacy.records import FORMAT, Closed, Intent, Opened
from tacit.runs.folder import RunFolder

ADJACENCY = {"poisson": "add or remove one user", "fixed": "replace one user", "check_in": "zero out one user"}


PLAN: dict[str, Any] = {
    "population": 1000,
    "cohort": 10.0,
    "clip_norm": 0.8,
    "noise_multiplier": 2.0,
    "delta": 1e-6,
    "sampling": "poisson",
}


def opened(run_id: str, **changes: Any) -> Opened:
    fields: dict[str, Any] = {
        "run_id": run_id,
        "format": FORMAT,
        "tacit_version": "0",
        "plan": PLAN,
        "mechanism": "gaussian",
        "strategy": {},
        "population": 1000,
        "rounds": 20,
        "seeded": False,
        "reasons_not_private": [],
        "data": {"world": "keyboard", "coordinates": 10, "arrays": 1},
        "unit": "user",
        "adjacency": "add or remove one user",
    }
    return Opened(**(fields | changes))


def intent(round: int, sampling: dict[str, Any] | None = None, participation: str = "ab" * 32) -> Intent:
    sampling = {"kind": "poisson", "probability": 0.01} if sampling is None else sampling
    return Intent(round, 0, sampling, {"update": {"bound": 0.8, "noise_multiplier": 2.0}}, 10.0, participation)


def run(
    path: Path,
    *,
    rounds: int = 20,
    users: int = 1_000,
    sampler: Any = None,
    draw: Any = None,
    closed: bool = True,
    planned: int | None = None,
    **changes: Any,
) -> RunFolder:
    """A run folder with a ledger and its participation record: each cohort is drawn by `draw`, or by the sampler itself.

    As many rounds as it has are planned, or `planned` of them.
    """
    sampler = Poisson(0.01) if sampler is None else sampler
    sampling = sampler.describe()
    changes = {
        "adjacency": ADJACENCY[sampling["kind"]],
        "plan": PLAN | {"sampling": sampling["kind"]},
        "rounds": rounds if planned is None else planned,
    } | changes
    changes = {"data": {"world": "keyboard", "users": users, "coordinates": 10, "arrays": 1}} | changes
    folder = RunFolder.create(path, "")
    generator = np.random.default_rng(5)
    with (
        folder.create_ledger(opened(folder.run_id, **changes)) as ledger,
        ParticipationWriter(folder.participation_path) as participation,
    ):
        for round in range(rounds):
            cohort = (sampler if draw is None else draw).sample(users, generator)
            ledger.append(intent(round, sampling, participation.append(round, 0, cohort)))
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
            cohort = Poisson(0.01).sample(1_000, generator)
            ledger.append(intent(round, None, participation.append(round, 0, cohort)))
