"""Who may ask a board: host, origin and token are checked before any route, and every answer carries the policy."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tacit.web.security import CODE_S, HEADERS, Guard
from tacit.web.serving import address_of
from tacit.web.settings import BoardSettings, is_loopback
from tests.support.boards import TestClient, client_of

TOKEN = "s" * 32
OWN = {"origin": "http://127.0.0.1:8080", "sec-fetch-site": "same-origin"}


def guarded(**settings: object) -> TestClient:
    """An application of one route behind the guard. It counts what reaches it."""
    wanted = BoardSettings(**settings)  # type: ignore[arg-type]
    reached = []

    async def answer(request: object) -> PlainTextResponse:
        reached.append(request)
        return PlainTextResponse("reached")

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST", "DELETE"])])
    client = TestClient(Guard(app, wanted, wanted.token), base_url="http://127.0.0.1:8080", follow_redirects=False)
    client.reached = reached  # type: ignore[attr-defined]
    return client


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "127.0.0.1", "LOCALHOST"])
def test_a_name_of_this_machine_is_answered(host: str) -> None:
    assert guarded().get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "192.0.2.1",
        "",
        "a@localhost",
    ]
    + ["localhost:port", "localhost/x", "[::1"],
)
def test_a_name_that_was_pointed_here_is_refused(host: str) -> None:
    client = guarded()
    assert client.get("/", headers={"host": host}).status_code == 421
    assert not client.reached  # type: ignore[attr-defined]


def test_bound_elsewhere_a_name_is_refused_and_a_number_is_not() -> None:
    client = guarded(host="0.0.0.0", token=TOKEN)
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/", headers={"host": "192.0.2.1:8080", **bearer}).status_code == 200
    assert client.get("/", headers={"host": "evil.example", **bearer}).status_code == 421
    named = guarded(host="board.example", token=TOKEN)
    assert named.get("/", headers={"host": "board.example:8080", **bearer}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "2001:db8::7", "board.example", "127.0.0.1"])
def test_the_address_that_is_printed_is_answered(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Machine")
    address = urlsplit(address_of(BoardSettings(host=host, owner=True, token=TOKEN)))
    client = guarded(host=host, owner=True, token=TOKEN)
    assert client.get(f"/?{address.query}", headers={"host": address.netloc}).status_code == 303
    assert client.get(f"/?{address.query}", headers={"host": "evil.example:8080"}).status_code == 421


@pytest.mark.parametrize("site", ["cross-site", "same-site", "something else"])
def test_another_site_may_link_to_a_page_and_never_fetch(site: str) -> None:
    client = guarded()
    assert client.get("/api/runs", headers={"sec-fetch-site": site}).status_code == 403
    assert client.get("/api/runs", headers={"sec-fetch-site": site, "sec-fetch-mode": "cors"}).status_code == 403
    framed = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    assert client.get("/", headers=framed).status_code == 403
    linked = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get("/", headers=linked).status_code == 200
    assert client.post("/", headers=linked).status_code == 403


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://127.0.0.1:8080", "sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-origin"},
    ],
)
def test_only_an_own_page_changes_something(method: str, headers: dict[str, str]) -> None:
    client = guarded()
    assert client.request(method, "/", headers=headers).status_code == 403
    assert not client.reached  # type: ignore[attr-defined]


def test_an_own_page_may() -> None:
    assert guarded().post("/", headers=OWN).status_code == 200


@pytest.mark.parametrize("settings", [{"host": "0.0.0.0"}, {"host": "192.0.2.7"}, {"owner": True}, {"control": True}])
def test_where_others_could_reach_it_every_request_needs_the_token(settings: dict[str, object]) -> None:
    client = guarded(**settings, token=TOKEN)
    for path in ("/", "/api/runs", "/static/board.js", "/nowhere"):
        assert client.get(path).status_code == 401, path
    assert client.get("/?token=wrong").status_code == 401
    assert client.get(f"/?token={TOKEN}&token={TOKEN}").status_code == 401
    assert client.get("/", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/", headers={"authorization": f"Basic {TOKEN}"}).status_code == 401
    assert client.get("/", headers={"cookie": "tacit-board-8080=wrong"}).status_code == 401
    assert client.post(f"/?token={TOKEN}", headers=OWN).status_code == 401  # no form of another page carries it
    assert not client.reached  # type: ignore[attr-defined]
    assert client.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_token_leaves_the_address_for_a_cookie_that_no_script_reads() -> None:
    client = guarded(owner=True, token=TOKEN)
    answer = client.get(f"http://127.0.0.1:8080//evil.example/x?token={TOKEN}&a=1")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/evil.example/x?a=1"  # on this host, whatever the path says
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie  # a link of another site may lead here, and none of its fetches carries it
    assert client.get("/").status_code == 200  # the client kept the cookie
    assert client.post("/", headers=OWN).status_code == 200
    assert client.post("/", headers={"origin": "http://evil.example"}).status_code == 403


@pytest.mark.parametrize("path", ["%5Cevil.example", "%5C/evil.example", "%E2%82%AC", "%0d%0ax: y"])
def test_the_address_without_its_token_stays_on_this_host(path: str) -> None:
    """A browser takes a backslash for a slash, so that a path of two leads to another host."""
    answer = guarded(owner=True, token=TOKEN).get(f"http://127.0.0.1:8080/{path}?token={TOKEN}")
    assert answer.status_code == 303
    assert answer.headers["location"].lower() == f"/{path}".replace(" ", "%20").replace(":", "%3a").lower()


@pytest.mark.parametrize("others", ['a={"x":1}', "x[y]=1", "a:b/c=1", "flag", 'quoted="2|1:0"'])
def test_cookies_of_other_programs_do_not_hide_ours(others: str) -> None:
    """Every program on this machine shares the cookies of its name, whatever it writes into them."""
    client = guarded(owner=True, token=TOKEN)
    assert client.get("/", headers={"cookie": f"{others}; tacit-board-8080={TOKEN}"}).status_code == 200
    assert client.get("/", headers={"cookie": f"{others}; tacit-board-8080=wrong"}).status_code == 401


OPENED = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


def test_a_person_who_is_refused_gets_a_page_and_a_program_json(tmp_path: Path) -> None:
    client = guarded(owner=True, token=TOKEN)
    page = client.get("/", headers=OPENED)
    assert (page.status_code, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert '<p class="problem">A token is missing or wrong' in page.text
    assert "/static/" not in page.text  # nobody who was refused gets anything else
    assert client.get("/").json()["problem"].startswith("A token is missing")
    with client_of(tmp_path) as board:
        page = board.get("/<b>nowhere", headers=OPENED)
        assert page.status_code == 404
        assert '<p class="problem">There is no such page.</p>' in page.text
        assert "<b>" not in page.text
        assert board.get("/nowhere").json() == {"problem": "There is no such page."}
        assert board.get("/api/runs/none", headers=OPENED).json()["problem"].startswith("There is no such run.")


def test_the_code_for_the_browser_works_once_and_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "c" * 32
    client = guarded(owner=True, token=TOKEN, code=code)
    assert client.head(f"/?token={code}").status_code == 401  # whoever looks at a link first does not use it up
    assert client.get("/", headers={"authorization": f"Bearer {code}"}).status_code == 401
    assert client.get(f"/?token={code}", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    answer = client.get(f"/?token={code}")
    assert answer.status_code == 303
    assert code not in str(answer.headers)
    assert client.get("/").status_code == 200
    client.cookies.clear()
    assert client.get(f"/?token={code}").status_code == 401
    late = guarded(owner=True, token=TOKEN, code=code)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + CODE_S)
    assert late.get(f"/?token={code}").status_code == 401
    assert late.get(f"/?token={TOKEN}").status_code == 303


def test_a_board_that_needs_a_token_cannot_be_made_without() -> None:
    with pytest.raises(ValueError, match="token"):
        Guard(Starlette(), BoardSettings(owner=True), None)


@pytest.mark.parametrize(
    ("host", "loopback"), [("127.0.0.1", 1), ("127.8.8.8", 1), ("::1", 1), ("localhost", 1), ("0.0.0.0", 0)]
)
def test_which_addresses_only_this_machine_reaches(host: str, loopback: int) -> None:
    assert is_loopback(host) == bool(loopback)


def test_every_answer_of_the_board_carries_the_policy(tmp_path: Path) -> None:
    with client_of(tmp_path) as client:
        for path in ("/", "/api/runs", "/api/openapi.json", "/static/board.js", "/nowhere", "/api/runs/none", "/docs"):
            answer = client.get(path)
            for name, value in HEADERS.items():
                assert answer.headers[name] == value, (path, name)
        refused = client.get("/", headers={"host": "evil.example"})
        client.app.add_api_route("/api/broken", lambda: 1 // 0)  # type: ignore[attr-defined]
        quiet = TestClient(client.app, base_url=str(client.base_url), raise_server_exceptions=False)
        broken = quiet.get("/api/broken")
        assert (broken.status_code, broken.headers.items() >= HEADERS.items()) == (500, True)
        assert "ZeroDivisionError" not in broken.text
        assert refused.headers["content-security-policy"] == HEADERS["content-security-policy"]
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/..\\app.py"],
)
def test_no_path_leads_out_of_the_built_pages(tmp_path: Path, path: str) -> None:
    with client_of(tmp_path) as client:
        assert client.get(path).status_code == 404
