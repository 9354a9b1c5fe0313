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
from tacit.web.fleet_alarms import alarms
from tacit.web.fleet_figures import FleetFigures, read_figures
from tacit.web.fleets import REPORTS, SELECTION, SHOWN, SUM, FleetWatch, stage_of
from tests.support.boards import board_of, browser, client_of, until
from tests.support.fleet.seen import METRICS, OPEN, status
from tests.support.fleet.serving import running

SECRET, TOKEN = "a" * 64, "t" * 40
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


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (status(), []),
        (status(under_way=OPEN, could_come=14), []),
        (status(coordinators=0), ["No coordinator is running."]),
        (status(coordinators=0, active=False), []),
        (status(paused=True), ["words: an operator has paused the rounds."]),
        (status(under_way=OPEN, could_come=3), ["words: round 4 waits for 10 devices, and about 3 may come."]),
        (
            status(under_way=OPEN | {"seconds_left": 9.0}, could_come=9),
            ["words: round 4 ends soon, and 8 reports are missing."],
        ),
        (
            status(under_way=OPEN | {"seconds_left": 9.0, "reported": 9}, could_come=9),
            ["words: round 4 ends soon, and 1 report is missing."],
        ),
        (status(rounds={"committed": 9, "abandoned": 2}), []),
        (
            status(rounds={"committed": 4, "abandoned": 4}, last_abandoned="too few reports"),
            ["words: 4 of 8 rounds were abandoned. The last because: too few reports"],
        ),
    ],
)
def test_alarms(found: dict[str, Any], what: list[str]) -> None:
    assert [alarm.what for alarm in alarms(found, FleetFigures())] == what
    assert all(alarm.do.endswith(".") for alarm in alarms(found, FleetFigures()))


@pytest.mark.parametrize(
    ("figures", "what"),
    [
        (FleetFigures(devices_by={"ready": 19, "quarantined": 1}), []),
        (
            FleetFigures(devices_by={"ready": 17, "quarantined": 3}),
            ["3 of 20 devices are in quarantine and get no places."],
        ),
        (FleetFigures(lost={"other": 2}), []),
        (
            FleetFigures(lost={"words": 2}),
            ["words: 2 rounds were lost after their intent. They cost users the same and teach nothing."],
        ),
        (
            FleetFigures(lost={"words": 1}),
            ["words: 1 round was lost after its intent. It costs users the same and teaches nothing."],
        ),
    ],
)
def test_alarms_of_the_metrics(figures: FleetFigures, what: list[str]) -> None:
    assert [alarm.what for alarm in alarms(status(), figures)] == what


def test_the_metrics_are_read() -> None:
    found = read_figures(METRICS)
    assert (found.check_ins, found.reports, found.refused) == (7, 5, 2)
    assert found.devices_by == {"ready": 18, "quarantined": 2}
    assert (found.dropouts, found.lost, found.epsilon) == ({"report": 3}, {"words": 1}, {"words": 1.25})
    assert found.seconds_a_round == 7.5
    assert read_figures("").seconds_a_round is None


def test_devices_in_a_round_are_not_counted_as_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = status(under_way=OPEN, rounds={"committed": 3})
    monkeypatch.setattr("tacit.fleet.administrator.ask", lambda *arguments: asked)
    monkeypatch.setattr("tacit.fleet.administrator.metrics", lambda access: METRICS)
    monkeypatch.setattr(fleets, "AGAIN_S", -1)
    watch = FleetWatch(Access("https://fleet", tmp_path))
    found = watch.look()
    assert found.devices_by == {"working": 6, "ready": 12, "quarantined": 2}
    assert (found.dropouts, found.seconds_a_round) == ({"report": 3}, 7.5)
    assert (found.tasks[0].epsilon_spent, found.tasks[0].lost, found.tasks[0].stage) == (1.25, 1, REPORTS)
    for _ in range(SHOWN + 20):
        found = watch.look()
    assert SHOWN / 2 <= len(found.samples) <= SHOWN
    assert found.samples[-1].dropouts == 3


def test_the_board_looks_at_the_fleet_without_a_page(
    access: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "AGAIN_S", 0)
    monkeypatch.setattr(fleets, "UNWATCHED_S", 0.02)
    watch = FleetWatch(access)
    watch.start()
    until(lambda: len(watch._samples) >= 2, "the board to look by itself")
    watch.stop()


@pytest.mark.parametrize(
    ("task", "stage"),
    [
        ({"under_way": None, "rounds": {"committed": 4}}, None),
        ({"under_way": None, "rounds": {"settled": 1}}, SUM),
        ({"under_way": OPEN | {"reported": 0}, "rounds": {}}, SELECTION),
        ({"under_way": OPEN | {"reported": 0, "selected": 12}, "rounds": {}}, REPORTS),
        ({"under_way": OPEN, "rounds": {}}, REPORTS),
    ],
)
def test_the_stage_of_a_round(task: dict[str, Any], stage: str | None) -> None:
    assert stage_of(task) == stage


@pytest.mark.process
@pytest.mark.slow
def test_the_page_in_a_browser(access: Access, tmp_path: Path) -> None:
    with browser() as chrome:
        page = chrome.new_page()
        with board_of(tmp_path, fleet=access, token=TOKEN) as address:
            page.goto(address)
            page.goto(address.split("?")[0] + "#/fleet")
            page.get_by_text("No device has enrolled.").wait_for()
            chart = page.get_by_role("figure").filter(has_text="Devices enrolled")
            chart.locator("canvas").wait_for()  # after a second look
        with board_of(tmp_path) as address:
            page.goto(f"{address}#/fleet")
            page.get_by_text("This board looks at no fleet").wait_for()
