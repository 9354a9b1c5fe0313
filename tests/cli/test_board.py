"""`tacit board`: it starts without JAX, and what is wrong is one sentence."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import httpx
import pytest

from tacit.web.settings import BoardSettings
from tests.support.commands import Tacit
from tests.support.made_runs import made_run


def test_a_port_that_is_taken_and_a_folder_that_is_not_there(tacit: Tacit, here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = tacit("board", "--port", port, "--no-open").refusal(4)
    assert said.startswith(f"Cannot listen on 127.0.0.1:{port}: ")
    assert "nowhere" in tacit("board", "nowhere", "--no-open", "--json").refusal(4)
    assert "Cannot listen on no.such.host" in tacit("board", "--host", "no.such.host", "--no-open").refusal(4)


def test_the_extra_that_is_missing_is_named(tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tacit.web.serving", None)
    answer = tacit("board", "--no-open")
    assert "tacit[web]" in answer.refusal(4)
    assert "pip install 'tacit[web]'" in answer.err


def test_the_token_is_no_part_of_what_settings_print() -> None:
    assert "secret" not in repr(BoardSettings(token="secret"))


def test_the_table_is_shown_without_jax() -> None:
    code = "import sys, tacit.cli.board, tacit.web.app, tacit.web.serving; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_browser_is_not_given_the_token_itself(tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("uvicorn.Config", Mock())
    monkeypatch.setattr("tacit.web.serving.BoardServer", Mock())  # it ends at once
    said = tacit("board", "--port", 0, "--owner", "--json").object
    assert opened[0].split("=")[0] == said["address"].split("=")[0]
    assert opened[0] != said["address"]  # every user of the machine can read the command line of a browser
    opened.clear()
    said = tacit("board", "--port", 0, "--json").object
    assert opened == [said["address"]]


@pytest.mark.process
def test_a_board_serves_until_it_is_stopped(here: Path) -> None:
    made_run(here / "runs" / "one")
    command = [sys.executable, "-m", "tacit", "board", "--port", "0", "--no-open", "--owner", "--json"]
    board = subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert board.stdout is not None
        said = json.loads(board.stdout.readline())
        assert said["folders"] == ["runs"]
        address = said["address"]
        assert "?token=" in address
        with httpx.Client(follow_redirects=True) as client:
            assert "Tacit board" in client.get(address).text
            base = address.split("?")[0]
            assert client.get(f"{base}api/runs").json()["owner"] is True
        assert httpx.get(f"{base}api/runs").status_code == 401
    finally:
        board.terminate()
        _, said = board.communicate(timeout=60)
    assert board.returncode in (0, -15, 143)
    assert "Traceback" not in said
