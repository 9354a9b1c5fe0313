"""`tacit account run` and `compose`: what runs have cost their users, read off their ledgers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.account.answer import Answer, Json, require_delta, tell
from tacit.cli.account.evidence import Evidence, evidence_of
from tacit.privacy.accounting.several_runs import Together, together
from tacit.privacy.accounting.spent import spent_by

DeltaOfAll = Annotated[
    float | None, typer.Option("--delta", help="The delta to compose at; by default the smallest of the runs' own.")
]


def run(
    run: Annotated[Path, typer.Argument(help="A run's folder, or its name in runs/.")], as_json: Json = False
) -> None:
    """What a run has cost its users, read off its ledger.

    Example: tacit account run runs/chat
    """
    evidence = evidence_of(run)
    spent = spent_by(evidence.ledger.opened, evidence.ledger.intents, cohorts=evidence.users)
    if as_json:
        typer.echo(json.dumps(spent.as_dict() | {"cohorts": evidence.cohorts}, allow_nan=False))
        return
    typer.echo(f"{evidence.folder.path}: {releases_in_words(spent.releases)}, unit: {spent.unit}.")
    answer = Answer(
        spent.epsilon,
        spent.delta,
        spent.adjacency,
        spent.accountant,
        spent.assumptions,
        rho=spent.rho,
        reasons_not_private=tuple(spent.reasons_not_private),
    )
    tell(answer, as_json)
    typer.echo(f"  {evidence.cohorts}")


def compose(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, or their names in runs/.")],
    delta: DeltaOfAll = None,
    as_json: Json = False,
) -> None:
    """What several runs that were planned together have cost, as if every user had been in all of them.

    For runs that were chosen by looking at earlier ones, use `tacit account odometer`.

    Example: tacit account compose runs/tuning-1 runs/tuning-2 runs/final
    """
    if delta is not None:
        require_delta(delta)
    found = [evidence_of(each) for each in runs]
    total = compose_evidence(found, delta)
    if not as_json:
        for each in found:
            typer.echo(_line(each))
    facts = {"unit": total.unit, "releases": total.releases, "runs": [_facts(each) for each in found]}
    tell(answer_of(total), as_json, facts)


def compose_evidence(found: Sequence[Evidence], delta: float | None, *, adaptive: bool = False) -> Together:
    """What these runs cost together, with who took part where it matters and may be seen."""
    cohorts = {each.folder.run_id: each.users for each in found if each.users is not None}
    return together([each.ledger for each in found], delta, cohorts=cohorts, adaptive=adaptive)


def answer_of(total: Together) -> Answer:
    """Several runs' cost, as the commands tell it."""
    return Answer(
        total.epsilon,
        total.delta,
        total.adjacency,
        total.accountant,
        total.assumptions,
        rho=total.rho,
        reasons_not_private=total.reasons_not_private,
    )


def releases_in_words(count: int) -> str:
    return f"{count} release{'' if count == 1 else 's'}"


def _facts(each: Evidence) -> dict[str, Any]:
    return {
        "run": str(each.folder.path),
        "run_id": each.folder.run_id,
        "releases": len(each.ledger.intents),
        "data": each.data,
        "cohorts": each.cohorts,
    }


def _line(each: Evidence) -> str:
    named = ", ".join(f"{name} {value}" for name, value in each.data.items())
    return f"{each.folder.path}: {releases_in_words(len(each.ledger.intents))} on {named or 'data not named'}"
