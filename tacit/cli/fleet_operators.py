"""`tacit fleet operator`: give somebody a token with a role, or withdraw it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.fleet import without_extra
from tacit.cli.fleet_demo import app
from tacit.cli.options import Json
from tacit.cli.results import emit
from tacit.cli.results.fleet import OperatorResult
from tacit.errors import FleetError

__all__ = ["app"]


class Role(StrEnum):
    """What an operator may do."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    OWNER = "owner"


@app.command()
def operator(
    name: Annotated[str, typer.Argument(help="Whose token it is; the log of operators has this name.")],
    folder: Annotated[Path, typer.Option(help="The server's folder.")],
    role: Annotated[Role, typer.Option(help="What the token is good for.")] = Role.VIEWER,
    remove: Annotated[bool, typer.Option("--remove", help="Withdraw the token instead.")] = False,
    as_json: Json = False,
) -> None:
    """Make a token for somebody and print it; it cannot be shown again, and replaces the one before.

    A viewer sees status and metrics; an operator also acts on devices and rounds; an owner also makes enrolment tokens. A
    running server takes notice at once, and writes what they do into operators-log.jsonl.

    Example: tacit fleet operator ann --role operator --folder server > ann.token
    """
    try:
        from tacit.fleet.server.operators import OperatorRole, add_operator, remove_operator
    except ImportError as error:
        raise without_extra("tacit fleet operator", error.name) from None
    if not folder.is_dir():
        raise FleetError(f"Expected --folder to be the server's folder, got {folder}, which is none.")
    if remove:
        remove_operator(folder, name)
    token = None if remove else add_operator(folder, name, OperatorRole(role.value))
    if as_json:
        emit(OperatorResult, {"name": name, "role": None if remove else role.value, "token": token})
        return
    typer.echo("Withdrawn." if token is None else token)
