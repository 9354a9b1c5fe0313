"""`tacit fleet operator` gives somebody a token with a role, or withdraws it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.commands import Tacit


def test_a_token_is_made_shown_once_and_withdrawn(tacit: Tacit, tmp_path: Path) -> None:
    command = ("fleet", "operator", "ann", "--folder", tmp_path)
    token = tacit(*command, "--role", "operator").out.strip()
    assert len(token) == 64
    (kept,) = json.loads((tmp_path / "operators.json").read_text())["operators"]
    assert (kept["name"], kept["role"]) == ("ann", "operator")
    assert token not in json.dumps(kept)
    made = tacit("fleet", "operator", "ann", "--folder", tmp_path, "--json").object
    assert (made["name"], made["role"], len(made["token"])) == ("ann", "viewer", 64)
    assert tacit(*command, "--remove", "--json").object == {"name": "ann", "role": None, "token": None}
    assert "No operator is named 'ann'" in tacit(*command, "--remove").refusal(9)
    assert "the server's folder" in tacit("fleet", "operator", "ann", "--folder", tmp_path / "none").refusal(9)
