"""Metrics for Prometheus: requests by route and status, and the state of the whole fleet.

A metric never holds a device's number, address, key or token, nor anything a device has sent.
"""

from __future__ import annotations

import json
import time
from collections import Counter as Tally
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from sqlalchemy import Engine, case, func, select
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit.fleet.database import device_table
from tacit.fleet.database.schema import COMMITTED, devices, rounds, tasks
from tacit.fleet.database.transactions import read_only
from tacit.fleet.server import enrolment

_DEVICES = (
    case(
        (devices.c.revoked.is_(True), device_table.REVOKED),
        (devices.c.left_at.is_not(None), device_table.LEFT),
        (devices.c.quarantined.is_(True), device_table.QUARANTINED),
        else_=device_table.READY,
    )
).label("state")
_BY_STATE = select(_DEVICES, func.count()).group_by(_DEVICES)
_DURATIONS = select(
    func.sum(rounds.c.closed_at - rounds.c.opened_at).label("total"), func.count().label("number")
).where(rounds.c.state == COMMITTED)
_TOLD = select(tasks.c.name, tasks.c.dropped, tasks.c.lost, tasks.c.epsilon)
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT"))
_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Metrics:
    """The metrics of one process, and those of the whole fleet, which are read when Prometheus asks."""

    def __init__(self, engine: Engine) -> None:
        self._registry = CollectorRegistry()
        labels = ("route", "method", "status")
        self._requests = Counter("tacit_requests", "Requests answered", labels, registry=self._registry)
        self._seconds = Histogram(
            "tacit_request_seconds",
            "Seconds until a request is answered",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.received = Counter("tacit_received_bytes", "Bytes of request bodies received", registry=self._registry)
        self.uploads = Gauge(
            "tacit_uploads_in_memory", "Request bodies being read or added up", registry=self._registry
        )
        self._registry.register(_FleetCollector(engine))

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def middleware(self, app: ASGIApp) -> ASGIApp:
        """ASGI middleware that counts requests and measures how long they take."""

        async def measured(scope: Scope, receive: Receive, send: Send) -> None:
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
                # The route's template, not the path: paths contain names, and there is no limit to how many there are.
                route = getattr(scope.get("route"), "path", "none")
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self._requests.labels(route, method, status).inc()
                self._seconds.labels(route).observe(time.perf_counter() - started)

        return measured


class _FleetCollector:
    """Metrics of the whole fleet, read from the database when Prometheus asks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        reached = GaugeMetricFamily("tacit_database_up", "Whether the database answers")
        try:
            enrolled = enrolment.enrolled(self._engine)
            with read_only(self._engine) as connection:
                query = select(rounds.c.state, func.count()).group_by(rounds.c.state)
                states = [(state, count) for state, count in connection.execute(query)]
                known = [(name, count) for name, count in connection.execute(_BY_STATE)]
                took = connection.execute(_DURATIONS).one()
                told = connection.execute(_TOLD).all()
        except SQLAlchemyError:
            reached.add_metric((), 0)
            yield reached
            return
        reached.add_metric((), 1)
        yield reached
        yield GaugeMetricFamily("tacit_devices", "Devices enrolled and not revoked", value=enrolled)
        devices_by = GaugeMetricFamily("tacit_devices_by_state", "Devices by state", labels=("state",))
        for name, count in known:
            devices_by.add_metric((name,), count)
        yield devices_by
        yield GaugeMetricFamily(
            "tacit_round_seconds_sum", "Seconds that committed rounds took", value=took.total or 0.0
        )
        yield GaugeMetricFamily("tacit_round_seconds_count", "Committed rounds", value=took.number)
        dropped = GaugeMetricFamily("tacit_dropouts", "Devices from which nothing came, by stage", labels=("stage",))
        lost = GaugeMetricFamily("tacit_lost_rounds", "Rounds lost after their intent", labels=("task",))
        epsilon = GaugeMetricFamily("tacit_epsilon_spent", "Epsilon of what the ledger has so far", labels=("task",))
        stages: Tally[str] = Tally()
        for row in told:
            stages.update(json.loads(row.dropped or "{}"))
            lost.add_metric((row.name,), row.lost)
            if row.epsilon is not None:
                epsilon.add_metric((row.name,), row.epsilon)
        for stage, count in sorted(stages.items()):
            dropped.add_metric((stage,), count)
        yield dropped
        yield lost
        yield epsilon
        by_state = GaugeMetricFamily("tacit_rounds", "Rounds by state", labels=("state",))
        for state, count in states:
            by_state.add_metric((state,), count)
        yield by_state
