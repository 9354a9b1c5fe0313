"""The keyboard's page in a browser, over a small run or over files that a test has made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tacit.web.app import page as serve_page
from tacit.web.app import web_app
from tacit.web.keyboard.app import keyboard_app
from tacit.web.keyboard.rules import keyboard_rules
from tacit.web.settings import BoardSettings
from tests.support.boards import browser as open_browser
from tests.support.served import load, served
from tests.support.typed_runs import offer_of, typed_run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a small model in a made-up world, with a pre-training."""
    return typed_run(tmp_path_factory.mktemp("runs") / "typed-1")


@pytest.fixture(scope="module")  # while one is open, no test of another module can run an event loop of its own
def browser() -> Iterator[Any]:
    with open_browser() as found:
        yield found


@pytest.fixture(scope="session")
def address(run: Path) -> Iterator[str]:
    with served(keyboard_app(BoardSettings(), [run])) as found:
        yield found


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """A page that fails the test at the end if a script has failed in it."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page, failed = context.new_page(), []
    page.on("pageerror", lambda error: failed.append(str(error)))
    yield page
    context.close()
    assert failed == []


@pytest.fixture
def opened(tab: Any, address: str) -> Any:
    """The page over the small run, loaded."""
    return load(tab, address)


@pytest.fixture(scope="session")
def empty() -> Iterator[str]:
    """The built page on a server that offers nothing of its own."""
    app = web_app(BoardSettings(), [], title="Keyboard")
    serve_page(app, "/", "keyboard.html")
    with served(app) as found:
        yield found


Made = Callable[[dict[str, bytes]], Any]


@pytest.fixture
def made(tab: Any, empty: str) -> Made:
    """Opens the page over files that the test has made, by their names."""

    def over(files: dict[str, bytes]) -> Any:
        offer = offer_of(files, keyboard_rules().model_dump())
        tab.route("**/api/keyboard?*", lambda route: route.fulfill(body=offer, content_type="application/json"))
        tab.route("**/api/keyboard/models/*", lambda route: route.fulfill(body=files[named(route.request.url)]))
        return load(tab, empty)

    return over


def named(address: str) -> str:
    """The last part of an address."""
    return unquote(address.rsplit("/", 1)[-1])
