"""Makes the certificate of a run: its ledger, its statement and the digests of what it released, signed with its log's key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import RunError
from tacit.files import write_atomic
from tacit.privacy.noise.strategies import from_description, stretches
from tacit.privacy.noise.strategies.toeplitz import Toeplitz
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.records import Opened
from tacit.privacy.statement.guarantee import Guarantee
from tacit.runs.folder import RunFolder
from tacit.runs.heads import held_head
from tacit.runs.log_key import log_key, origin_of
from tacit.runs.software import software
from tacit.transparency.certificate import arrays_digest, signed_certificate

# Public files that say what the run was told, and the audit's part of the report for everybody.
_TOLD = ("recipe.toml", "vocabulary.txt")
_AUDIT = "[0-9][0-9]-gate-audit.json"


def write_certificate(
    folder: RunFolder,
    stated: Guarantee,
    model: Mapping[str, NDArray[np.generic]] | None,
    out: Path,
    *,
    files: Sequence[Path] = (),
) -> None:
    """Write the certificate of the run to `out`. `model` are the released model's arrays; `files` are exports of it.

    RunError while a process is writing to the run: the certificate would be old when it is written.
    """
    with folder.open_ledger() as ledger:
        lines = folder.ledger_path.read_bytes().split(b"\n")[:-1]
        if stated.head != ledger.head or len(lines) != ledger.length:
            raise RunError(f"The run {folder.path} went on while its certificate was made; make it again.")
        content = _content(folder, ledger.ledger, stated, model, files)
        certificate = signed_certificate(content, lines, origin_of(folder.run_id), log_key(folder.path))
    write_atomic(out, certificate, kept="nothing was left behind")


def _content(
    folder: RunFolder,
    ledger: Ledger,
    stated: Guarantee,
    model: Mapping[str, NDArray[np.generic]] | None,
    files: Sequence[Path],
) -> dict[str, Any]:
    head = held_head(folder.path)
    last = ledger.committed
    return {
        "run": folder.run_id,
        "strategy": strategy_column(ledger.opened),
        "statement": stated.as_json(),
        "audit": _audit(folder),
        "files": _digests(folder, files),
        "model": None
        if last is None
        else {
            "round": last.rounds_done,
            "checkpoint": last.checkpoint,
            "arrays": None if model is None else arrays_digest(model),
        },
        "code": software(),
        "witnesses": [] if head is None else [head.text()],
    }


def strategy_column(opened: Opened) -> dict[str, list[float]] | None:
    """The first column of the noise's Toeplitz matrix, over the longest stretch without a restart; None where it is none."""
    if not opened.strategy:
        return None
    strategy = from_description(opened.strategy)
    if not isinstance(strategy, Toeplitz):
        return None
    longest = max(stretches(opened.rounds, opened.plan.get("restarts", ())))
    return {"coefficients": [float(each) for each in strategy.column(longest)]}


def _audit(folder: RunFolder) -> dict[str, Any] | None:
    """What the audit of the gate could have found. What it found depends on the noise, so it is for the owner alone."""
    for path in folder.sections_path.glob(_AUDIT):
        section = json.loads(path.read_text(encoding="utf-8"))
        return {"title": section["title"], "text": [each["text"] for each in section["blocks"] if "text" in each]}
    return None


def _digests(folder: RunFolder, files: Sequence[Path]) -> dict[str, str]:
    told = {name: folder.path / name for name in _TOLD if (folder.path / name).exists()}
    exports = {path.name: path for path in files}
    if len(exports) < len(files) or exports.keys() & told.keys():
        raise RunError("Expected files with different names, got two of one name.")
    found = {}
    for name, path in {**told, **exports}.items():
        try:
            with path.open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise RunError(f"Cannot read {path} ({error.strerror}).") from None
    return found
