"""The page of a fleet: what the server's administrator sees, alarms, and what happens without a server or a token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from tacit.fleet.administrator import Access
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database
from tacit.fleet.server.api import create_app
from tacit.web import fleets
from tacit.web.fleets import alarms
from tests.support.boards import board_of, browser, client_of
from tests.support.fleet.serving import running

SECRET, TOKEN = "a" * 64, "t" * 40
OPEN = {"round": 4, "goal": 10, "places": 12, "selected": 6, "reported": 2, "seconds_left": 300.0}
ENDING = OPEN | {"seconds_left": 9.0}


@pytest.fixture
def access(tmp_path: Path) -> Iterator[Access]:
    """A server of a fleet without devices, and the file with its administrator's token."""
    engine: Engine = open_database(f"sqlite:///{tmp_path}/fleet.db")
    migrate(engine)
    (tmp_path / "admin-token").write_text(SECRET)
    with running(create_app(engine, admin_token=SECRET, reports=None, selects=True)) as address:
        yield Access(address, tmp_path / "admin-token")
    engine.dispose()


def test_the_page_has_what_the_administrator_sees(
    access: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "AGAIN_S", 0)
    with client_of(tmp_path / "runs", fleet=access, token=TOKEN) as client:
        client.get("/api/fleet")
        answer = client.get("/api/fleet")
        found = answer.json()
        assert (found["devices"], found["tasks"]) == (0, [])
        assert [alarm["what"] for alarm in found["alarms"]] == ["No device has enrolled."]
        assert len(found["samples"]) == 2
        assert SECRET not in answer.text
        client.headers.pop("authorization")
        assert client.get("/api/fleet").status_code == 401


def test_a_server_that_is_gone_or_refuses_is_one_sentence(access: Access, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("b" * 64)
    for broken, said in (
        (Access(access.server, wrong), "refused"),
        (Access("http://127.0.0.1:9", access.admin_token), "No answer from"),
        (Access(access.server, tmp_path / "nothing"), "Cannot read the administrator's token"),
        (Access("http://192.0.2.1", access.admin_token), "."),
    ):
        with client_of(tmp_path / "runs", fleet=broken, token=TOKEN) as client:
            answer = client.get("/api/fleet")
        assert answer.status_code == 409
        assert said in answer.json()["problem"]
    with client_of(tmp_path / "runs") as client:
        answer = client.get("/api/fleet")
    assert answer.status_code == 404
    assert "--fleet" in answer.json()["problem"]


def status(*, coordinators: int = 1, **task: Any) -> dict[str, Any]:
    known = {
        "name": "words",
        "active": True,
        "rounds": {},
        "under_way": None,
        "could_come": None,
        "last_abandoned": None,
    }
    return {"devices": 20, "processes": {"coordinator": coordinators}, "tasks": [known | task]}


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (status(), []),
        (status(under_way=OPEN, could_come=14), []),
        (status(coordinators=0), ["No coordinator is running."]),
        (status(coordinators=0, active=False), []),
        (status(under_way=OPEN, could_come=3), ["words: round 4 waits for 10 devices, and about 3 may come."]),
        (
            status(under_way=OPEN | {"seconds_left": 9.0}, could_come=9),
            ["words: round 4 ends soon, and 8 reports are missing."],
        ),
        (status(rounds={"committed": 9, "abandoned": 2}), []),
        (
            status(rounds={"committed": 4, "abandoned": 4}, last_abandoned="too few reports"),
            ["words: 4 of 8 rounds were abandoned. The last because: too few reports"],
        ),
    ],
)
def test_alarms(found: dict[str, Any], what: list[str]) -> None:
    assert [alarm.what for alarm in alarms(found)] == what
    assert all(alarm.do.endswith(".") for alarm in alarms(found))


@pytest.mark.process
@pytest.mark.slow
def test_the_page_in_a_browser(access: Access, tmp_path: Path) -> None:
    with browser() as chrome, board_of(tmp_path, fleet=access, token=TOKEN) as address:
        page = chrome.new_page()
        page.goto(address)
        page.goto(address.split("?")[0] + "#/fleet")
        page.get_by_text("No device has enrolled.").wait_for()
        page.get_by_role("figure").filter(has_text="Devices enrolled").locator(
            "canvas"
        ).wait_for()  # after a second look
    with browser() as chrome, board_of(tmp_path) as address:
        page = chrome.new_page()
        page.goto(f"{address}#/fleet")
        page.get_by_text("This board looks at no fleet").wait_for()
