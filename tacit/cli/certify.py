"""`tacit certify`: everything about a run that somebody needs who does not believe us, in one signed file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.options import Json, RunArgument
from tacit.cli.results import emit
from tacit.cli.results.runs import CertifyResult


def certify(
    run: RunArgument,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("certificate.json"),
    files: Annotated[
        list[Path] | None,
        typer.Option("--export", metavar="FILE", help="An export of the model, to be named in it; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a run's certificate: ledger, statement and digests, signed. Others compute epsilon from it without Tacit.

    It is signed with the key of the run's log, which is in the run's private folder. Give the public key to whoever is to
    check the certificate in another way than the certificate.

    Example: tacit certify runs/demo-1 --export demo.onnx
    """
    from tacit.api.run import open_run
    from tacit.runs.log_key import public_log_key

    opened = open_run(run)
    opened.certify(out, files=files or ())
    key = public_log_key(opened.path, opened.run_id).text()
    stated = opened.guarantee()
    if as_json:
        found = {"run": str(opened.path), "certificate": str(out), "public_key": key, "headline": stated.headline}
        emit(CertifyResult, found)
        return
    print(f"Wrote {out} ({out.stat().st_size / 1e3:,.0f} kB): {stated.headline}")
    print(f"Signed with the run's log key: {key}")
    print(f"To check it, without Tacit: python tacit_verify.py {out} --key '{key}'")
