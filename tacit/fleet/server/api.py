"""The HTTP interface: who speaks is settled first, then what is read, then what is done.

For every request of a device, in this order: the headers name an enrolled device; its signature fits method, path and the
digest of a body; its counter is new, and is used up; it has not asked too often; it has a place in the round it speaks of; the
body has the length it must have; the body is the one that was signed. Only the JSON of a few hundred bytes is read before the
signature is checked. What a request changes, it changes after all of that.

Work that waits for the database runs in threads; at most `BODIES_BYTES` of reports are in memory at once, and
`ADDED_AT_ONCE` of them are added up, so that memory does not grow with the cohort. `wire.py` lists the paths.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Protocol, TypeVar

import anyio.to_thread
from fastapi import APIRouter, FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ValidationError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from tacit import __version__
from tacit.errors import FleetError
from tacit.fleet.rounds import selection
from tacit.fleet.server import clock, enrolment
from tacit.fleet.server.admin import admin_routes
from tacit.fleet.server.database import POOL
from tacit.fleet.server.downloads import Downloads, in_pieces
from tacit.fleet.server.limits import Buckets, Room, read_body, stated_length
from tacit.fleet.server.lingering import lingering
from tacit.fleet.server.observability import Metrics, log, log_failure
from tacit.fleet.wire import signing
from tacit.fleet.wire.documentation import bytes_in, bytes_out, describe_credentials, json_body, refusals
from tacit.fleet.wire.messages import (
    BLOBS,
    CHECK_IN,
    ENROL,
    MOST_JSON_BYTES,
    ROUNDS,
    Answer,
    CheckIn,
    Enrolled,
    EnrolRequest,
    Received,
    Refused,
    RoundId,
    SessionTerms,
    Sha256,
    Stage,
    padded,
)
from tacit.fleet.wire.refusals import Refusal, unauthorised

# Slow devices need space for as long as they send; to add a report up takes several times its size for a moment.
BODIES_BYTES, ADDED_AT_ONCE = 256 << 20, 4
# Some connections stay free for the coordinator and for what processes say to each other.
_THREADS = POOL - 4
_Result = TypeVar("_Result")
_Read = TypeVar("_Read", bound=BaseModel)
_Round = Annotated[RoundId, Path()]
_Stage = Annotated[Stage, Path()]
JSON, BYTES = "application/json", "application/octet-stream"


class Reports(Protocol):
    """The process's part in rounds. Each call may raise a Refusal, and has then changed nothing."""

    def most_bytes(self, round_id: str, device: int, stage: str | None) -> int:
        """How long this device's report (exactly), or its message of a stage (at most), is; before it is read."""
        ...

    def report(self, round_id: str, device: int, body: bytes) -> Received:
        """Count a report."""
        ...

    def post(self, round_id: str, device: int, stage: str, body: bytes) -> Received:
        """Take a device's message of a stage of secure aggregation."""
        ...

    def fetch(self, round_id: str, device: int, stage: str) -> bytes | None:
        """What the server has for the device in a stage, or None for not yet; of "session", the JSON of SessionTerms."""
        ...


class _Entrance:
    """Lets in the requests of enrolled devices, each once and not too many."""

    def __init__(self, engine: Engine) -> None:
        self._door = enrolment.Door(engine)
        self._calls = Buckets(per_s=10, burst=100)
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def work(self, call: Callable[[], _Result]) -> _Result:
        """Run what waits for the database without holding up the others."""
        return await anyio.to_thread.run_sync(call, limiter=self._threads)

    def claims(self, request: Request) -> signing.Credentials:
        """Who the request says it is from; nothing is verified yet."""
        try:
            return signing.credentials_of(request.headers)
        except FleetError:
            raise unauthorised() from None

    def admit(self, request: Request, claimed: signing.Credentials) -> int:
        """The device that sent this; from here on the request cannot be sent again."""
        path = request.scope.get("raw_path") or request.scope["path"].encode()
        query = request.scope["query_string"]
        asked = (path + b"?" + query if query else path).decode("latin-1")
        self._door.authenticate(claimed, request.method, asked)
        self._calls.take(claimed.device)
        return claimed.device


def create_app(
    engine: Engine,
    *,
    admin_token: str,
    reports: Reports | None,
    selects: bool,
    routers: Sequence[APIRouter] = (),
) -> FastAPI:
    """The application of one process: with enrolment, check-ins and downloads if it `selects`, with rounds if it has them."""
    app = FastAPI(title="Tacit fleet", version=__version__, docs_url=None, redoc_url=None)
    metrics = Metrics(engine)
    entrance = _Entrance(engine)
    if selects:
        app.include_router(_selecting(engine, entrance))
    if reports is not None:
        app.include_router(_reporting(reports, entrance, metrics))
    app.include_router(admin_routes(engine, admin_token, metrics, entrance.work))
    for router in routers:
        app.include_router(router)

    @app.get("/healthz", include_in_schema=False)
    async def healthy() -> Response:
        return Response("ok\n", media_type="text/plain")

    app.add_middleware(metrics.watch)
    app.add_middleware(lingering)
    _answer_errors(app)
    describe_credentials(app)
    return app


def _selecting(engine: Engine, entrance: _Entrance) -> APIRouter:
    router = APIRouter()
    newcomers = Buckets(per_s=5, burst=100)
    downloads = Downloads(engine)
    lookout, draw = selection.Lookout(engine), random.SystemRandom()

    @router.post(ENROL, response_model=Enrolled, responses=refusals(), openapi_extra=json_body(EnrolRequest))
    async def enrol(request: Request) -> Response:
        """Exchange a token for a number."""
        newcomers.take(request.client.host if request.client else "")
        message = _parsed(EnrolRequest, await read_body(request, most=MOST_JSON_BYTES))
        number = await entrance.work(lambda: enrolment.enrol(engine, message, now=clock.now(engine)))
        log("device_enrolled")
        return _json(Enrolled(device=number))

    @router.post(CHECK_IN, response_model=Answer, responses=refusals(), openapi_extra=json_body(CheckIn))
    async def check_in(request: Request) -> Response:
        """Ask for a task; the answer also says when to come back."""
        claimed = entrance.claims(request)
        body = await read_body(request, most=MOST_JSON_BYTES)

        def answer() -> bytes:
            device = entrance.admit(request, claimed)
            _require_body(claimed, body)
            message = _parsed(CheckIn, body)
            now = clock.now(engine)
            answer = selection.check_in(engine, device, message, now=now, draw=draw, outlook=lookout.at(now))
            return padded(answer)

        return Response(await entrance.work(answer), media_type=JSON)

    @router.get(f"{BLOBS}/{{sha256}}", response_class=Response, responses=refusals() | bytes_out())
    async def download(request: Request, sha256: Annotated[Sha256, Path()]) -> Response:
        """A plan, a checkpoint, a list of words, by the SHA-256 of its bytes."""
        claimed = _without_body(request, entrance)

        def find() -> bytes:
            entrance.admit(request, claimed)
            return downloads.get(sha256)

        content = await entrance.work(find)
        length = {"content-length": str(len(content))}
        return StreamingResponse(in_pieces(content), media_type=BYTES, headers=length)

    return router


def _reporting(reports: Reports, entrance: _Entrance, metrics: Metrics) -> APIRouter:
    router = APIRouter(prefix=f"{ROUNDS}/{{round_id}}")
    room = Room(BODIES_BYTES)
    # Always the same few threads: each thread's allocator keeps some of what it once had.
    adders = ThreadPoolExecutor(ADDED_AT_ONCE, thread_name_prefix="adding")

    async def take(request: Request, round_id: str, stage: Stage | None) -> Received:
        claimed = entrance.claims(request)

        def admit() -> tuple[int, int]:
            device = entrance.admit(request, claimed)
            return device, reports.most_bytes(round_id, device, stage)

        device, most = await entrance.work(admit)
        least = most if stage is None else 0
        async with room.hold(stated_length(request, most=most, least=least)):
            with metrics.uploads.track_inprogress():
                body = await read_body(request, most=most, least=least)

                def add() -> Received:
                    _require_body(claimed, body)
                    if stage is None:
                        return reports.report(round_id, device, body)
                    return reports.post(round_id, device, stage, body)

                received = await asyncio.get_running_loop().run_in_executor(adders, add)
        metrics.received.inc(len(body))
        return received

    async def fetch(request: Request, round_id: str, stage: str) -> bytes | None:
        claimed = _without_body(request, entrance)
        return await entrance.work(lambda: reports.fetch(round_id, entrance.admit(request, claimed), stage))

    @router.put("/report", response_model=Received, responses=refusals(), openapi_extra=bytes_in())
    async def report(request: Request, round_id: _Round) -> Response:
        """An update, clipped by the device."""
        return _json(await take(request, round_id, None))

    @router.get("/secagg/session", response_model=SessionTerms, responses=refusals(not_yet=True))
    async def session(request: Request, round_id: _Round) -> Response:
        """The constants of a round of secure aggregation."""
        found = await fetch(request, round_id, "session")
        return Response(status_code=204) if found is None else Response(found, media_type=JSON)

    @router.post("/secagg/{stage}", response_model=Received, responses=refusals(), openapi_extra=bytes_in())
    async def post(request: Request, round_id: _Round, stage: _Stage) -> Response:
        """The device's message of a stage."""
        return _json(await take(request, round_id, stage))

    @router.get("/secagg/{stage}", response_class=Response, responses=refusals(not_yet=True) | bytes_out())
    async def get(request: Request, round_id: _Round, stage: _Stage) -> Response:
        """What the server has for the device in a stage."""
        found = await fetch(request, round_id, stage)
        return Response(status_code=204) if found is None else Response(found, media_type=BYTES)

    return router


def _without_body(request: Request, entrance: _Entrance) -> signing.Credentials:
    """Who asks, in a request that has no body."""
    stated_length(request, most=0)
    claimed = entrance.claims(request)
    _require_body(claimed, b"")
    return claimed


def _require_body(claimed: signing.Credentials, body: bytes) -> None:
    if not signing.is_body(claimed, body):
        raise unauthorised()


def _parsed(model: type[_Read], body: bytes) -> _Read:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        # The fields alone: a message may quote what was sent.
        fields = sorted({".".join(map(str, each["loc"][:1])) or "the whole" for each in error.errors()})
        raise Refusal(f"Expected JSON of {model.__name__}; wrong: {', '.join(fields)[:200]}.") from None


def _json(message: BaseModel) -> Response:
    return Response(message.model_dump_json(), media_type=JSON)


def _answer_errors(app: FastAPI) -> None:
    """Whatever goes wrong is answered as `Refused`, in our words and never in those that were sent."""

    def refused(
        sentence: str, status: int, *, again: bool = False, headers: Mapping[str, str] | None = None
    ) -> Response:
        return JSONResponse(Refused(detail=sentence, again=again).model_dump(), status, headers)

    @app.exception_handler(FleetError)
    async def fleet_error(_: Request, error: FleetError) -> Response:
        if isinstance(error, Refusal):
            return refused(error.sentence, error.status, again=error.again, headers=error.headers)
        return refused(error.sentence, 422)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return refused("Expected a path as the documentation has it, got another.", 422)

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        return refused("There is nothing here for such a request.", error.status_code, headers=error.headers)

    @app.exception_handler(SQLAlchemyError)
    async def database(_: Request, error: SQLAlchemyError) -> Response:
        log_failure("database_failed")
        return refused("The server's database does not answer.", 503, again=True, headers={"retry-after": "5"})

    @app.exception_handler(Exception)
    async def bug(_: Request, error: Exception) -> Response:
        # It is raised further once this is said, and the server closes the connection for it.
        return refused("The server has failed.", 500, again=True, headers={"connection": "close"})
