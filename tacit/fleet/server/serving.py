"""One process of the server: the whole server on a SQLite file, or one of several roles over a shared database.

A `selector` enrols devices and gives them places, an `aggregator` accepts what they send, a `coordinator` runs the training;
`all` does all three. After a signal to stop, no new round is opened, the round under way is finished or abandoned, and then the
process stops listening; an aggregator takes no new rounds and finishes those it has reports of. A second signal stops at once.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import uvicorn
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tacit.errors import FleetError
from tacit.fleet.database import clock, round_table
from tacit.fleet.database.heartbeat import Heartbeat
from tacit.fleet.database.leases import GONE_AFTER_S
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import DatabaseAway, may_pass, open_database
from tacit.fleet.logs import log
from tacit.fleet.rounds.aggregator import Aggregator
from tacit.fleet.rounds.secure_size import require_possible, trusting
from tacit.fleet.server.api import create_app
from tacit.fleet.server.connections import KEEP_ALIVE_S, Connections, allow_many_files, with_handshake_limit
from tacit.fleet.server.internal_routes import internal_router
from tacit.fleet.server.operators import OperatorGate
from tacit.fleet.wire.sealing import make_secret, open_secret
from tacit.fleet.wire.server_key import ServerKey
from tacit.fleet.wire.tls import development_certificate, require_pair, require_transport
from tacit.privacy.accounting.budget_filter import Limit
from tacit.recipe.training import Recipe

Role = Literal["all", "selector", "aggregator", "coordinator"]
ROLES: tuple[str, ...] = get_args(Role)
DATABASE, SECRET, ADMIN_TOKEN, RUN = "fleet.db", "secret", "admin-token", "run"
# For TLS 1.2; all ciphers of TLS 1.3 are good. uvicorn's default has changed between versions, and was weaker.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
# How long open requests may take after a stop, and how often an aggregator looks whether its rounds are over.
_SHUTDOWN_S, _POLL_S = 10, 0.5
_DATABASE_POLL_S = 2.0


@dataclass(frozen=True)
class ServeSettings:
    """The role of a process, where it keeps its files (`out`), and how it is reached.

    `address` is the address that devices and other processes use, if it differs from where the process listens. Devices upload
    only to the host they enrolled with, or to a subdomain of it. If no certificate is given, one for this machine alone is
    made; if no database, secret or administrator's token is given, files in `out` are used. `odometer` is the folder that lists
    every run on these devices, the same for all their servers; by default it is `out`. `budget` is set before the run begins;
    if there is one, it must be the same.
    """

    out: Path
    recipe: Recipe | None = None
    role: Role = "all"
    database: str | None = field(default=None, repr=False)  # contains a password
    host: str = "127.0.0.1"
    port: int = 8443
    http: bool = False
    certificate: Path | None = None
    key: Path | None = None
    address: str | None = None
    secret: Path | None = None
    admin_token: Path | None = None
    odometer: Path | None = None
    budget: Limit | None = None

    def check(self) -> None:
        """FleetError if the settings are inconsistent."""
        require_transport(http=self.http, host=self.host)
        if self.address is None and self.host in ("0.0.0.0", "::"):
            raise FleetError(f"--host {self.host} needs --address, the address that devices use.")
        if (self.certificate is None) != (self.key is None):
            raise FleetError("Expected both --certificate and --key, got one of them.")
        if self.http and self.certificate is not None:
            raise FleetError("Expected either --http or --certificate, got both.")
        if self.certificate is not None and self.key is not None:
            require_pair(self.certificate, self.key)
        if self.role != "all" and (self.database is None or self.secret is None):
            raise FleetError(f"--role {self.role} needs --database and --secret, which the processes share.")
        if self.budget is not None and self.role not in ("all", "coordinator"):
            raise FleetError(f"--role {self.role} takes no budget: the coordinator sets it.")
        if self.role in ("all", "coordinator"):
            if self.recipe is None or self.recipe.fleet is None:
                raise FleetError(f"--role {self.role} needs a recipe with a [fleet] section.")
            if self.recipe.privacy.secagg is not None:
                require_possible(int(self.recipe.privacy.cohort), self.recipe.privacy.population, self.recipe.fleet)


def serve(
    settings: ServeSettings,
    *,
    stopping: threading.Event | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> dict[str, Any] | None:
    """Serve until the run is finished (returns its summary), or a signal comes or `stopping` is set (returns None).

    `ready` is called with the address once devices can connect.
    """
    settings.check()
    stopping = stopping or threading.Event()
    with _listening(settings) as listener:  # first, so that a port in use leaves no folder behind
        for folder in (settings.out, settings.odometer or settings.out):
            folder.mkdir(parents=True, exist_ok=True)
        secret, token = (
            make_secret(settings.out / name) if given is None else open_secret(given)
            for name, given in ((SECRET, settings.secret), (ADMIN_TOKEN, settings.admin_token))
        )
        engine = _open_database(settings.database or f"sqlite:///{(settings.out / DATABASE).resolve()}", stopping)
        if engine is None:
            return None
        try:
            return _serve(settings, engine, secret, token.hex(), listener, stopping, ready)
        finally:
            engine.dispose()


def _open_database(url: str, stopping: threading.Event) -> Engine | None:
    """The database with its tables made, as soon as it answers; None if the process is to stop before that."""
    while not stopping.is_set():
        with suppress(DatabaseAway):
            engine = open_database(url)
            try:
                migrate(engine)
                return engine
            except SQLAlchemyError as error:
                engine.dispose()
                if engine.dialect.name != "postgresql" or not may_pass(error):
                    shown = engine.url.render_as_string(hide_password=True)
                    raise FleetError(
                        f"Cannot make the tables in the database {shown}.", hint="Check that this user may write there."
                    ) from error
            except BaseException:
                engine.dispose()
                raise
        log("waiting for the database")
        stopping.wait(_DATABASE_POLL_S)
    return None


def _serve(
    settings: ServeSettings,
    engine: Engine,
    secret: bytes,
    admin_token: str,
    listener: socket.socket,
    stopping: threading.Event,
    ready: Callable[[str], None],
) -> dict[str, Any] | None:
    process, role = secrets.token_hex(16), settings.role
    address = settings.address or _address(settings, listener)
    key = ServerKey(secret)
    aggregator = Aggregator(engine, process, key) if role in ("all", "aggregator") else None
    app = create_app(
        engine,
        admin_token=admin_token,
        reports=aggregator,
        selects=role in ("all", "selector"),
        routers=[] if aggregator is None else [internal_router(aggregator, secret)],
        is_stopping=stopping.is_set,
        key=key,
    )
    app.add_middleware(OperatorGate, admin_token=admin_token, folder=settings.out)
    heartbeat = Heartbeat(
        engine, process, role=role, address=address, on_beat=None if aggregator is None else aggregator.sweep
    )
    server = _UvicornServer(uvicorn.Config(app, log_config=None, access_log=False, **_transport(settings)))
    outcome: list[dict[str, Any] | None] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            if role in ("all", "coordinator"):
                outcome.append(_coordinate(settings, engine, heartbeat, secret, aggregator, stopping))
            else:
                stopping.wait()
                if aggregator is not None:
                    heartbeat.leave()
                    _finish_rounds(engine, process, lambda: server.should_exit)
        except BaseException as error:
            failure.append(error)
        finally:
            server.should_exit = True

    worker = threading.Thread(target=work, name="tacit work", daemon=True)
    heartbeat.start()
    try:
        log("serving", role=role, address=address)
        ready(address)
        with _signals(stopping, server):
            worker.start()
            server.run(sockets=[listener])
            stopping.set()
            worker.join()
    finally:
        heartbeat.stop()
    log("stopped", role=role)
    if failure:
        raise failure[0]
    return outcome[0] if outcome else None


def _coordinate(
    settings: ServeSettings,
    engine: Engine,
    heartbeat: Heartbeat,
    secret: bytes,
    aggregator: Aggregator | None,
    stopping: threading.Event,
) -> dict[str, Any] | None:
    # Imported here, so that processes that train no model do not load JAX.
    from tacit.fleet.database.budget_table import FleetAccount
    from tacit.fleet.rounds.coordinator import Coordinator
    from tacit.fleet.rounds.fleet_context import places_of
    from tacit.fleet.rounds.peers import Peers

    assert settings.recipe is not None
    assert settings.recipe.fleet is not None
    if settings.recipe.privacy.secagg is not None:
        goal, section = int(settings.recipe.privacy.cohort), settings.recipe.fleet
        if (sentence := trusting(goal, places_of(goal, section), section)) is not None:
            log("warning", sentence=sentence)
    if settings.budget is not None:
        FleetAccount(engine).begin_with(settings.budget)
    return Coordinator(
        engine,
        settings.recipe,
        settings.out / RUN,
        heartbeat=heartbeat,
        peers=Peers(engine, secret, aggregator),
        transport="http on loopback" if settings.http else "https",
        stopping=stopping,
        log=log,
        odometer=settings.odometer or settings.out,
    ).run()


def _finish_rounds(engine: Engine, process: str, at_once: Callable[[], bool]) -> None:
    """Return when no round needs this process any more, or all their deadlines have passed: the coordinator may be gone."""
    log("finishing open rounds")
    while not at_once():
        time.sleep(_POLL_S)  # first, because a selector may have sent a device here a moment ago
        with suppress(SQLAlchemyError):  # the database may come back
            until = round_table.held_until(engine, process)
            if until is None or clock.now(engine) > until + GONE_AFTER_S:
                return


class _UvicornServer(uvicorn.Server):
    """uvicorn without its signal handlers, which would stop listening before the round is finished."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        with_handshake_limit(asyncio.get_running_loop())
        await super().startup(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def _signals(stopping: threading.Event, server: uvicorn.Server) -> Iterator[None]:
    """Handle SIGINT and SIGTERM: the first sets `stopping`, a second stops at once. Only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        if stopping.is_set():
            server.force_exit = server.should_exit = True
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _listening(settings: ServeSettings) -> Iterator[socket.socket]:
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        reason, _, _ = str(error.strerror).partition(" (while")  # Python repeats the address after this
        raise FleetError(
            f"Cannot listen on {settings.host}:{settings.port}: {reason}.",
            hint="Choose another with --host and --port; --port 0 takes a free port.",
        ) from None
    with listener:
        yield listener


def _address(settings: ServeSettings, listener: socket.socket) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{'http' if settings.http else 'https'}://{host}:{listener.getsockname()[1]}"


def _transport(settings: ServeSettings) -> dict[str, Any]:
    common: dict[str, Any] = {
        "timeout_graceful_shutdown": _SHUTDOWN_S,
        "timeout_keep_alive": KEEP_ALIVE_S,
        "server_header": False,
        "log_level": logging.WARNING,
        "http": Connections(allow_many_files()).protocol(),
        "loop": "asyncio",
    }
    if settings.http:
        return common
    found = (settings.certificate, settings.key)
    certificate, key = found if None not in found else development_certificate(settings.out)
    return {**common, "ssl_certfile": certificate, "ssl_keyfile": key, "ssl_ciphers": _CIPHERS}
