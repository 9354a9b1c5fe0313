"""`tacit account run` and `compose`: what runs have cost their users, computed from their ledgers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.account.answer import Answer, headline, require_delta, tell
from tacit.cli.options import Json, RunArgument
from tacit.cli.results import emit
from tacit.cli.results.account import AccountRunResult, ComposeResult
from tacit.cli.summary import owners_sentence
from tacit.privacy.accounting.several_runs import Together
from tacit.runs.cost import HAPPENED, cost_of, total_cost
from tacit.runs.evidence import Evidence, evidence_of

DeltaOfAll = Annotated[
    float | None, typer.Option("--delta", help="The delta to compose at; by default the smallest of the runs' own.")
]


def run(run: RunArgument, as_json: Json = False) -> None:
    """Compute what a run has cost its users, from its ledger.

    Example: tacit account run runs/chat
    """
    evidence = evidence_of(run)
    cost = cost_of(evidence.folder, evidence.ledger, cohorts=evidence.users)
    spent, happened = cost.stated, cost.owners_figures()
    if as_json:
        emit(AccountRunResult, spent.as_dict() | {"cohorts": evidence.cohorts, HAPPENED: happened})
        return
    typer.echo(f"{evidence.folder.path}: {releases_in_words(spent.releases)}, unit: {spent.unit}.")
    answer = Answer(
        spent.epsilon,
        spent.delta,
        spent.adjacency,
        spent.accountant,
        spent.assumptions,
        rho=spent.rho,
        reasons_not_private=spent.reasons_not_private,
    )
    tell(answer, None)
    typer.echo(f"  for {spent.rounds_in_words}")
    typer.echo(f"  computed from {spent.computed_from}")
    if happened is not None:
        typer.echo(f"  for the owner, {owners_sentence(happened)}")
    typer.echo(f"  {evidence.cohorts}")


def compose(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, or their names in runs/.")],
    delta: DeltaOfAll = None,
    as_json: Json = False,
) -> None:
    """Compute what several runs have cost together, as if every user had been in all of them.

    The runs must have been planned together. For runs that were chosen after looking at others, use `tacit account odometer`.

    Example: tacit account compose runs/tuning-1 runs/tuning-2 runs/final
    """
    if delta is not None:
        require_delta(delta)
    found = [evidence_of(each) for each in runs]
    total, happened = total_cost([(each.ledger, each.users) for each in found], delta)
    if not as_json:
        for each in found:
            typer.echo(_line(each))
    facts = {"unit": total.unit, "releases": total.releases, "runs": [_facts(each) for each in found]}
    tell(answer_of(total), ComposeResult if as_json else None, facts | {HAPPENED: figures_of(happened)})
    if not as_json:
        tell_basis(happened)


def figures_of(happened: Together | None) -> dict[str, Any] | None:
    """The owner's second figure for JSON."""
    return None if happened is None else {name: answer_of(happened).as_dict()[name] for name in ("epsilon", "rho")}


def tell_basis(happened: Together | None) -> None:
    """Which rounds and which participation a total was computed from; the owner's second figure below it."""
    typer.echo("  for the planned rounds of every run, computed from the participation that their plans promise")
    if happened is not None:
        typer.echo(f"  for the owner, from the participation that happened: {headline(answer_of(happened))}")


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
