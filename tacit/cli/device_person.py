"""`tacit device`, for the person: what was asked and sent, the server's receipts and log, and how to leave."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tacit.cli.device import HomeFolder, app, require_extra, say
from tacit.cli.options import Json
from tacit.cli.results import emit
from tacit.cli.results.person import CompareHeadsResult, HeadResult, LeaveResult, ReceiptsResult, StatementResult
from tacit.errors import FleetError

__all__ = ["app"]

if TYPE_CHECKING:
    from tacit.fleet.device.account import Contributed
    from tacit.fleet.device.log_memory import LogMemory


@app.command()
def statement(home: HomeFolder, as_json: Json = False) -> None:
    """Say what was asked of this device, what it sent, what that cost, what it refused, and how to leave.

    It is made from the device's own files, also after it has left. Nothing is asked of the server.
    """
    require_extra()
    from tacit.fleet.device.home import Home
    from tacit.fleet.device.statement import statement_of

    with Home.open(home, or_left=True, to_read=True) as opened:
        found = statement_of(opened)
    if not as_json:
        for sentence in found.sentences():
            say(Console(), sentence)
        return
    memory = found.memory
    emit(
        StatementResult,
        {
            "server": found.server,
            "rounds": memory.server.rounds,
            "most_rounds": found.policy.most_rounds,
            "tasks": len(memory.tasks),
            "contributions": [_contribution(each) for each in found.contributions],
            "epsilon_proven": found.epsilon if math.isfinite(found.epsilon) else None,
            "rounds_proven": found.proven,
            "epsilon_if_server_adds_noise": found.stated if math.isfinite(found.stated) else None,
            "delta": found.policy.delta,
            "restored": memory.restored,
            "log": _head(memory.log),
            "two_logs": memory.log.fork is not None,
            "refusals": [{"at": each.at, "sentence": each.sentence} for each in memory.refusals],
            "left": found.has_left,
            "server_keeps": [] if found.left is None else list(found.left.kept),
        },
    )


@app.command()
def receipts(
    home: HomeFolder,
    check: Annotated[bool, typer.Option("--check", help="Ask the server's log for those not found in it yet.")] = False,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="A ledger that was published: it must have the device's rounds.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the server's receipt for each contribution; with --check, prove that the server's log counts them.

    With --ledger, compare a run's published ledger.jsonl, from which epsilon is computed, with what the log said of this
    device's rounds.

    A contribution that the log does not count a day after its round, or a round that added up fewer contributions than its
    task promised, is an error.
    """
    require_extra()
    from tacit.fleet.device import account
    from tacit.fleet.device.connection import Connection
    from tacit.fleet.device.home import Home
    from tacit.fleet.device.public_log import followed
    from tacit.fleet.device.published import found_in_ledger
    from tacit.fleet.device.receipts import check_all
    from tacit.fleet.device.statement import fate_of

    with Home.open(home, or_left=not check, to_read=not check) as opened:
        if check:
            connection = Connection(opened)
            try:
                log = followed(connection, opened.memory.log, opened.policy)
                opened.remember(opened.memory.model_copy(update={"log": log}))
                mine = account.read(opened.account_path)
                check_all(connection, log, opened.account_path, now=connection.now(), most=len(mine))
            finally:
                connection.close()
        found = account.read(opened.account_path)
        noise = {name: task.noise for name, task in opened.memory.tasks.items()}
    in_ledger = None if ledger is None else found_in_ledger(found, ledger, noise)
    if as_json:
        listed = [_contribution(each) for each in found]
        emit(ReceiptsResult, {"contributions": listed, "checked": check, "in_ledger": in_ledger})
        return
    if not found:
        say(Console(), "The device has sent nothing.")
    for each in found:
        counted = "" if each.checked is None else f", among {each.checked.counted} contributions"
        say(Console(), f"Round {each.sent.round} of {each.sent.name!r}: {fate_of(each)}{counted}")
    if in_ledger is not None:
        say(Console(), f"The ledger {ledger} has all {in_ledger} committed rounds of this device in its run.")


@app.command()
def head(home: HomeFolder, as_json: Json = False) -> None:
    """Print the last signed head of the server's log that this device has seen, for another device to compare.

    Example: tacit device head --home phone > phone.head
    """
    require_extra()
    from tacit.fleet.device.home import Home

    with Home.open(home, or_left=True, to_read=True) as opened:
        log = opened.memory.log
    if (found := _head(log)) is None:
        raise FleetError("This device has seen no head of a log yet.", hint="Let it check in first: tacit device run")
    if as_json:
        emit(HeadResult, found)
        return
    typer.echo(found["head"], nl=False)


@app.command()
def compare(
    other: Annotated[Path, typer.Argument(help="Another device's head, from tacit device head.")],
    home: HomeFolder,
    as_json: Json = False,
) -> None:
    """Check that another device was shown the same log. If two logs were shown, the device takes part in no further round."""
    require_extra()
    from tacit.fleet.device.connection import Connection
    from tacit.fleet.device.home import Home
    from tacit.fleet.device.public_log import compared

    try:
        text = other.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise FleetError(f"Cannot read a head in {other}.", hint="Write it with: tacit device head > FILE") from None
    with Home.open(home) as opened:
        connection = Connection(opened)
        try:
            found, log = compared(connection, opened.memory.log, text)
        finally:
            connection.close()
        opened.remember(opened.memory.model_copy(update={"log": log}))
    if as_json:
        emit(CompareHeadsResult, found.model_dump())
    else:
        say(Console(), found.sentence)
    if not found.one_log:
        raise typer.Exit(FleetError.exit_code)


@app.command()
def leave(
    home: HomeFolder,
    keep_text: Annotated[bool, typer.Option("--keep-text", help="Leave the copy of the text in the folder.")] = False,
    without_server: Annotated[
        bool, typer.Option("--without-server", help="Delete key and text here, and tell the server nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Leave for good: the server never selects this device again and confirms that; key and text are deleted here.

    What the device sent before cannot be taken out of a model. The confirmation says what the server keeps.
    """
    require_extra()
    from tacit.fleet.device.connection import Connection
    from tacit.fleet.device.home import Home
    from tacit.fleet.device.leaving import leave as leave_server

    with Home.open(home, or_left=True) as opened:
        # After a kill there is a confirmation, and something left to delete.
        connection = None if without_server or opened.left_path.is_file() else Connection(opened)
        try:
            found = leave_server(opened, connection, keep_text=keep_text)
        finally:
            if connection is not None:
                connection.close()
    kept = () if found.confirmed is None else found.confirmed.kept
    if as_json:
        told = {"confirmed": found.confirmed is not None, "kept": list(kept), "kept_text": found.kept_text}
        emit(LeaveResult, told)
        return
    console = Console()
    if found.confirmed is not None:
        say(console, "The server confirmed that this device has left, and will not select it again. It keeps:")
        for each in kept:
            say(console, f"  {each}")
    say(console, f"Deleted here: the key{'' if found.kept_text else ', the text'} and the downloads.")


def _contribution(each: Contributed) -> dict[str, Any]:
    from tacit.fleet.device.statement import fate_of

    shown = each.sent.model_dump(exclude={"line", "until", "issue", "run", "kind", "body"})
    return {**shown, "fate": fate_of(each), "counted": None if each.checked is None else each.checked.counted}


def _head(log: LogMemory) -> dict[str, Any] | None:
    found = log.checkpoint
    if found is None:
        return None
    return {
        "origin": found.origin,
        "size": found.size,
        "root": found.root.hex(),
        "head": log.head,
        "key": log.key,
    }
