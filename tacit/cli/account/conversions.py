"""`tacit account zcdp`, `group` and `conventions`: convert one way to state a cost to another."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from tacit.cli.account.answer import Answer, require_at_least, require_delta, require_sensible, tell
from tacit.cli.options import Delta, Json
from tacit.cli.results import emit
from tacit.cli.results.account import ConventionsResult, ConversionResult
from tacit.errors import RecipeError
from tacit.privacy.accounting.conventions import CONVENTIONS
from tacit.privacy.accounting.group import group_epsilon_delta
from tacit.privacy.accounting.zcdp import epsilon_of_any, epsilon_of_gaussian
from tacit.privacy.record.reasons import Reason, Why


def zcdp(
    rho: Annotated[float, typer.Option("--rho", help="The rho of zero-concentrated differential privacy.")],
    delta: Delta,
    any_mechanism: Annotated[
        bool, typer.Option("--any-mechanism", help="Do not assume Gaussian noise: convert through Rényi divergences.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Convert rho to epsilon, by the exact curve of the Gaussian mechanism.

    Example: tacit account zcdp --rho 0.25 --delta 1e-10
    """
    require_sensible("--rho", rho)
    require_delta(delta)
    if any_mechanism:
        value, name, assumption = epsilon_of_any(rho, delta), "zCDP through RDP (alpha times rho)", "rho is right"
    else:
        value, name = epsilon_of_gaussian(rho, delta), "exact Gaussian curve"
        assumption = "rho is that of Gaussian noise, or of a composition of Gaussian mechanisms"
    answer = Answer(value, delta, "as rho was stated", name, (assumption,), rho=rho)
    tell(answer, ConversionResult if as_json else None)


def group(
    epsilon: Annotated[float, typer.Option("--epsilon", help="The epsilon of one user.")],
    delta: Annotated[float, typer.Option("--delta", help="The delta of one user.")],
    size: Annotated[int, typer.Option("--size", help="How many users are protected together.")],
    as_json: Json = False,
) -> None:
    """Convert the guarantee for one user to one for a group of k users: kε, and δ times the sum of e^(iε) for i below k.

    Production (section V) takes the larger k e^((k-1)ε) δ, and so has 0.53 where this prints 0.052.

    Example: tacit account group --epsilon 1 --delta 1e-8 --size 16
    """
    require_at_least("--epsilon", epsilon, 0)
    require_at_least("--size", size, 1)
    if not 0 <= delta < 1:
        raise RecipeError(f"Expected --delta of at least 0 and below 1, got {delta:g}.")
    value, grown = group_epsilon_delta(epsilon, delta, size)
    reasons = (Reason(Why.DELTA_TOO_LARGE),) if math.isinf(value) else ()
    assumptions = ("(epsilon, delta) holds for one user",)
    adjacency = f"{size} users at once, each changed as in the guarantee for one user"
    answer = Answer(value, grown, adjacency, "group privacy", assumptions, reasons_not_private=reasons)
    tell(answer, ConversionResult if as_json else None)


def conventions(as_json: Json = False) -> None:
    """List the ways in which papers count epsilon, and how each differs from what is proven."""
    if as_json:
        emit(ConventionsResult, {"conventions": [vars(each) for each in CONVENTIONS.values()]})
        return
    for each in CONVENTIONS.values():
        typer.echo(f"{each.name} (tacit account {each.command})\n  {each.paper}\n  {each.accountant}; {each.adjacency}")
        typer.echo(f"  differs: {each.differs}.")
