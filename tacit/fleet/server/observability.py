"""What an operator sees: one JSON object a line in the log, and numbers for Prometheus.

Neither ever holds a device's number, address, key or token, nor anything a device has sent: an event has a name and numbers,
a metric is by route and status.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from typing import TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from sqlalchemy import Engine, func, select
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit.fleet.server import enrolment
from tacit.fleet.server.database import reading
from tacit.fleet.server.schema import rounds

_LOGGER = logging.getLogger("tacit.fleet")
# Below a warning SQLAlchemy writes statements down.
_LOGGED = {
    "tacit.fleet": logging.INFO,
    "uvicorn.error": logging.INFO,
    "asyncio": logging.WARNING,
    "sqlalchemy": logging.WARNING,
}
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT"))
_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class _JsonLines(logging.Formatter):
    """Time, level, event; for records of other libraries their message, for failures the kind of exception and where."""

    def format(self, record: logging.LogRecord) -> str:
        # One line of it: on further ones asyncio writes down what it was about, an exception's words among it.
        event = record.getMessage().partition("\n")[0]
        line = {"time": round(record.created, 3), "level": record.levelname.lower(), "event": event}
        line |= getattr(record, "values", {})
        if record.exc_info and record.exc_info[0] is not None:
            # Not the exception's own words: they may quote what a device has sent.
            line["exception"] = record.exc_info[0].__name__
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            if trace is not None:
                line["where"] = f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"
        return json.dumps(line)


def configure_logs(stream: TextIO | None = None) -> None:
    """Send the fleet's events, and what the libraries under it have to say, to `stream` (stderr) as JSON lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines())
    for name, level in _LOGGED.items():
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level)


def log(event: str, **values: float | str | bool | None) -> None:
    """Write down that something happened; `values` are numbers and constant words, never a device's."""
    _LOGGER.info(event, extra={"values": values})


def log_failure(event: str) -> None:
    """Write down the exception that is being handled, by its kind and place."""
    _LOGGER.error(event, exc_info=True)


class Metrics:
    """The numbers of one process, and on demand those of the fleet."""

    def __init__(self, engine: Engine) -> None:
        self._registry = CollectorRegistry()
        labels = ("route", "method", "status")
        self._requests = Counter("tacit_requests", "Requests answered", labels, registry=self._registry)
        self._seconds = Histogram(
            "tacit_request_seconds", "Time to an answer", ("route",), buckets=_SECONDS, registry=self._registry
        )
        self.received = Counter("tacit_received_bytes", "Bytes of bodies taken", registry=self._registry)
        self.uploads = Gauge("tacit_uploads_in_memory", "Bodies being read or added up", registry=self._registry)
        self._registry.register(_Fleet(engine))

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)

    def watch(self, app: ASGIApp) -> ASGIApp:
        """The same application, with its answers counted; an exception that escapes is logged without its words."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            started, status = time.perf_counter(), 500

            async def sent(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            try:
                await app(scope, receive, sent)
            finally:
                # The route's template, not the path: a path has names in it and no bound.
                route = getattr(scope.get("route"), "path", "none")
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self._requests.labels(route, method, status).inc()
                self._seconds.labels(route).observe(time.perf_counter() - started)

        return watched


class _Fleet:
    """Numbers that all processes share, read when somebody asks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        reached = GaugeMetricFamily("tacit_database_up", "Whether the database answers")
        try:
            devices = enrolment.enrolled(self._engine)
            with reading(self._engine) as connection:
                query = select(rounds.c.state, func.count()).group_by(rounds.c.state)
                states = [(state, count) for state, count in connection.execute(query)]
        except SQLAlchemyError:
            reached.add_metric((), 0)
            yield reached
            return
        reached.add_metric((), 1)
        yield reached
        yield GaugeMetricFamily("tacit_devices", "Devices that may speak", value=devices)
        by_state = GaugeMetricFamily("tacit_rounds", "Rounds, by how they stand", labels=("state",))
        for state, count in states:
            by_state.add_metric((state,), count)
        yield by_state
