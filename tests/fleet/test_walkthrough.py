"""docs/fleet.md as a reader follows it: every command of its two walk-throughs is run, in order.

Ports are free ones of this machine, and 127.0.0.1 stands for the server's name; nothing else is changed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.support.fleet.postgres import PostgresServer, require_programs
from tests.support.ports import kept_port

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "fleet.md").read_text()
# Much longer than any of it takes, on a machine that others use, too.
PATIENCE_S = 900


def blocks(heading: str) -> list[str]:
    """The blocks of code under this heading."""
    (section,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)^## ", PAGE, re.M | re.S)
    return re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)


@pytest.fixture
def ports() -> Iterator[list[int]]:
    """As many as either walk-through needs."""
    with ExitStack() as kept:
        yield [kept.enter_context(kept_port()) for _ in range(4)]


class Shell:
    """Runs scripts in one folder, with `tacit` on the path; whatever they started is ended with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        (programs / "tacit").write_text(f'#!/bin/sh\nexec {sys.executable} -m tacit "$@"\n')
        (programs / "tacit").chmod(0o755)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
        self._running: list[subprocess.Popen[bytes]] = []

    def begin(self, script: str, name: str) -> subprocess.Popen[bytes]:
        """Start a script, which stops at the first command that fails; its output goes to NAME.log."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                ["bash", "-e", "-c", script],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def output(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def end(self) -> None:
        for process in self._running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    missing = [program for program in ("bash", "curl", "openssl") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"The page's commands need {', '.join(missing)}, not found here")
    made = Shell(tmp_path)
    yield made
    made.end()


def test_run_your_own(shell: Shell, ports: list[int]) -> None:
    serve, devices, results = blocks("Run your own")
    port, *_ = ports
    (stopping,) = re.findall(r"stop the devices with `(kill %1 %2)`", PAGE)
    address = f"https://localhost:{port}"
    serve = serve.replace("tacit serve fleet", f"tacit serve fleet --port {port}")
    server = shell.begin(f"{serve}\ntouch ended", "server-shell")
    # `tacit fleet` asks port 8443 unless it is told another one.
    devices = re.sub(r"tacit fleet (\w+)", rf"tacit fleet \1 --server {address}", devices)
    reader = [
        until_ready(address, "server/certificate.pem"),
        devices.replace("https://localhost:8443", address),
        "until [ -e ended ]; do sleep 0.5; done",  # the server prints its summary
        stopping,
        results,
    ]
    process = shell.begin("\n".join(reader), "reader")
    assert process.wait(PATIENCE_S) == 0, shell.output("reader") + shell.output("server-shell")
    assert server.wait(PATIENCE_S) == 0, shell.output("server-shell")
    assert "Next word guessed right" in shell.output("server-shell")
    said = shell.output("reader")
    assert said.count("Enrolled.") == 2
    assert "3 rounds" in said


@pytest.fixture
def database(ports: list[int]) -> Iterator[Path]:
    """A PostgreSQL for this test alone, on the last port, which asks for passwords: its folder."""
    require_programs()
    folder = Path(tempfile.mkdtemp(prefix="tacit-pg-"))
    try:
        server = PostgresServer(folder, port=ports[-1], administrator="administrator")
        yield folder
        server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_on_several_machines(shell: Shell, database: Path, ports: list[int]) -> None:
    """Own words, a database with a password, secure aggregation that holds against a server that lies, signed policies."""
    port_for = dict(zip(["8443", "8444", "8445", "5432"], ports, strict=True))
    # The administrator of the database, on its machine.
    shell.environment |= {"PGHOST": str(database), "PGPORT": str(port_for["5432"]), "PGUSER": "administrator"}
    lines = ["see you tomorrow", "thank you so much", "are you there", "how are you"]
    posts = [{"author": f"a{author}", "body": line} for author in range(8) for line in lines]
    (shell.folder / "forum.jsonl").write_text("".join(json.dumps(post) + "\n" for post in posts))

    def here(block: str) -> str:
        # All at once: one of these ports may have another's digits.
        block = re.sub("|".join(port_for), lambda documented: str(port_for[documented[0]]), block)
        changes = {"fleet.example.org": "127.0.0.1", "DNS:$server": "IP:$server", "--host 0.0.0.0": "--host 127.0.0.1"}
        for documented, mine in changes.items():
            block = block.replace(documented, mine)
        return block

    words, secrets, postgres, processes, policy, devices, results = map(here, blocks("On several machines"))
    script = [
        words,
        secrets,
        postgres,
        processes,
        until_ready(f"https://127.0.0.1:{port_for['8443']}", "certificate.pem"),
        policy,
        devices,
        "wait %3",  # the coordinator
        results,
    ]
    process = shell.begin("\n".join(script), "shell")
    code = process.wait(PATIENCE_S)
    said = shell.output("shell")
    assert code == 0, said
    assert said.count("Enrolled.") == 5
    phones = [(shell.folder / f"phone-{number}.log").read_text() for number in range(1, 6)]
    assert sum(phone.count("Took part in round") for phone in phones) >= 8
    assert "Next word guessed right" in said
    password = (shell.folder / "password").read_text().strip()
    assert password not in said


def until_ready(address: str, certificate: str) -> str:
    """What a reader does before they go on: wait until the server answers."""
    return f"until curl --silent --fail --cacert {certificate} {address}/readyz; do sleep 0.5; done"
