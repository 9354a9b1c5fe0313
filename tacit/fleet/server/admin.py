"""The administrator's routes: make enrolment tokens, see the status, revoke a device, read metrics.

All of them need the administrator's token. Answers contain counts of rounds, reports and devices, which the owner may see, but
never which devices.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field, ValidationError
from sqlalchemy import Engine, func, select

from tacit.fleet.database import clock
from tacit.fleet.database.leases import seen_recently
from tacit.fleet.database.schema import OPEN, processes, rounds, tasks
from tacit.fleet.database.transactions import read_only
from tacit.fleet.logs import log
from tacit.fleet.rounds.selection import could_come
from tacit.fleet.server import enrolment
from tacit.fleet.server.metrics import Metrics
from tacit.fleet.server.openapi import ADMIN, json_body, refusals
from tacit.fleet.server.request_limits import read_body
from tacit.fleet.wire.messages import MOST_JSON_BYTES, Message
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.signing import MOST_COUNTER
from tacit.fleet.wire.task import DeviceTask

TOKENS, STATUS, DEVICES = f"{ADMIN}/tokens", f"{ADMIN}/status", f"{ADMIN}/devices"
RunInThread = Callable[[Callable[[], Any]], Awaitable[Any]]
Number = Annotated[int, Path(ge=0, le=MOST_COUNTER)]


class TokenRequest(Message):
    """How many devices may enrol with a token, and for how long."""

    uses: int = Field(ge=1, le=10_000_000)
    hours: float = Field(gt=0, le=24 * 366)


class TokenMade(Message):
    """The new token. It cannot be shown again."""

    token: str


class OpenRound(Message):
    """A round under way."""

    round: int
    goal: int
    places: int
    selected: int
    reported: int
    seconds_left: float


class TaskStatus(Message):
    """A task: its rounds by state, the round under way, and about how many devices could take part in it."""

    name: str
    task: str
    active: bool
    rounds: dict[str, int]
    under_way: OpenRound | None
    could_come: int | None
    last_abandoned: str | None


class Status(Message):
    """The fleet: the number of devices, of processes by role, and its tasks."""

    devices: int
    processes: dict[str, int]
    tasks: list[TaskStatus]


def admin_routes(engine: Engine, token: str, metrics: Metrics, run_in_thread: RunInThread) -> APIRouter:
    """The administrator's routes."""
    router = APIRouter()
    expected = f"Bearer {token}".encode()

    def require_administrator(request: Request) -> None:
        given = request.headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(given, expected):
            raise Refusal(
                "The administrator's token is missing or wrong.", status=401, headers={"www-authenticate": "Bearer"}
            )

    @router.post(TOKENS, response_model=TokenMade, responses=refusals(), openapi_extra=json_body(TokenRequest))
    async def make_token(request: Request) -> Response:
        """Make an enrolment token."""
        require_administrator(request)
        try:
            wanted = TokenRequest.model_validate_json(await read_body(request, most=MOST_JSON_BYTES))
        except ValidationError:
            raise Refusal("Expected JSON with `uses` from 1 to 10,000,000 and `hours` up to a year.") from None

        def make() -> str:
            expires_at = clock.now(engine) + 3600 * wanted.hours
            return enrolment.make_token(engine, uses=wanted.uses, expires_at=expires_at)

        made = await run_in_thread(make)
        log("token_made", uses=wanted.uses)
        return _json(TokenMade(token=made))

    @router.get(STATUS, response_model=Status, responses=refusals())
    async def see_status(request: Request) -> Response:
        """The status of the fleet."""
        require_administrator(request)
        return _json(await run_in_thread(lambda: status(engine, now=clock.now(engine))))

    @router.post(f"{DEVICES}/{{device}}/revoke", status_code=204, response_class=Response, responses=refusals())
    async def revoke(request: Request, device: Number) -> Response:
        """Refuse every further request of a device."""
        require_administrator(request)
        await run_in_thread(lambda: enrolment.revoke(engine, device))
        log("device_revoked")
        return Response(status_code=204)

    @router.get("/metrics", response_class=Response, responses=refusals())
    async def see_metrics(request: Request) -> Response:
        """Metrics for Prometheus."""
        require_administrator(request)
        return Response(await run_in_thread(metrics.text), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def status(engine: Engine, *, now: float) -> Status:
    """The status of the fleet, from the database alone."""
    devices = enrolment.enrolled(engine)
    with read_only(engine) as connection:
        seen = select(processes.c.role, func.count()).where(seen_recently(now))
        running = {row[0]: row[1] for row in connection.execute(seen.group_by(processes.c.role))}
        known = connection.execute(select(tasks).order_by(tasks.c.opened_at)).all()
        counted = connection.execute(
            select(rounds.c.task, rounds.c.state, func.count()).group_by(rounds.c.task, rounds.c.state)
        ).all()
        under_way = {row.task: row for row in connection.execute(select(rounds).where(rounds.c.state == OPEN))}
        reasons = select(rounds.c.task, rounds.c.reason).where(rounds.c.reason.is_not(None))
        last = {row.task: row.reason for row in connection.execute(reasons.order_by(rounds.c.opened_at))}
    return Status(
        devices=devices,
        processes=running,
        tasks=[
            TaskStatus(
                name=row.name,
                task=row.task,
                active=row.active,
                rounds={state: count for task, state, count in counted if task == row.task},
                under_way=_open_round(under_way[row.task], now) if row.task in under_way else None,
                could_come=_could_come(engine, row, under_way[row.task].round) if row.task in under_way else None,
                last_abandoned=last.get(row.task),
            )
            for row in known
        ],
    )


def _could_come(engine: Engine, task: Any, round: int) -> int:
    return could_come(engine, DeviceTask.model_validate_json(task.description), task.task, round)


def _open_round(row: Any, now: float) -> OpenRound:
    return OpenRound(
        round=row.round,
        goal=row.goal,
        places=row.places,
        selected=row.selected,
        reported=row.reported,
        seconds_left=max(0.0, round(row.deadline - now, 1)),
    )


def _json(message: BaseModel) -> Response:
    return Response(message.model_dump_json(), media_type="application/json")
