"""`tacit witness`: countersign heads of ledgers for others, and compare a run with the heads that were signed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tacit.cli.commands import Commands
from tacit.cli.options import Json, RunArgument
from tacit.cli.results import emit
from tacit.cli.results.witness import WitnessCheckResult, WitnessKeyResult, WitnessServeResult, WitnessSubmitResult
from tacit.errors import RunError

app = Commands(
    help="Countersign the heads of ledgers, so that nobody can rewrite one unseen; compare a run with signed heads.",
    no_args_is_help=True,
)

Home = Annotated[Path, typer.Option("--home", help="The witness's folder, with its key and what it has signed.")]
Name = Annotated[
    str | None, typer.Option("--name", help="The name of a new witness's key.", show_default="tacit/witness/…")
]


@app.command()
def serve(
    home: Home,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8090,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="KEY",
            help="The public key of a log to sign for, or a file with one a line; may be repeated. A key is followed by the "
            "log's origin if that is not the key's name.",
        ),
    ] = None,
    first_use: Annotated[
        bool, typer.Option("--first-use", help="Also sign for any run: the key that its log shows first stays its key.")
    ] = False,
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Countersign heads for the logs that are allowed, until Ctrl-C. What was signed is on disk before a signature leaves.

    Example: tacit witness serve --home witness --first-use
    """
    try:
        from tacit.web.witness import serve as serve_witness
    except ImportError as error:
        sentence = f"tacit witness serve needs the extra tacit[web]: {error.name} is not installed."
        raise RunError(sentence, hint="pip install 'tacit[web]'") from None
    from tacit.transparency.witness import Witness, WitnessKey, allowed_keys

    keys = allowed_keys(allow or ())
    witness = Witness(home, WitnessKey.of(home, name), first_use=first_use)
    for key, origin in keys:
        witness.allow(key, origin)

    def ready(address: str) -> None:
        if as_json:
            emit(WitnessServeResult, {"address": address, "public_key": witness.key.public.text()})
        _print(Console(stderr=True), f"The witness listens at {address} (Ctrl-C ends it).")
        _print(Console(stderr=True), f"Its key is {witness.key.public.text()}")

    serve_witness(witness, host=host, port=port, ready=ready)


@app.command()
def key(home: Home, name: Name = None, as_json: Json = False) -> None:
    """Print the public key of a witness, for the recipes of runs and for those who check them; made if there is none.

    Example: tacit witness key --home witness
    """
    from tacit.transparency.witness import WitnessKey

    found = WitnessKey.of(home, name).public.text()
    if as_json:
        emit(WitnessKeyResult, {"public_key": found})
        return
    typer.echo(found)


@app.command()
def check(
    run: RunArgument,
    witness_key: Annotated[
        str | None, typer.Option("--key", help="The witness's public key.", show_default="the one in the ledger")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="Where the witness listens.", show_default="as the recipe says")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the witness.")] = False,
    head: Annotated[
        list[Path] | None, typer.Option("--head", help="A signed head that you kept; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare a run's ledger with the signed head in its folder, with heads you kept, and with the witness's last one.

    Example: tacit witness check runs/demo-1
    """
    from tacit.runs.finding import by_name
    from tacit.runs.folder import RunFolder
    from tacit.runs.witness_check import check_witness
    from tacit.transparency.checkpoint import PublicKey

    known = None if witness_key is None else PublicKey.parse(witness_key)
    folder = RunFolder.open(by_name(run))
    found = check_witness(folder, key=known, address=address, ask=not offline, heads=tuple(head or ()))
    if as_json:
        emit(
            WitnessCheckResult,
            {
                "run_id": found.run_id,
                "witness": found.witness.text(),
                "records": found.records,
                "signed": found.signed,
                "in_folder": found.in_folder,
                "given": list(found.given),
                "at_witness": found.at_witness,
            },
        )
        return
    console, records = Console(), f"{found.records} records"
    _print(console, f"The ledger of {folder.path} has {records} and agrees with every head that was compared.")
    compared = {"in the folder": found.in_folder, "at the witness": found.at_witness}
    for where, size in compared.items():
        if size is not None:
            _print(console, f"  {where}: {size} of {records}")
    for path, size in zip(head or (), found.given, strict=True):
        _print(console, f"  in {path}: {size} of {records}")
    _print(console, f"Signed by {found.witness.text()}")
    if found.signed < found.records:
        _print(console, f"The last {found.records - found.signed} of them are in no signed head yet.")


@app.command()
def submit(run: RunArgument, as_json: Json = False) -> None:
    """Have the ledger's head signed now, for example because the witness did not answer when the run ended.

    Example: tacit witness submit runs/demo-1
    """
    from tacit.runs.finding import by_name
    from tacit.runs.folder import RunFolder
    from tacit.runs.heads import submit as submit_head
    from tacit.runs.witness import Witness

    folder = RunFolder.open(by_name(run))
    witness = Witness.of_settings(folder.recipe())
    if witness is None:
        raise RunError(f"The run {folder.path} was begun without a witness.")
    signed = submit_head(folder, witness)
    if as_json:
        emit(WitnessSubmitResult, {"run": str(folder.path), "records": signed.size})
        return
    _print(Console(), f"The witness {witness.public.name} has signed the head of {signed.size} records.")


def _print(console: Console, sentence: str) -> None:
    console.print(sentence, markup=False, highlight=False, soft_wrap=True)
