"""What a command printed with `--json`, compared with the schema that docs/json.md publishes for it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import jsonschema_rs

from tacit.cli.results.listing import RESULTS, STREAMS


def command_of(arguments: Sequence[object]) -> str | None:
    """The command that these arguments name, for example "runs show"; None if there is none."""
    words = [str(each) for each in arguments]
    while words[:1] == ["--import"]:
        words = words[2:]
    names = [" ".join(words[:count]) for count in range(1, 4)]
    return max((name for name in names if name in RESULTS), key=len, default=None)


def require_published(arguments: Sequence[object], out: str) -> None:
    """Fails unless stdout is one JSON object, or one a line for a stream, and each fits the command's schema."""
    name = command_of(arguments)
    assert name is not None, f"no schema is published for {arguments}"
    lines = out.splitlines()
    assert name in STREAMS or len(lines) == 1, out
    schema = jsonschema_rs.validator_for(RESULTS[name].model_json_schema())
    for line in lines:
        schema.validate(json.loads(line))
