"""`tacit keyboard`: mistakes are told before anything is served."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tacit.runs.callbacks import Callback
from tacit.simulation.training import start_run
from tacit.web import serving
from tacit.web.settings import BoardSettings
from tests.support.commands import Tacit
from tests.support.tiny_recipe import tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    start_run(tiny(run={"rounds": 1}), out, Callback())
    return out


def test_it_needs_runs_that_are_there(tacit: Tacit, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    assert "which does not exist" in tacit("keyboard", missing, "--no-browser").refusal(4)
    assert "Expected at most 4 runs side by side, got 5." in tacit("keyboard", *[missing] * 5).refusal(4)


def test_a_run_without_a_model_is_refused(tacit: Tacit, run: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for name in ("run.json", "recipe.toml", "vocabulary.txt"):
        (empty / name).write_bytes((run / name).read_bytes())
    assert "first round has not begun" in tacit("keyboard", empty, "--no-browser").refusal(4)


def test_a_taken_port_is_one_sentence(tacit: Tacit, run: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = tacit("keyboard", run, "--port", port, "--no-browser").refusal(4)
    assert said.startswith(f"Cannot listen on 127.0.0.1:{port}: ")


def test_it_says_where_the_page_is(tacit: Tacit, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serving is tested in tests/web; here it ends at once."""
    address, opened = "http://127.0.0.1:8081/", []

    def served(
        settings: BoardSettings, create: Callable[[BoardSettings], Any], *, ready: Callable[[str, str], None]
    ) -> None:
        create(settings)
        ready(address, address)

    monkeypatch.setattr(serving, "serve", served)
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert tacit("keyboard", run, "--no-browser", "--json").object == {"address": address, "runs": [str(run)]}
    assert opened == []
    answer = tacit("keyboard", run)
    assert answer.err == f"The keyboard is at {address} (Ctrl-C ends it).\n"
    assert opened == [address]


def test_without_the_extra_it_says_what_to_install(tacit: Tacit, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "tacit.web.serving", raising=False)
    answer = tacit("keyboard", run)
    assert answer.refusal(4) == "tacit keyboard needs the extra tacit[web]: uvicorn is not installed."
    assert "pip install 'tacit[web]'" in answer.err
