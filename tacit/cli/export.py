"""`tacit export`: the model of a run as one file for others, with its guarantee inside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.options import Json, RunArgument
from tacit.cli.results import emit
from tacit.cli.results.keyboard import ExportResult
from tacit.errors import RunError


def export(
    run: RunArgument,
    onnx: Annotated[
        Path | None,
        typer.Option(
            "--onnx",
            help="Write one step of a keyboard: token and state in; words, logits and next state out.",
        ),
    ] = None,
    safetensors: Annotated[
        Path | None, typer.Option("--safetensors", help="Write the parameters and the words.")
    ] = None,
    check: Annotated[
        int,
        typer.Option(
            "--check",
            min=1,
            help="In how many contexts ONNX Runtime must agree with the model.",
        ),
    ] = 1_000,
    as_json: Json = False,
) -> None:
    """Write a run's model as ONNX or safetensors, with its guarantee, accuracy and recipe digest in the file's metadata.

    An ONNX file that disagrees with the model is not written.

    Example: tacit export runs/demo-1 --onnx keyboard.onnx
    """
    if onnx is None and safetensors is None:
        raise RunError("Expected --onnx FILE, --safetensors FILE or both, got neither.")
    # Imported here: JAX takes a second to import, and --help should not wait for it.
    from tacit.api.run import open_run
    from tacit.export.model_files import export_onnx, export_safetensors, require_onnx

    if onnx is not None:
        require_onnx()
    exportable = open_run(run).exportable()
    written: dict[str, Any] = {"guarantee": exportable.card["guarantee"]["headline"]}
    said = []
    if onnx is not None:
        agreement = export_onnx(exportable, onnx, contexts=check)
        written["onnx"] = {"file": str(onnx), "bytes": onnx.stat().st_size, **vars(agreement)}
        said.append(
            f"Wrote {onnx} ({onnx.stat().st_size / 1e6:.1f} MB). ONNX Runtime shows the model's words in all "
            f"{agreement.contexts:,} contexts tried, in the same order in {agreement.same:,}; probabilities differ by at most "
            f"{agreement.largest_difference:.1e} of their size, logits by {agreement.largest_logit_difference:.1e}."
        )
    if safetensors is not None:
        export_safetensors(exportable, safetensors)
        written["safetensors"] = {"file": str(safetensors), "bytes": safetensors.stat().st_size}
        said.append(f"Wrote {safetensors} ({safetensors.stat().st_size / 1e6:.1f} MB).")
    if as_json:
        emit(ExportResult, written)
    else:
        print("\n".join([*said, f"Inside: {written['guarantee']}"]))
