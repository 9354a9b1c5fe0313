"""An application on a port of this machine, in a thread, until a test ends it; and the keyboard's page in a browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from tacit.web.serving import listening


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The address of the application while it is served."""
    with listening("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="error", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


def load(page: Any, address: str) -> Any:
    """The page when its models are loaded."""
    page.goto(address)
    page.wait_for_selector("#bytes-sent, .problem, .model")
    return page
