"""One process of the server: which settings it refuses, and how it stops."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn
from sqlalchemy import insert, select, update
from sqlalchemy.exc import OperationalError

from tacit.errors import FleetError, RunError
from tacit.fleet.database import schema
from tacit.fleet.database.leases import LEAVING
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import DatabaseAway, open_database
from tacit.fleet.rounds.partial_sums import PartialSum
from tacit.fleet.rounds.peers import Peers
from tacit.fleet.rounds.round_attempt import DeviceCohort
from tacit.fleet.server import serving
from tacit.fleet.server.serving import ServeSettings, _transport, serve
from tacit.fleet.wire.messages import ROUNDS
from tacit.fleet.wire.reports import pack_report
from tacit.fleet.wire.sealing import make_secret
from tacit.fleet.wire.tls import CERTIFICATE
from tacit.recipe.training import parse_recipe
from tacit.runs.folder import RunFolder
from tests.support.fleet.crowd import fleet_recipe, in_background, wait_for
from tests.support.fleet.people import a_round, a_task, enrolled
from tests.support.fleet.worlds import recipe_tree


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"http": True, "host": "0.0.0.0"}, "--http only with a loopback"),
        ({"role": "selector"}, "--database and --secret"),
        ({"certificate": Path("c.pem")}, "both --certificate and --key"),
        ({"http": True, "certificate": Path("c.pem"), "key": Path("k.pem")}, "either --http or --certificate"),
        ({"recipe": None}, "a recipe with a [fleet] section"),
        ({"recipe": parse_recipe(recipe_tree())}, "a recipe with a [fleet] section"),
        ({"role": "coordinator", "database": "x", "secret": Path("s"), "recipe": None}, "a recipe with a [fleet]"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_anything_is_made(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    settings = ServeSettings(**({"out": tmp_path / "server", "recipe": fleet_recipe(), "port": 0} | changes))
    with pytest.raises(FleetError) as caught:
        serve(settings)
    assert words in caught.value.sentence
    assert not (tmp_path / "server").exists()


@pytest.mark.process
def test_processes_that_select_and_add_up_never_import_jax() -> None:
    code = "import sys, tacit.cli.serve, tacit.fleet.server.serving; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_secret_shows_in_what_a_traceback_or_a_log_could_print(tmp_path: Path) -> None:
    settings = ServeSettings(out=tmp_path, database="postgresql://me:password@host/fleet")
    peers = Peers(open_database(f"sqlite:///{tmp_path}/fleet.db"), b"cluster secret", None)
    total = PartialSum(1.0, ((2,),), False)
    total.admit(424242, np.array([0.25, 0.5], np.float32), 0.375, 1)
    cohort = DeviceCohort(0, 0, np.array([424242]), "key of the noise", "0" * 32, total)
    shown = repr((settings, peers, cohort))
    for secret in ("password", "cluster secret", "424242", "key of the noise", "0.25", "0.375"):
        assert secret not in shown


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("ab" * 32)
    secret.chmod(0o644)
    with pytest.raises(RunError, match="chmod 600"):
        serve(ServeSettings(out=tmp_path, recipe=fleet_recipe(), port=0, secret=secret))


def test_a_port_that_is_taken_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = ServeSettings(out=tmp_path / "server", recipe=fleet_recipe(), port=taken.getsockname()[1])
        with pytest.raises(FleetError, match=r"^Cannot listen on 127\.0\.0\.1:\d+: Address already in use\.$"):
            serve(settings)
    assert not settings.out.exists()


def test_whatever_uvicorn_would_choose_tls_is_modern(tmp_path: Path) -> None:
    config = uvicorn.Config(lambda: None, **_transport(ServeSettings(out=tmp_path)))
    config.load()
    assert config.ssl is not None
    assert config.ssl.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert all(cipher["aead"] and cipher["auth"] != "auth-null" for cipher in config.ssl.get_ciphers())


def test_what_stops_the_coordinator_stops_the_process(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", fleet_recipe(privacy={"clip_norm": 0.4}).to_toml())
    with pytest.raises(RunError, match="clip_norm"):
        serve(ServeSettings(out=tmp_path, recipe=fleet_recipe(), port=0, http=True))


def test_an_aggregator_that_is_to_stop_finishes_its_rounds(tmp_path: Path) -> None:
    url, stopping, heard = f"sqlite:///{tmp_path}/fleet.db", threading.Event(), list[str]()
    make_secret(tmp_path / "secret")
    engine = open_database(url)
    migrate(engine)
    person, round_id = enrolled(engine), a_round(engine, a_task(engine), deadline=time.time() + 600)
    settings = ServeSettings(
        out=tmp_path / "aggregator", role="aggregator", database=url, secret=tmp_path / "secret", port=0, http=True
    )

    def processes() -> list[tuple[str, str]]:
        with engine.connect() as connection:
            return [(row.process, row.role) for row in connection.execute(select(schema.processes))]

    def change(statement: Any) -> None:
        with engine.begin() as connection:
            connection.execute(statement)

    with in_background(lambda: serve(settings, stopping=stopping, ready=heard.append)) as result:
        wait_for(lambda: len(processes()) == 1)
        ((process, _),) = processes()
        place = {"round_id": round_id, "device": person.number, "place": 0, "aggregator": process, "state": "selected"}
        change(insert(schema.assignments).values(**place))
        stopping.set()
        wait_for(lambda: processes() == [(process, LEAVING)])
        path, body = f"{ROUNDS}/{round_id}/report", pack_report(round_id, 1.0, 0, np.zeros(3, np.float32))
        sent = httpx.put(heard[0] + path, content=body, headers=person.headers("PUT", path, body), trust_env=False)
        assert sent.status_code == 200
        change(update(schema.rounds).values(state="committed"))
        assert result() is None
    assert processes() == []
    engine.dispose()


@pytest.mark.process
def test_a_server_speaks_https_and_a_signal_ends_it_with_nothing_left_open(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(fleet_recipe().to_toml())
    out, log = tmp_path / "server", tmp_path / "log"
    command = [sys.executable, "-m", "tacit", "serve", str(tmp_path / "recipe.toml"), "--out", str(out), "--port", "0"]
    with log.open("wb") as lines:
        process = subprocess.Popen(command, stdout=lines, stderr=lines, stdin=subprocess.DEVNULL)
    try:
        wait_for(lambda: b'"serving"' in log.read_bytes() or process.poll() is not None)
        address = json.loads(log.read_text().splitlines()[0])["address"]
        assert address.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=out / CERTIFICATE)
        with httpx.Client(verify=trusted, trust_env=False) as client:
            assert client.get(f"{address}/healthz").text == "ok\n"
            assert client.get(f"{address}/v1/admin/status").status_code == 401
        engine = open_database(f"sqlite:///{out}/fleet.db")

        def states() -> list[str]:
            with engine.connect() as connection:
                return list(connection.execute(select(schema.rounds.c.state)).scalars())

        wait_for(lambda: states() == ["open"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 0
    finally:
        process.kill()
        process.wait()
    assert states() == ["abandoned"]
    with engine.connect() as connection:
        assert connection.execute(select(schema.processes)).first() is None
    engine.dispose()
    for name in ("secret", "admin-token", "key.pem"):
        assert (out / name).stat().st_mode & 0o777 == 0o600
    assert "Traceback" not in log.read_text()
    secrets = [(out / name).read_text() for name in ("secret", "admin-token")]
    assert not any(secret in log.read_text() for secret in secrets)


def test_a_process_waits_for_its_database_and_ends_if_it_is_stopped_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, real = list[str](), serving.open_database

    def away(url: str) -> Any:
        tries.append(url)
        if len(tries) < 3:
            raise DatabaseAway("Cannot reach the database.")
        return real(url)

    monkeypatch.setattr(serving, "open_database", away)
    monkeypatch.setattr(serving, "_DATABASE_POLL_S", 0.01)
    engine = serving._open_database(f"sqlite:///{tmp_path}/fleet.db", threading.Event())
    assert engine is not None
    engine.dispose()
    assert len(tries) == 3
    stopped = threading.Event()
    stopped.set()
    assert serving._open_database("sqlite://", stopped) is None


def test_tables_that_cannot_be_made_are_waited_for_only_where_the_database_may_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(engine: Any) -> None:
        raise OperationalError("", None, Exception("attempt to write a readonly database"))

    monkeypatch.setattr(serving, "migrate", failing)
    with pytest.raises(FleetError, match=r"Cannot make the tables in the database sqlite:///.*fleet\.db\."):
        serving._open_database(f"sqlite:///{tmp_path}/fleet.db", threading.Event())


def test_a_database_that_is_down_is_waited_for_and_another_mistake_is_not() -> None:
    with pytest.raises(DatabaseAway):
        open_database("postgresql://me@127.0.0.1:1/fleet")
    with pytest.raises(FleetError) as raised:
        open_database("mysql://me@127.0.0.1:1/fleet")
    assert not isinstance(raised.value, DatabaseAway)


def test_secure_aggregation_that_can_never_work_is_refused(tmp_path: Path) -> None:
    plan = {"cohort": 2, "population": 3, "min_separation": 0, "secagg": {"bits": 24}}
    settings = ServeSettings(out=tmp_path / "server", recipe=fleet_recipe(privacy=plan), port=0, http=True)
    with pytest.raises(FleetError, match="No round of secure aggregation can end with a goal of 2"):
        serve(settings)
    assert not settings.out.exists()
