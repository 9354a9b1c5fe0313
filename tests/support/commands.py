"""The `tacit` command as a person uses it: what they typed, what they read on either stream, the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tacit.cli.app import main
from tests.support.published import require_published


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def object(self) -> dict[str, Any]:
        """The one JSON object on stdout; fails if there is anything else."""
        assert self.code == 0, self.err
        assert self.out.endswith("}\n")
        assert self.out.count("\n") == 1
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    def refusal(self, code: int) -> str:
        """The one sentence of a mistake: the exit code is right, stdout is empty, there is at most a hint below it."""
        assert self.code == code, self.err
        assert self.out == ""
        assert "Traceback" not in self.err
        lines = [line for line in self.err.splitlines() if not line.startswith(("round ", "Plan: ", "Vocabulary: "))]
        assert lines, "nothing on stderr"
        assert lines[0].startswith("error: ")
        assert lines[0].endswith(".")
        assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: ")), self.err
        return lines[0].removeprefix("error: ")


Tacit = Callable[..., Answer]


def everything(folder: Path) -> dict[str, bytes]:
    """All files below a folder and what is in them."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def in_this_process(capfd: pytest.CaptureFixture[str]) -> Tacit:
    """Runs the command in this process. With --json, what it prints has to fit the published schema."""

    def run(*arguments: object) -> Answer:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        code = ended.value.code
        if "--json" in arguments and out:
            require_published(arguments, out)
        return Answer(code if isinstance(code, int) else 0 if code is None else 1, out, err)

    return run
