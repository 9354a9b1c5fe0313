"""`tacit device` against the server's own interface: enrolment, a check-in, and mistakes in one sentence."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tacit.fleet.database import public_log
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database
from tacit.fleet.device.home import Home
from tacit.fleet.server import enrolment
from tacit.fleet.server.api import create_app
from tacit.fleet.wire.public_log import TaskEntry
from tacit.fleet.wire.server_key import ServerKey
from tests.support.commands import Tacit
from tests.support.fleet.serving import running
from tests.support.witnessed_runs import begun


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a server without rounds, and a token of it."""
    engine = open_database(f"sqlite:///{tmp_path}/fleet.db")
    migrate(engine)
    token = enrolment.make_token(engine, uses=1, expires_at=time.time() + 60)
    with running(create_app(engine, admin_token="0" * 64, reports=None, selects=True)) as address:
        yield address, token
    engine.dispose()


@pytest.fixture
def typed(tmp_path: Path) -> Path:
    path = tmp_path / "typed.txt"
    path.write_text("see you soon\nnot now\n")
    return path


def test_a_device_enrols_and_checks_in(tacit: Tacit, server: tuple[str, str], typed: Path, tmp_path: Path) -> None:
    address, token = server
    arguments = ["--server", address, "--token", token, "--data", typed]
    home = tmp_path / "[red]phone"  # no markup
    answer = tacit("device", "enrol", *arguments, "--home", home)
    assert (answer.code, answer.err) == (0, "")
    assert f"tacit device run --home {home}" in answer.out
    answer = tacit("device", "run", "--home", home, "--once")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    (home / "conditions.json").write_text('{"idle": false}')
    (event,) = tacit("device", "run", "--home", home, "--once", "--json").out.splitlines()
    assert json.loads(event)["event"].startswith("Waiting: the device is in use")
    # The token was for one device.
    sentence = tacit("device", "enrol", *arguments, "--home", tmp_path / "another").refusal(9)
    assert "token" in sentence
    assert token not in sentence


def test_an_application_ships_its_policy_and_a_device_shows_what_it_refuses(
    tacit: Tacit, server: tuple[str, str], typed: Path, tmp_path: Path
) -> None:
    address, token = server
    policy = tmp_path / "policy.json"
    policy.write_text(tacit("device", "policy").out)
    signed = tacit("device", "sign", policy, "--key", tmp_path / "application.key", "--json").object
    public = tacit("device", "sign", policy, "--key", tmp_path / "application.key").out.strip()
    assert signed == {"signature": f"{policy}.signature", "public_key": public}
    where = ("--server", address, "--token", token, "--data", typed, "--home", tmp_path / "phone")
    assert "together with the public key" in tacit("device", "enrol", *where, "--policy", policy).refusal(9)
    wrong = ("--policy", policy, "--application", "0" * 64)
    assert "not signed with the key" in tacit("device", "enrol", *where, *wrong).refusal(9)
    assert tacit("device", "enrol", *where, "--policy", policy, "--application", public).code == 0
    with Home.open(tmp_path / "phone") as home:
        home.remember(home.memory.objecting("The server weakened its terms.", 7.0))
        shown = tacit("device", "status", "--home", tmp_path / "phone").out  # while the device has its home open
    for sentence in (
        "The owner's policy is issue 1, signed by the application.",
        "The server had 0 of at most 200 rounds.",
        "Plans: any program with the task's shapes.",
        "the server is taken to be malicious; it alone vouches for other devices.",
        "Refused: The server weakened its terms.",
    ):
        assert sentence in shown
    found = tacit("device", "status", "--home", tmp_path / "phone", "--json").object
    assert found["refusals"] == [{"at": 7.0, "sentence": "The server weakened its terms."}]
    assert (found["signed"], found["rounds"], found["epsilon"], found["unproven"]) == (True, 0, 0.0, 0)
    assert found["policy"]["secure_aggregation"] == "required"
    assert "limits" in found["cage"]


def test_what_no_device_would_read_is_not_signed(tacit: Tacit, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text('{"largest_clip": 1e300}')
    signing = ("device", "sign", tmp_path / "policy.json", "--key", tmp_path / "key")
    assert "largest_clip" in tacit(*signing).refusal(9)
    assert not (tmp_path / "policy.json.signature").exists()
    assert "registry of plans" in tacit(*signing, "--as", "plans").refusal(9)
    assert "does not exist" in tacit("device", "sign", tmp_path / "none", "--key", tmp_path / "key").refusal(9)


def test_enrolment_as_json(tacit: Tacit, server: tuple[str, str], typed: Path, tmp_path: Path) -> None:
    address, token = server
    where = ("--server", address, "--token", token, "--data", typed, "--home", tmp_path / "phone")
    assert tacit("device", "enrol", *where, "--json").object == {
        "home": str(tmp_path / "phone"),
        "server": address,
        "device": 1,
    }


def test_mistakes_end_in_one_sentence(tacit: Tacit, typed: Path, tmp_path: Path) -> None:
    assert "enrolled device" in tacit("device", "run", "--home", tmp_path / "phone").refusal(9)
    token = ["--token", "x" * 20, "--home", tmp_path / "phone"]
    plain = tacit("device", "enrol", "--server", "http://fleet.test", "--data", typed, *token)
    assert "https" in plain.refusal(9)
    nobody = tacit("device", "enrol", "--server", "http://127.0.0.1:9", "--data", typed, *token)
    assert "cannot be reached" in nobody.refusal(9)
    nothing = tacit("device", "enrol", "--server", "http://127.0.0.1:9", "--data", tmp_path / "no.txt", *token)
    assert "No such file" in nothing.refusal(3)


@pytest.mark.parametrize(
    "command", [("device", "run", "--home", "phone"), ("fleet", "status", "--admin-token", "token")]
)
def test_without_the_extra_it_says_what_to_install(
    tacit: Tacit, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "tacit.fleet.administrator", raising=False)  # another test may have loaded it
    answer = tacit(*command)
    assert answer.refusal(9) == f"tacit {command[0]} needs the extra tacit[fleet]: httpx is not installed."
    assert answer.err.splitlines()[1] == "hint: pip install 'tacit[fleet]'"


@pytest.fixture
def logged(tmp_path: Path, typed: Path, tacit: Tacit) -> Iterator[tuple[Path, Path, Engine]]:
    """Two enrolled devices of a server with a public log, which they have seen, and the server's database."""
    engine = open_database(f"sqlite:///{tmp_path}/logged.db")
    migrate(engine)
    token = enrolment.make_token(engine, uses=9, expires_at=time.time() + 600)
    app = create_app(engine, admin_token="0" * 64, reports=None, selects=True, key=ServerKey(b"\5" * 32))
    homes = (tmp_path / "ann", tmp_path / "bo")
    with running(app) as address:
        for home in homes:
            enrolling = ("--server", address, "--token", token, "--data", typed, "--home", home)
            assert tacit("device", "enrol", *enrolling).code == 0
        yield (*homes, engine)
    engine.dispose()


def log_entry(engine: Engine, name: str) -> None:
    with engine.begin() as connection:
        public_log.append(connection, TaskEntry(task=name * 64, plan="b" * 64, vocabulary="c" * 64))


def test_two_devices_compare_heads(tacit: Tacit, logged: tuple[Path, Path, Engine], tmp_path: Path) -> None:
    ann, bo, engine = logged
    assert "no head of a log yet" in tacit("device", "head", "--home", ann).refusal(9)
    for home, name in ((ann, "a"), (bo, "d")):
        log_entry(engine, name)
        assert tacit("device", "receipts", "--home", home, "--check", "--json").object == {
            "contributions": [],
            "checked": True,
            "in_ledger": None,
        }
    run = begun(tmp_path / "run", None)
    asked = tacit("device", "receipts", "--home", ann, "--ledger", run.ledger_path)
    assert f"no committed round of the run {run.run_id}" in asked.refusal(9)
    file = tmp_path / "bo.head"
    file.write_text(tacit("device", "head", "--home", bo).out)
    found = tacit("device", "head", "--home", bo, "--json").object
    assert (found["size"], found["head"]) == (2, file.read_text())
    compared = tacit("device", "compare", file, "--home", ann, "--json").object
    assert compared == {
        "one_log": True,
        "here": 1,
        "there": 2,
        "sentence": "Both devices were shown the same log.",
    }
    key = ServerKey(b"\5" * 32)
    file.write_text(key.head(2, b"\1" * 32).text())  # which the same server has signed
    answer = tacit("device", "compare", file, "--home", ann)
    assert answer.code == 9
    assert "Two different logs were shown" in answer.out
    assert tacit("device", "statement", "--home", ann, "--json").object["two_logs"]
    assert "Cannot read a head" in tacit("device", "compare", tmp_path / "none", "--home", ann).refusal(9)
    file.write_text("no head")
    assert "not the text of a checkpoint" in tacit("device", "compare", file, "--home", ann).refusal(9)


def test_what_a_device_says_can_be_read_while_it_runs(tacit: Tacit, logged: tuple[Path, Path, Engine]) -> None:
    ann, _, engine = logged
    log_entry(engine, "a")
    assert tacit("device", "receipts", "--home", ann, "--check").code == 0
    with Home.open(ann):
        assert "It has sent nothing." in tacit("device", "statement", "--home", ann).out
        assert "The device has sent nothing." in tacit("device", "receipts", "--home", ann).out
        assert tacit("device", "head", "--home", ann, "--json").object["size"] == 1
        asked = tacit("device", "receipts", "--home", ann, "--check")
        assert "Another process is using the device's home" in asked.refusal(9)


def test_a_person_reads_their_statement_and_leaves(tacit: Tacit, logged: tuple[Path, Path, Engine]) -> None:
    ann, bo, _ = logged
    assert "The device has sent nothing." in tacit("device", "receipts", "--home", ann).out
    text = tacit("device", "statement", "--home", ann).out
    assert "It has sent nothing." in text
    assert "That cost nothing: ε = 0." in text
    assert f"tacit device leave --home {ann}" in text
    left = tacit("device", "leave", "--home", ann, "--json").object
    assert (left["confirmed"], left["kept_text"]) == (True, False)
    assert "the device's number" in left["kept"][0]
    found = tacit("device", "statement", "--home", ann, "--json").object
    assert (found["left"], found["server_keeps"], found["contributions"]) == (True, left["kept"], [])
    (ann / "examples.jsonl").write_text("{}")  # as if a kill had come before this was deleted
    assert tacit("device", "leave", "--home", ann, "--json").object == left
    assert not (ann / "examples.jsonl").exists()
    assert "has left its server" in tacit("device", "run", "--home", ann, "--once").refusal(9)
    answer = tacit("device", "leave", "--home", bo, "--without-server", "--keep-text")
    assert answer.out == "Deleted here: the key and the downloads.\n"
    assert (bo / "examples.jsonl").exists()
    assert "The server was not told." in tacit("device", "statement", "--home", bo).out
