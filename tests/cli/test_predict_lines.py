"""`tacit predict RUN` without words: it answers line after line, with the model loaded once."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.runs.callbacks import Callback
from tacit.simulation.training import start_run
from tacit.training import trained
from tests.support.commands import Tacit
from tests.support.ctrl_c import hearing_ctrl_c
from tests.support.tiny_recipe import tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    start_run(tiny(run={"rounds": 1}), out, Callback())
    return out


class Terminal(io.StringIO):
    """Somebody who types these lines."""

    def isatty(self) -> bool:
        return True


def test_each_line_of_stdin_gets_a_line(tacit: Tacit, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("see you\n\nzyzzyva\nno line end"))
    answer = tacit("predict", run, "--count", 2)
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert len(lines) == 4
    single = tacit("predict", run, "see you", "--count", 2).out.split()
    assert lines[0].split() == single


def test_json_is_an_object_a_line(tacit: Tacit, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("see you\nzyzzyva\n"))
    found = [json.loads(line) for line in tacit("predict", run, "--json").out.splitlines()]
    assert [(each["text"], each["unknown"], len(each["suggestions"])) for each in found] == [
        ("see you", [], 3),
        ("zyzzyva", ["zyzzyva"], 3),
    ]


def test_the_model_is_loaded_once(tacit: Tacit, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads, load = [], trained.load_trained

    def counted(*arguments: object) -> object:
        loads.append(1)
        return load(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(trained, "load_trained", counted)
    monkeypatch.setattr(sys, "stdin", io.StringIO("see\nyou\nthere\n"))
    assert len(tacit("predict", run).out.splitlines()) == 3
    assert len(loads) == 1


def test_a_person_gets_a_prompt_on_the_other_stream(tacit: Tacit, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("see zyzzyva\n"))
    answer = tacit("predict", run)
    assert answer.code == 0
    assert answer.out.count("\n") == 1
    assert "Nothing that you type is kept" in answer.err
    assert answer.err.count("> ") == 2  # the second one is answered by Ctrl-D
    assert "treated as unknown words: zyzzyva" in answer.err


def test_ctrl_c_ends_it_without_an_error(tacit: Tacit, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(Terminal):
        def readline(self, size: int | None = -1, /) -> str:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Interrupted())
    answer = tacit("predict", run)
    assert answer.code == 0
    assert "Traceback" not in answer.err


@pytest.mark.process
@pytest.mark.parametrize("ends", ["Ctrl-D", "Ctrl-C"])
def test_on_a_terminal(run: Path, ends: str) -> None:
    """A real terminal: the second answer comes at once, and nothing typed is left in a history."""
    mine, theirs = pty.openpty()
    command = [sys.executable, "-m", "tacit", "predict", str(run)]
    with hearing_ctrl_c():
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    try:
        _read_until(mine, b"> ")
        os.write(mine, b"see you\n")
        _read_until(mine, b"> ")
        os.write(mine, b"thank you so\n")
        assert b"%" in _read_until(mine, b"> ")
        if ends == "Ctrl-D":
            os.write(mine, b"\x04")
        else:
            process.send_signal(signal.SIGINT)
        assert b"Traceback" not in _read_until(mine, None)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(mine)


def _read_until(terminal: int, end: bytes | None) -> bytes:
    """What the terminal shows until this, or until the process ends."""
    seen = b""
    while end is None or not seen.endswith(end):
        try:
            more = os.read(terminal, 1024)
        except OSError:  # the other side is closed
            return seen
        if not more:
            return seen
        seen += more
    return seen
