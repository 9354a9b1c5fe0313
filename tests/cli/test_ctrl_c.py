"""Ctrl-C, in real processes: a command ends with exit code 130 and no traceback, from its first import to its last file."""

from __future__ import annotations

import fcntl
import importlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest

from tacit.cli.app import main
from tacit.cli.entry import _Interrupt
from tests.support.ctrl_c import hearing_ctrl_c
from tests.support.tiny_recipe import tiny

pytestmark = pytest.mark.process
# The first thing a command prints under -X importtime once Python itself has started and `tacit` listens for Ctrl-C.
LISTENING = "tacit.cli.entry"
TRAIN = ("train", "tiny.toml", "--out", "new", "--set", "run.rounds=100000", "--set", "privacy.noise_multiplier=100")
EXPORT = ("export", "run", "--onnx", "model.onnx", "--check", "100000000")
PREDICT = ("predict", "run", "see you")


@dataclass(frozen=True)
class Stopped:
    """A process that got SIGINT while it ran, and what it printed apart from its imports."""

    code: int
    out: str
    err: str


def stopped(*arguments: str, folder: Path, module: str | None = None, seconds: float = 0.0) -> Stopped:
    """Run `tacit` and press Ctrl-C after it has imported `module` (None: as soon as it listens) and so many seconds passed."""
    with hearing_ctrl_c():
        process = subprocess.Popen(
            [sys.executable, "-X", "importtime", "-m", "tacit", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    out: list[str] = []
    if process.stderr and hasattr(
        fcntl, "F_SETPIPE_SZ"
    ):  # so that the process waits at its imports until they are read here
        fcntl.fcntl(process.stderr.fileno(), fcntl.F_SETPIPE_SZ, 4_096)
    with process:
        reader = Thread(target=lambda: out.append(process.stdout.read() if process.stdout else ""))
        reader.start()
        err, listening, sent = [], False, False
        for line in process.stderr or ():
            if not line.startswith("import time:"):
                err.append(line)
                continue
            name = line.rpartition("|")[2].strip()
            if listening and not sent and module in (None, name):
                time.sleep(seconds)
                process.send_signal(signal.SIGINT)
                sent = True
            listening = listening or name == LISTENING
        reader.join()
    assert sent, f"{module} was never imported"
    return Stopped(process.returncode, "".join(out), "".join(err))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tiny.toml and a finished run of it."""
    folder = tmp_path_factory.mktemp("ctrl-c")
    (folder / "tiny.toml").write_text(tiny().to_toml())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(SystemExit) as ended:
            main(["train", "tiny.toml", "--out", "run", "--json"])
    assert not ended.value.code
    return folder


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("arguments", [TRAIN, EXPORT, PREDICT], ids=lambda arguments: arguments[0])
@pytest.mark.parametrize("module", ["typer", "numpy", "jaxlib", "jax", "equinox"])
def test_during_imports(trained: Path, arguments: tuple[str, ...], module: str) -> None:
    before = listed(trained)
    ended = stopped(*arguments, folder=trained, module=module)
    assert (ended.code, ended.out) == (130, "")
    assert ended.err in ("", "Stopped before the run began; nothing was written.\n")
    assert listed(trained) == before


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 6.0])
def test_export_at_any_moment_leaves_no_file(trained: Path, seconds: float) -> None:
    before = listed(trained)
    ended = stopped(*EXPORT, folder=trained, seconds=seconds)
    assert (ended.code, ended.out, ended.err) == (130, "", "")
    assert listed(trained) == before


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 6.0])
def test_training_at_any_moment(trained: Path, tmp_path: Path, seconds: float) -> None:
    (tmp_path / "tiny.toml").write_bytes((trained / "tiny.toml").read_bytes())
    ended = stopped(*TRAIN, folder=tmp_path, seconds=seconds)
    assert (ended.code, ended.out) == (130, "")
    assert "Traceback" not in ended.err
    assert "Exception" not in ended.err
    if (tmp_path / "new").exists():
        assert ended.err.splitlines()[-1].endswith("Go on with: tacit train --resume new")


def test_an_import_under_way_is_finished_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.1)\nfinished = True\n"
    (tmp_path / "stopped_half_way.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.signal(signal.SIGINT, _Interrupt())
    try:
        imported = importlib.import_module("stopped_half_way")
        assert imported.finished
        with pytest.raises(KeyboardInterrupt):
            time.sleep(10)
    finally:
        signal.signal(signal.SIGINT, before)


class _Finalizer:
    """Where Ctrl-C is pressed while Python finalizes an object: an exception there is reported and ignored."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)


def test_what_a_finalizer_ignored_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt = _Interrupt()
    before = signal.signal(signal.SIGINT, interrupt)
    monkeypatch.setattr(sys, "unraisablehook", interrupt.unraisable)
    try:
        with pytest.raises(KeyboardInterrupt):
            _finalize_and_wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _finalize_and_wait() -> None:
    _Finalizer()
    time.sleep(10)
