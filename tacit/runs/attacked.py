"""The result of `tacit audit run`, kept in the run's private folder: figures alone, never a canary's text.

Ranks and lower bounds are functions of the model and of who was planted, and they are no part of the guarantee, so they are for
the owner alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tacit.errors import RunError
from tacit.files import write_atomic
from tacit.runs.folder import RunFolder

RESULT = "audit.json"


def keep_attack(folder: RunFolder, result: Mapping[str, Any]) -> None:
    """Keep what an audit of the run's model found (`AuditOutcome.as_dict`), for whoever may open the private folder."""
    write_atomic(folder.private_path / RESULT, json.dumps(result, allow_nan=False) + "\n", mode=0o600)


def kept_attack(folder: RunFolder) -> dict[str, Any] | None:
    """What the last audit found; None if there was none."""
    path = folder.private_path / RESULT
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise RunError(f"The run {folder.path} is damaged: {path} cannot be read.")
    return found
