"""`tacit fleet` against the server's own interface: tokens, the state, shutting a device out, and mistakes in one sentence."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tacit.fleet.database import round_table, task_table
from tacit.fleet.database.budget_table import FleetAccount
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database
from tacit.fleet.server import enrolment
from tacit.fleet.server.api import create_app
from tacit.privacy.accounting.charges import Charge
from tests.support.commands import Tacit
from tests.support.fleet.people import Person, a_process, a_round, a_task, enrolled
from tests.support.fleet.serving import running

TERMS = {
    "dimension": 3,
    "scale": 1.0,
    "element_clip": 9,
    "bits": 16,
    "block": 4,
    "rounding_failure": 1e-9,
    "local_variance": 0,
    "weighted": False,
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_database(f"sqlite:///{tmp_path}/fleet.db")
    migrate(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def options(engine: Engine, tmp_path: Path) -> Iterator[list[str]]:
    """Where the server is, and the administrator's token."""
    token = tmp_path / "admin-token"
    token.write_text("6" * 64 + "\n")
    with running(create_app(engine, admin_token="6" * 64, reports=None, selects=True)) as address:
        yield ["--server", address, "--admin-token", str(token)]


def test_a_token_is_printed_and_worth_its_uses(tacit: Tacit, engine: Engine, options: list[str]) -> None:
    answer = tacit("fleet", "token", *options, "--uses", "2", "--hours", "0.5")
    assert (answer.code, answer.err) == (0, "")
    token, now = answer.out.strip(), time.time()
    for _ in range(2):
        enrolment.enrol(engine, Person().request(token), now=now + 1700)
    with pytest.raises(enrolment.Refusal):
        enrolment.enrol(engine, Person().request(token), now=now)
    made = tacit("fleet", "token", *options, "--json").object
    assert (made["uses"], made["hours"]) == (1, 24)
    enrolment.enrol(engine, Person().request(made["token"]), now=now)


def test_the_state_is_told_in_a_table(tacit: Tacit, engine: Engine, options: list[str]) -> None:
    assert "No task yet" in tacit("fleet", "status", *options).out
    enrolled(engine)
    task = a_task(engine)
    a_process(engine, role="all", seen_at=time.time() + 9)
    a_round(engine, task, state="committed")
    a_round(engine, task, 1, state="abandoned", reason="Too few devices came.")
    a_round(engine, task, 1, deadline=time.time() + 60, selected=3, reported=1)
    out = tacit("fleet", "status", *options).out
    assert "Devices enrolled: 1. Processes: 1 × all." in out
    assert "round 1: 1 of 2 reports, 3 selected" in out
    assert "round 1 waits for 2 devices, but only 1 may take part" in out
    assert "the last round was abandoned because: Too few devices came." in out
    found = tacit("fleet", "status", *options, "--json").object
    assert found["tasks"][0]["rounds"] == {"committed": 1, "abandoned": 1, "open": 1}


def test_the_administrators_token_goes_to_the_server_and_to_no_proxy(
    tacit: Tacit, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert "Devices enrolled" in tacit("fleet", "status", *options).out


def test_a_device_is_shut_out(tacit: Tacit, engine: Engine, options: list[str]) -> None:
    person = enrolled(engine)
    assert tacit("fleet", "revoke", str(person.number), *options).out == "Revoked.\n"
    assert enrolment.enrolled(engine) == 0
    assert "No such device" in tacit("fleet", "revoke", "77", *options).refusal(9)
    number = enrolled(engine).number
    assert tacit("fleet", "revoke", str(number), *options, "--json").object == {"device": number, "revoked": True}


def test_devices_are_listed_and_quarantined_by_number(tacit: Tacit, engine: Engine, options: list[str]) -> None:
    assert tacit("fleet", "devices", *options).out == "No devices.\n"
    first, second = enrolled(engine).number, enrolled(engine).number
    assert tacit("fleet", "quarantine", str(first), *options).out == "Quarantined.\n"
    out = tacit("fleet", "devices", *options).out
    assert [line.split()[:5] for line in out.splitlines()[1:]] == [
        [str(first), "quarantined", "0", "0", "0"],
        [str(second), "ready", "0", "0", "0"],
    ]
    assert "quarantined by an operator" in out
    assert tacit("fleet", "devices", *options, "--state", "revoked").out == "No devices are revoked.\n"
    found = tacit("fleet", "devices", *options, "--state", "quarantined", "--json").object
    assert [each["device"] for each in found["devices"]] == [first]
    released = tacit("fleet", "quarantine", str(first), "--release", *options, "--json").object
    assert released == {"device": first, "quarantined": False}
    assert "No such device" in tacit("fleet", "quarantine", "77", *options).refusal(9)


def test_the_budget_of_the_devices_is_set_raised_and_shown(tacit: Tacit, engine: Engine, options: list[str]) -> None:
    assert tacit("fleet", "budget", "show", *options).out == "No budget is set for this fleet.\n"
    assert tacit("fleet", "budget", "show", *options, "--json").object["set"] == []
    for wrong, why in (
        (("--epsilon", 4), "Expected a delta beside epsilon, such as 1e-6, got none"),
        (("--epsilon", 4, "--delta", 1e-6, "--rho", 1), "Expected either epsilon with delta, or rho"),
        (("--rho", -1), "with `rho` above 0"),
    ):
        assert why in tacit("fleet", "budget", "set", *options, *wrong).refusal(9)
    made = tacit("fleet", "budget", "set", *options, "--epsilon", 4, "--delta", 1e-6, "--json").object
    assert (made["epsilon"], made["delta"], made["left"], made["raised"]) == (4.0, 1e-6, 4.0, 0)
    FleetAccount(engine).reserve("run-1", "server/run", lambda: Charge("user", "add or remove one user", rho=0.1))
    assert "only its ε can be changed" in tacit(
        "fleet", "budget", "set", *options, "--epsilon", 9, "--delta", 1e-5
    ).refusal(9)
    assert "Expected a budget of at least ε = " in tacit(
        "fleet", "budget", "set", *options, "--epsilon", 0.5, "--delta", 1e-6
    ).refusal(9)
    out = tacit("fleet", "budget", "set", *options, "--epsilon", 9, "--delta", 1e-6).out
    assert "The budget of this fleet is ε = 9 at δ = 1e-06, raised once: ε = " in out
    assert "open: server/run, reserved " in out
    shown = tacit("fleet", "budget", "show", *options, "--json").object
    assert shown["open"][0]["run_id"] == "run-1"
    assert [each["epsilon"] for each in shown["set"]] == [4.0, 9.0]


def test_rounds_are_skipped_paused_and_adjusted(tacit: Tacit, engine: Engine, options: list[str]) -> None:
    assert "of which there are 0" in tacit("fleet", "round", "skip", *options).refusal(9)
    task = a_task(engine, report_goal=4)
    round_id = a_round(engine, task)
    assert "given up" in tacit("fleet", "round", "skip", *options).out
    found = round_table.find(engine, round_id)
    assert found is not None
    assert found.stopped_by is not None
    assert "Paused" in tacit("fleet", "round", "pause", *options).out
    assert task_table.wishes(engine, task).paused
    assert tacit("fleet", "status", *options, "--json").object["tasks"][0]["paused"]
    assert tacit("fleet", "round", "resume", *options, "--json").object == {"action": "resume"}
    adjusted = tacit("fleet", "round", "adjust", "--goal", "3", "--deadline", "60", *options)
    assert "the ledger will say so" in adjusted.out
    assert task_table.wishes(engine, task) == task_table.Wishes(False, 3, 60.0)
    assert "at most 8, twice" in tacit("fleet", "round", "adjust", "--goal", "9", *options).refusal(9)
    assert "a goal or a deadline" in tacit("fleet", "round", "adjust", *options).refusal(9)


def test_a_goal_that_secure_aggregation_promised_stays(tacit: Tacit, engine: Engine, options: list[str]) -> None:
    task = a_task(engine, report_goal=4, secagg=TERMS)
    for goal in ("3", "5"):
        assert "the goal stays 4" in tacit("fleet", "round", "adjust", "--goal", goal, *options).refusal(9)
    assert task_table.wishes(engine, task).goal is None


def test_mistakes_are_one_sentence(tacit: Tacit, options: list[str], tmp_path: Path) -> None:
    _, address, _, token = options
    wrong = tmp_path / "wrong"
    wrong.write_text("7" * 64)
    assert "administrator's token" in tacit("fleet", "status", *options[:3], wrong).refusal(9)
    assert "Cannot read" in tacit("fleet", "status", *options[:3], tmp_path / "none").refusal(9)
    assert "TLS cannot load it" in tacit("fleet", "status", *options, "--ca", wrong).refusal(9)
    for server in (address.replace("http", "https"), "http://localhost:1"):
        said = tacit("fleet", "status", "--server", server, "--admin-token", token).refusal(9)
        assert f"No answer from {server}." in said
    for server in ("nonsense", "http://192.0.2.1"):  # the token does not travel where it could be read
        assert "https://" in tacit("fleet", "status", "--server", server, "--admin-token", token).refusal(9)
