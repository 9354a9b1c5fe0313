"""The page itself: nothing leaves it, it works without its server, everybody can use it, and it says what is wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tacit.api.run import open_run
from tacit.web.app import STATIC, create_app
from tacit.web.keyboard.app import keyboard_app
from tacit.web.rows import key_of
from tacit.web.settings import BoardSettings
from tests.support.served import load, served

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[3]
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"


def strip(page: Any) -> list[str]:
    return [each.inner_text() for each in page.locator(".slot .word").all()]


@contextmanager
def command(*arguments: object) -> Iterator[str]:
    """`tacit keyboard` as somebody starts it; the address that it prints."""
    words = [sys.executable, "-m", "tacit", "keyboard", *map(str, arguments), "--port", "0", "--no-browser"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"})
    try:
        assert process.stderr is not None
        found = re.search(r"http://\S+", line := process.stderr.readline())
        assert found is not None, line + process.stderr.read()
        yield found[0]
    finally:
        process.kill()
        process.communicate()


def test_it_goes_on_when_the_command_is_killed_and_the_network_is_off(tab: Any, run: Path) -> None:
    with command(run) as address:
        load(tab, address)
        tab.keyboard.type("see ")
    tab.context.set_offline(True)
    tab.keyboard.type("you ")
    expected = [word for word, _ in open_run(run).predict("see you")]
    assert strip(tab) == expected
    tab.keyboard.press("Alt+1")
    assert tab.locator("#message").input_value() == f"see you {expected[0]} "
    tab.locator(".savings dd", has_text="instead of").first.wait_for()
    assert tab.locator("#bytes-sent").inner_text() == "0 bytes"


def test_typing_sends_nothing_and_the_page_refuses_to(tab: Any, run: Path) -> None:
    arrived: list[str] = []
    app = keyboard_app(BoardSettings(), [run])

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket"):
            arrived.append(f"{scope['path']}?{scope['query_string'].decode()}")
        await app(scope, receive, send)

    with served(noting) as address:
        load(tab, address)
        loaded = list(arrived)
        assert any("/api/keyboard/models/" in each for each in loaded)
        tab.keyboard.type("see you later, and this is a secret. ")
        tab.keyboard.press("Enter")
        tab.get_by_label("Probabilities").check()
        tab.wait_for_timeout(300)
        assert arrived == loaded
        assert tab.locator("#bytes-sent").inner_text() == "0 bytes"
        # Even code of the page itself cannot: the browser refuses, and the counter has seen each attempt.
        before = 0
        for name, code in ways_out(address).items():
            assert tab.evaluate(code) == "refused", name
            shown = int(tab.locator("#bytes-sent").inner_text().split()[0].replace(",", ""))
            assert shown > before or name not in ("fetch", "xhr", "socket", "peers"), name
            before = shown
        tab.evaluate(f"navigator.sendBeacon('{address}', 'secret')")
        tab.wait_for_timeout(300)
        assert arrived == loaded
    assert tab.locator(".proof.leaks").count() == 1


def ways_out(address: str) -> dict[str, str]:
    """Code that tries to send something, by the way it takes; it says whether that was refused."""
    made = "const e = document.createElement('{}'); e.onerror = () => done('refused'); e.onload = () => done('sent');"
    return {
        "fetch": f"fetch('{address}', {{method: 'POST', body: 'secret'}}).then(() => 'sent', () => 'refused')",
        "xhr": f"new Promise((done) => {{ const x = new XMLHttpRequest(); x.open('POST', '{address}');"
        " x.onerror = () => done('refused'); x.onload = () => done('sent'); x.send('secret'); })",
        "socket": f"new Promise((done) => {{ try {{ const s = new WebSocket('{address.replace('http', 'ws')}');"
        " s.onerror = () => done('refused'); s.onopen = () => done('sent'); } catch { done('refused'); } })",
        # No policy of a browser covers these: the page takes them away.
        "peers": "(() => { try { new RTCPeerConnection(); return 'sent'; } catch { return 'refused'; } })()",
        "picture": f"new Promise((done) => {{ {made.format('img')} e.src = '{address}static/icon.svg?secret'; }})",
        "script": f"new Promise((done) => {{ {made.format('script')} e.src = '{address}static/theme.js?secret';"
        " document.head.append(e); })",
        "style": f"new Promise((done) => {{ {made.format('link')} e.rel = 'stylesheet';"
        f" e.href = '{address}static/board.css?secret'; document.head.append(e); }})",
    }


def test_nobody_gives_a_page_its_peers_back(opened: Any) -> None:
    """What a policy does not cover is taken away for good, before any text is typed."""
    for attempt in (
        "delete globalThis.RTCPeerConnection;",
        "globalThis.RTCPeerConnection = class {};",
        "Object.defineProperty(globalThis, 'RTCPeerConnection', {value: class {}});",
    ):
        with pytest.raises(Exception, match="nothing leaves this page"):
            opened.evaluate(f"() => {{ try {{ {attempt} }} catch {{ }} new RTCPeerConnection(); return 'sent'; }}")
    # A frame has them anew, and so has another window: the page's script opens neither.
    script = (STATIC / "keyboard.js").read_text()
    assert not re.search(r"iframe|contentWindow|window\.open|srcdoc", script)


def test_nothing_typed_is_stored(opened: Any) -> None:
    opened.keyboard.type("my secret ")
    opened.keyboard.press("Enter")
    stored = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, history.state])"
    assert "secret" not in opened.evaluate(stored)
    field = opened.locator("#message")
    for name, value in {"spellcheck": "false", "autocomplete": "off", "writingsuggestions": "false"}.items():
        assert field.get_attribute(name) == value  # some browsers ask a server about what is typed
    opened.reload()
    opened.wait_for_selector("#bytes-sent")
    assert opened.locator("#message").input_value() == ""


def test_the_policy_allows_no_other_host_and_no_inline_code(opened: Any, address: str) -> None:
    policy = opened.request.get(address).headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_no_violation(browser: Any, address: str, scheme: str, width: int) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: make web installs it.")
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = load(context.new_page(), address)
    page.get_by_label("Probabilities").check()
    page.locator("#message").focus()
    page.keyboard.type("see you ")
    page.keyboard.press("Enter")
    page.keyboard.type("see yiu ")
    page.locator("summary").first.click()
    page.wait_for_selector(".candidates .share-bar")
    page.evaluate(AXE.read_text())
    found = page.evaluate(
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
    )
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []
    context.close()


def test_a_board_has_the_page_for_its_runs(tab: Any, run: Path) -> None:
    with served(create_app(BoardSettings(folders=(run.parent,)))) as address:
        load_chooser(tab, address)
        tab.get_by_label(re.compile(run.name)).check()
        tab.get_by_role("button", name="Type on them").click()
        tab.wait_for_selector("#bytes-sent")
        assert strip(tab) == [word for word, _ in open_run(run).predict("")]
        assert tab.get_by_role("link", name="Runs").count() == 1
        tab.goto(f"{address}keyboard?run=0123456789abcdef")
        assert tab.locator(".problem").inner_text() == "There is no such run here any more."
        tab.goto(f"{address}keyboard?run={key_of(run)}&model={key_of(run)}-pretrained")
        tab.wait_for_selector("#bytes-sent")
        assert tab.locator(".model h3").all_inner_texts() == [f"{run.name}, pre-trained only"]


def load_chooser(page: Any, address: str) -> None:
    for _ in range(50):  # the board lists a run before it has read it
        page.goto(f"{address}keyboard")
        page.wait_for_selector("main p:not(.quiet)")
        if page.locator("input[name=run]").count():
            return
        page.wait_for_timeout(200)


def test_no_route_takes_a_text(run: Path) -> None:
    paths = keyboard_app(BoardSettings(), [run]).openapi()["paths"]
    assert set(paths) == {"/api/keyboard", "/api/keyboard/models/{key}"}
    assert {method for routes in paths.values() for method in routes} == {"get"}
    parameters = [each["name"] for routes in paths.values() for each in routes["get"].get("parameters", [])]
    assert sorted(parameters) == ["key", "run"]
    assert "text" not in json.dumps(parameters)
