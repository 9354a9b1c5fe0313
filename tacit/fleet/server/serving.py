"""One process of the server: all of it on a file of SQLite, or one of several roles over one database.

`selector` enrols devices and gives them places, `aggregator` takes what they send, `coordinator` drives the run; `all` does all
three. A signal stops it in order: no round is opened any more, the one under way is finished or abandoned, then the doors are
closed; an aggregator takes on no other round, and finishes those it has reports of. A second signal does not wait.
"""

from __future__ import annotations

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
from tacit.fleet.rounds import lifecycle as rounds
from tacit.fleet.rounds.aggregator import Aggregator
from tacit.fleet.rounds.sealed import make_secret, open_secret
from tacit.fleet.server import clock
from tacit.fleet.server.api import create_app
from tacit.fleet.server.database import migrate, open_database
from tacit.fleet.server.heartbeat import Heartbeat
from tacit.fleet.server.internal import internal_router
from tacit.fleet.server.leases import GONE_AFTER_S
from tacit.fleet.server.observability import log
from tacit.fleet.wire.tls import development_certificate, require_pair, require_transport
from tacit.recipe.training import Recipe

Role = Literal["all", "selector", "aggregator", "coordinator"]
ROLES: tuple[str, ...] = get_args(Role)
DATABASE, SECRET, ADMIN_TOKEN, RUN = "fleet.db", "secret", "admin-token", "run"
# Of TLS 1.2; those of 1.3 are all as good. What uvicorn chooses by itself has changed with its versions, and was worse.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_LAST_WORDS_S, _LOOK_AGAIN_S = 10, 0.5


@dataclass(frozen=True)
class ServeSettings:
    """What a process is to do, where it keeps its files (`out`) and how it is reached.

    `address` is what devices and other processes are told, where it is not what the process listens on; devices upload only to
    the name of the server they are enrolled with, or to one below it. Without a certificate
    one for this machine alone is made; without a database, a secret or an administrator's token, files in `out` are. `odometer`
    is the folder that lists every run on these devices, and the same for all their servers; `out` if none is given.
    """

    out: Path
    recipe: Recipe | None = None
    role: Role = "all"
    database: str | None = field(default=None, repr=False)  # with its password
    host: str = "127.0.0.1"
    port: int = 8443
    http: bool = False
    certificate: Path | None = None
    key: Path | None = None
    address: str | None = None
    secret: Path | None = None
    admin_token: Path | None = None
    odometer: Path | None = None

    def check(self) -> None:
        """FleetError if it does not fit together."""
        require_transport(http=self.http, host=self.host)
        if self.address is None and self.host in ("0.0.0.0", "::"):
            raise FleetError(f"Expected --address, which devices are told, with --host {self.host}, got none.")
        if (self.certificate is None) != (self.key is None):
            raise FleetError("Expected --certificate and --key together, got one of them.")
        if self.http and self.certificate is not None:
            raise FleetError("Expected either --http or --certificate, got both.")
        if self.certificate is not None and self.key is not None:
            require_pair(self.certificate, self.key)
        if self.role != "all" and (self.database is None or self.secret is None):
            raise FleetError(f"Expected --database and --secret, which processes share, with --role {self.role}.")
        if self.role in ("all", "coordinator") and (self.recipe is None or self.recipe.fleet is None):
            raise FleetError(f"Expected a recipe with a [fleet] section for the role {self.role!r}.")


def serve(
    settings: ServeSettings,
    *,
    stopping: threading.Event | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> dict[str, Any] | None:
    """Serve until the run is finished (its summary), a signal comes or `stopping` is set (None).

    `ready` is told the address once devices can be heard.
    """
    settings.check()
    stopping = stopping or threading.Event()
    with _listening(settings) as listener:  # first: a port that is taken leaves no folder behind
        for folder in (settings.out, settings.odometer or settings.out):
            folder.mkdir(parents=True, exist_ok=True)
        secret, token = (
            make_secret(settings.out / name) if given is None else open_secret(given)
            for name, given in ((SECRET, settings.secret), (ADMIN_TOKEN, settings.admin_token))
        )
        engine = open_database(settings.database or f"sqlite:///{(settings.out / DATABASE).resolve()}")
        try:
            migrate(engine)
            return _serve(settings, engine, secret, token.hex(), listener, stopping, ready)
        finally:
            engine.dispose()


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
    aggregator = Aggregator(engine, process) if role in ("all", "aggregator") else None
    app = create_app(
        engine,
        admin_token=admin_token,
        reports=aggregator,
        selects=role in ("all", "selector"),
        routers=[] if aggregator is None else [internal_router(aggregator, secret)],
    )
    heartbeat = Heartbeat(
        engine, process, role=role, address=address, beat=None if aggregator is None else aggregator.sweep
    )
    server = _Server(uvicorn.Config(app, log_config=None, access_log=False, **_transport(settings)))
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
    # Imported here: processes without a model to train do without JAX.
    from tacit.fleet.rounds.coordinator import Coordinator
    from tacit.fleet.rounds.gathering import Peers

    assert settings.recipe is not None
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
    """Return when no round needs this process, or each of them should be over: nobody may be left to close it."""
    log("finishing the rounds under way")
    while not at_once():
        time.sleep(_LOOK_AGAIN_S)  # first of all: a selector may have sent somebody here a moment ago
        with suppress(SQLAlchemyError):  # a database that is away comes back
            until = rounds.held_until(engine, process)
            if until is None or clock.now(engine) > until + GONE_AFTER_S:
                return


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn's own handling closes the doors first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def _signals(stopping: threading.Event, server: uvicorn.Server) -> Iterator[None]:
    """SIGINT and SIGTERM stop in order, a second one at once. Only a main thread can hear them."""
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
        reason, _, _ = str(error.strerror).partition(" (while")  # what Python adds says the address again
        raise FleetError(
            f"Cannot listen on {settings.host}:{settings.port}: {reason}.",
            hint="--host and --port choose another; --port 0 takes a free one.",
        ) from None
    with listener:
        yield listener


def _address(settings: ServeSettings, listener: socket.socket) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{'http' if settings.http else 'https'}://{host}:{listener.getsockname()[1]}"


def _transport(settings: ServeSettings) -> dict[str, Any]:
    common = {"timeout_graceful_shutdown": _LAST_WORDS_S, "server_header": False, "log_level": logging.WARNING}
    if settings.http:
        return common
    found = (settings.certificate, settings.key)
    certificate, key = found if None not in found else development_certificate(settings.out)
    return {**common, "ssl_certfile": certificate, "ssl_keyfile": key, "ssl_ciphers": _CIPHERS}
