"""The key of a run's log: it signs the heads of the log whose records are the lines of the run's ledger.

The log's origin, which is also the name of its key, is "tacit/run/" and the run's id. Its leaves are the ledger's lines, each
without its line end. The private key is made when it is first asked for, and lies in the run's private folder. Whoever has it
can sign other heads for this run; that is what a witness is against.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from tacit.errors import RunError
from tacit.files import refuse_if_others_can_read
from tacit.secagg import keys
from tacit.transparency.checkpoint import PublicKey
from tacit.transparency.witness import RUNS, create_once

_NAME = "log.key"


def origin_of(run_id: str) -> str:
    """The origin of the log of the run with this id."""
    return f"{RUNS}{run_id}"


def log_key(folder: Path) -> bytes:
    """The private key of the log of the run in this folder; made, durably, if there is none yet.

    RunError if there is no private folder, as in a copy for others, or if the key is damaged or may be read by others.
    """
    private = folder / "private"
    if not private.is_dir():
        raise RunError(f"The folder {folder} has no private/, so the run's log cannot be signed here.")
    path = private / _NAME
    if not path.exists():
        create_once(path, secrets.token_bytes(keys.KEY_BYTES))
    refuse_if_others_can_read(path)
    found = path.read_bytes()
    if len(found) != keys.KEY_BYTES:
        raise RunError(f"The file {path} is damaged: expected a key of {keys.KEY_BYTES} bytes, got {len(found)}.")
    return found


def public_log_key(folder: Path, run_id: str) -> PublicKey:
    """What the signatures of the run's log are checked with."""
    return PublicKey(origin_of(run_id), keys.identity_public(log_key(folder)))
