"""The administrator's routes: enrolment tokens, status, devices by number, the rounds' goal, the budget, metrics.

All of them need the administrator's token. The status and the metrics hold counts, never which devices; only the list of
devices (`DEVICES`) says what each of them did, for the run's owner, who has the participation record as well.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field, ValidationError
from sqlalchemy import Engine, func, select

from tacit.errors import PrivacyError
from tacit.fleet.database import clock, device_table, task_table
from tacit.fleet.database.budget_table import FleetAccount
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
from tacit.privacy.accounting.budget_filter import require_limit
from tacit.runs.budget.status import status_of

TOKENS, STATUS, DEVICES, ROUND = f"{ADMIN}/tokens", f"{ADMIN}/status", f"{ADMIN}/devices", f"{ADMIN}/round"
BUDGET = f"{ADMIN}/budget"
MOST_LISTED = 1000
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


class KnownDevice(Message):
    """What the server knows of a device: `device_table.DeviceRow`."""

    device: int
    state: str
    failures: int
    places: int
    participations: int
    seen_s: float | None
    last_word: str | None


class DevicePage(Message):
    """The next devices by number, at most MOST_LISTED of them; `more` says whether there are others after them."""

    devices: list[KnownDevice]
    more: bool


class RoundOrder(Message):
    """What an operator wants of the rounds of a task, by its name; of the only active one, if none is named.

    `skip` gives up the try under way: the round is opened again. `pause` opens no further ones until `resume`. `adjust` changes
    the report goal or the deadline of the rounds from now on.
    """

    action: Literal["skip", "pause", "resume", "adjust"]
    task: str | None = Field(default=None, max_length=128)
    goal: int | None = Field(default=None, ge=1)
    deadline_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class TaskStatus(Message):
    """A task: its rounds by state, the round under way, and how many devices could take part in it."""

    name: str
    task: str
    active: bool
    paused: bool
    rounds: dict[str, int]
    under_way: OpenRound | None
    could_come: int | None
    last_abandoned: str | None


class BudgetOrder(Message):
    """A budget for these devices: ε with δ, or ρ."""

    epsilon: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    delta: float | None = Field(default=None, gt=0, lt=1)
    rho: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class OpenReservation(Message):
    """A run that is charged and has not ended."""

    run_id: str
    run: str
    reserved: str


class BudgetSet(Message):
    """A budget that was set."""

    at: str
    epsilon: float | None
    delta: float | None
    rho: float | None


class BudgetAnswer(Message):
    """The budget of these devices; without `set` there is none, and the rest is null."""

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    spent: float | None = None
    left: float | None = None
    unknown: str | None = None
    raised: int | None = None
    runs_before: int | None = None
    runs: int | None = None
    open: list[OpenReservation] = Field(default_factory=list)
    set: list[BudgetSet] = Field(default_factory=list)
    sentence: str = "No budget is set for this fleet."


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

    @router.get(DEVICES, response_model=DevicePage, responses=refusals())
    async def list_devices(request: Request, after: Annotated[int, Query(ge=-1, le=MOST_COUNTER)] = -1) -> Response:
        """The devices with the next numbers, with what each of them is doing and did last."""
        require_administrator(request)

        def find() -> DevicePage:
            found = device_table.page(engine, now=clock.now(engine), after=after, most=MOST_LISTED + 1)
            shown = [KnownDevice(**vars(each)) for each in found[:MOST_LISTED]]
            return DevicePage(devices=shown, more=len(found) > MOST_LISTED)

        return _json(await run_in_thread(find))

    @router.post(f"{DEVICES}/{{device}}/quarantine", status_code=204, response_class=Response, responses=refusals())
    async def quarantine(request: Request, device: Number) -> Response:
        """Give a device no further places, until it is released."""
        require_administrator(request)
        word = "quarantined by an operator"
        await run_in_thread(lambda: device_table.require(engine, device, quarantined=True, last_word=word))
        log("device_quarantined")
        return Response(status_code=204)

    @router.post(f"{DEVICES}/{{device}}/release", status_code=204, response_class=Response, responses=refusals())
    async def release(request: Request, device: Number) -> Response:
        """End a device's quarantine, and its rest after places from which nothing came."""
        require_administrator(request)
        free = {"quarantined": False, "failures": 0, "rests_until": 0.0, "last_word": "released by an operator"}
        await run_in_thread(lambda: device_table.require(engine, device, **free))
        log("device_released")
        return Response(status_code=204)

    @router.post(
        ROUND, status_code=204, response_class=Response, responses=refusals(), openapi_extra=json_body(RoundOrder)
    )
    async def order(request: Request) -> Response:
        """Skip, pause, resume or adjust the rounds of a task."""
        require_administrator(request)
        try:
            wanted = RoundOrder.model_validate_json(await read_body(request, most=MOST_JSON_BYTES))
        except ValidationError:
            raise Refusal("Expected JSON with `action` and, to adjust, a `goal` or a `deadline_s` above 0.") from None
        await run_in_thread(lambda: _obey(engine, wanted))
        log("round_ordered", action=wanted.action)
        return Response(status_code=204)

    @router.get(BUDGET, response_model=BudgetAnswer, responses=refusals())
    async def see_budget(request: Request) -> Response:
        """The budget of these devices, and what is left of it."""
        require_administrator(request)
        return _json(await run_in_thread(lambda: _budget(engine)))

    @router.post(BUDGET, response_model=BudgetAnswer, responses=refusals(), openapi_extra=json_body(BudgetOrder))
    async def set_budget(request: Request) -> Response:
        """Set the budget of these devices, lower it, or raise it."""
        require_administrator(request)
        try:
            wanted = BudgetOrder.model_validate_json(await read_body(request, most=MOST_JSON_BYTES))
        except ValidationError:
            raise Refusal(
                "Expected JSON with `epsilon` above 0 and `delta` between 0 and 1, or with `rho` above 0."
            ) from None

        def set_it() -> BudgetAnswer:
            try:
                FleetAccount(engine).set_limit(require_limit(wanted.epsilon, wanted.delta, wanted.rho))
            except PrivacyError as error:
                raise Refusal(error.sentence) from None
            return _budget(engine)

        found = await run_in_thread(set_it)
        log("budget_set", epsilon=wanted.epsilon, delta=wanted.delta, rho=wanted.rho)
        return _json(found)

    @router.get("/metrics", response_class=Response, responses=refusals())
    async def see_metrics(request: Request) -> Response:
        """Metrics for Prometheus."""
        require_administrator(request)
        return Response(await run_in_thread(metrics.text), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def _budget(engine: Engine) -> BudgetAnswer:
    found = status_of(FleetAccount(engine))
    return BudgetAnswer() if found is None else BudgetAnswer(**found.as_dict(), sentence=found.sentence)


def _obey(engine: Engine, wanted: RoundOrder) -> None:
    with read_only(engine) as connection:
        known = connection.execute(select(tasks).where(tasks.c.active.is_(True))).all()
    found = [row for row in known if wanted.task in (None, row.name, row.task)]
    if len(found) != 1:
        raise Refusal(f"Expected the name of one active task, of which there are {len(known)}.", status=404)
    (row,) = found
    if wanted.action == "adjust":
        _require_no_weaker(DeviceTask.model_validate_json(row.description), wanted)
    task_table.wish(
        engine,
        row.task,
        skip=wanted.action == "skip",
        paused={"pause": True, "resume": False}.get(wanted.action),
        goal=wanted.goal,
        deadline_s=wanted.deadline_s,
    )


def _require_no_weaker(task: DeviceTask, wanted: RoundOrder) -> None:
    """Refusal if a promise of the plan would no longer hold. Epsilon depends neither on the goal nor on the deadline."""
    if wanted.goal is None and wanted.deadline_s is None:
        raise Refusal("Expected a goal or a deadline_s to adjust.")
    if wanted.goal is not None and task.secagg is not None and wanted.goal != task.report_goal:
        raise Refusal(
            f"With secure aggregation the goal stays {task.report_goal}: the plan promises that no smaller sum is seen, and "
            "its encoding has room for no larger one."
        )
    if wanted.goal is not None and wanted.goal > 2 * task.report_goal:
        raise Refusal(f"Expected a goal of at most {2 * task.report_goal}, twice the plan's, got {wanted.goal}.")


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
                paused=row.paused,
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
