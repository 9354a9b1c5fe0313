"""A board as a client or a browser meets it, over runs that a test has made."""

from __future__ import annotations

import os
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tacit.web.app import create_app
from tacit.web.serving import BoardServer, address_of, listening
from tacit.web.settings import BoardSettings
from tacit.web.watcher import RunWatcher

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette would rather have the successor of httpx
    from starlette.testclient import TestClient

HOW = "no Chromium was found: apt-get install chromium, or say where it is with CHROMIUM=/path"
NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 180.0


def until(met: Callable[[], Any], what: str) -> Any:
    """What `met` returns once it is true; fails after three minutes."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if found := met():
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}")


@contextmanager
def client_of(folder: Path, **settings: Any) -> Iterator[TestClient]:
    """A client of a board over the runs in this folder, each of which has been read."""
    wanted = BoardSettings((folder,), **settings)
    headers = {"authorization": f"Bearer {wanted.token}"} if wanted.token else {}
    app = create_app(wanted)
    with TestClient(app, base_url=f"http://127.0.0.1:{wanted.port}", headers=headers) as client:
        read_all(app.state.watcher)
        yield client


def read_all(watcher: RunWatcher) -> None:
    """Wait until every run of the watcher has been read, and its cost is known."""
    until(lambda: all(row.cost_known or row.state == "damaged" for row in watcher.rows()), "the runs to be read")


def keys(client: TestClient) -> dict[str, str]:
    """The key of each run by its name."""
    return {row["name"]: row["key"] for row in client.get("/api/runs").json()["runs"]}


@contextmanager
def board_of(folder: Path, **settings: Any) -> Iterator[str]:
    """A board that listens, in a thread; gives its address, with the token if there is one."""
    with listening("127.0.0.1", settings.pop("port", 0)) as listener:
        wanted = replace(BoardSettings((folder,), **settings), port=listener.getsockname()[1])
        config = uvicorn.Config(
            create_app(wanted), log_config=None, log_level="error", access_log=False, timeout_graceful_shutdown=1
        )
        server = BoardServer(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            until(lambda: server.started, "the board to listen")
            yield address_of(wanted)
        finally:
            server.should_exit = True
            thread.join(timeout=PATIENCE_S)


def chromium() -> str:
    """Where Chromium is; the test is skipped, with how to get one, where there is none."""
    found = os.environ.get("CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(HOW)
    return found


@contextmanager
def browser() -> Iterator[Any]:
    """A browser that the test looks at pages with."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    path = chromium()
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield opened
        finally:
            opened.close()
