"""The routes for devices: the sender is authenticated first, then the body is read, then the request is carried out.

Every request of a device is checked in this order: the headers name an enrolled device; its signature fits the method, the path
and the body's digest; its counter is new, and is then marked as used; it has not made too many requests; it has a place in the
round; the body has the right length; the body has the signed digest. Only small JSON bodies are read before the signature is
checked. A request changes nothing else before all checks have passed.

Calls that wait for the database run in threads, and many short ones in one thread (`call_queue.py`). At most `BODIES_BYTES` of
reports are in memory, and `ADDED_AT_ONCE` reports are added up at the same time, so that memory does not grow with the cohort.
`wire/messages.py` lists the paths.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Protocol, TypeVar, cast

import anyio.to_thread
from fastapi import APIRouter, FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.routing import Route

from tacit import __version__
from tacit.errors import FleetError
from tacit.fleet.database import clock
from tacit.fleet.database.transactions import POOL
from tacit.fleet.logs import log, log_failure
from tacit.fleet.rounds import selection
from tacit.fleet.server import enrolment
from tacit.fleet.server.admin import admin_routes
from tacit.fleet.server.authentication import DeviceAuthenticator
from tacit.fleet.server.call_queue import CallQueue
from tacit.fleet.server.connections import limit_answers
from tacit.fleet.server.downloads import Downloads, in_pieces
from tacit.fleet.server.health import add_health
from tacit.fleet.server.log_routes import log_routes
from tacit.fleet.server.metrics import Metrics
from tacit.fleet.server.openapi import bytes_in, bytes_out, describe_credentials, json_body, refusals
from tacit.fleet.server.request_limits import (
    ADDED_AT_ONCE,
    BODIES_BYTES,
    BUFFERS_KEPT,
    DEVICE_BURST,
    DEVICE_PER_S,
    ENROLMENTS_BURST,
    ENROLMENTS_PER_S,
    BodyMemory,
    Buffers,
    OneAtATime,
    RateLimiter,
    read_body,
    read_buffer,
    stated_length,
)
from tacit.fleet.server.unread_bodies import drain_unread_bodies
from tacit.fleet.wire import signing
from tacit.fleet.wire.messages import (
    BLOBS,
    CHECK_IN,
    ENROL,
    MOST_JSON_BYTES,
    ROUNDS,
    CheckInAnswer,
    CheckInRequest,
    Enrolled,
    EnrolRequest,
    Received,
    Refused,
    RoundId,
    Sha256,
    Stage,
    padded,
)
from tacit.fleet.wire.public_log import LeaveRequest
from tacit.fleet.wire.refusals import Refusal, unauthorised
from tacit.fleet.wire.server_key import ServerKey
from tacit.fleet.wire.task import SessionTerms

# Some database connections stay free for the coordinator and for requests between processes.
_THREADS = POOL - 4
_Result = TypeVar("_Result")
_Read = TypeVar("_Read", bound=BaseModel)
_Round = Annotated[RoundId, Path()]
_Stage = Annotated[Stage, Path()]
JSON, BYTES = "application/json", "application/octet-stream"


class Reports(Protocol):
    """Accepts what devices send in rounds (`rounds.aggregator.Aggregator`).

    A call that raises a Refusal has changed nothing.
    """

    def most_bytes(self, round_id: str, device: int, stage: str | None) -> int:
        """The exact length of this device's report, or the greatest length of its message of a stage."""
        ...

    def report(self, round_id: str, device: int, body: bytes | bytearray, digest: str) -> Received:
        """Count a report with this SHA-256 and add it to the round's sum."""
        ...

    def post(self, round_id: str, device: int, stage: str, body: bytes) -> Received:
        """Accept a device's message of a stage of secure aggregation."""
        ...

    def fetch(self, round_id: str, device: int, stage: str) -> bytes | None:
        """The server's message to the device in a stage (for "session", the JSON of SessionTerms); None if it is not ready."""
        ...


class _DeviceRequests:
    """Authenticates devices' requests and limits their rate."""

    def __init__(self, engine: Engine) -> None:
        self._authenticator = DeviceAuthenticator(engine)
        self._rate = RateLimiter(per_s=DEVICE_PER_S, burst=DEVICE_BURST)
        # SQLite has one writer at a time: more threads would wait for each other.
        short = 1 if engine.dialect.name == "sqlite" else _THREADS // 2
        self._short, self._threads = CallQueue(short), anyio.CapacityLimiter(_THREADS - short)

    async def run_in_thread(self, call: Callable[[], _Result]) -> _Result:
        """Run a call that waits for the database without blocking other requests."""
        return await anyio.to_thread.run_sync(call, limiter=self._threads)

    async def run_short(self, call: Callable[[], _Result]) -> _Result:
        """The same for the few rows of a check-in or an admission, of which there are many at a time."""
        return await self._short.run(call)

    def claims(self, request: Request) -> signing.Credentials:
        """The sender that the request claims; nothing is verified yet."""
        try:
            return signing.credentials_of(request.headers)
        except FleetError:
            raise unauthorised() from None

    def admit_leaving(self, request: Request, claimed: signing.Credentials, identity: bytes) -> int:
        """Like `admit`, for a device that brings its own key: if it has left already, the server has no key of it."""
        try:
            return self.admit(request, claimed)
        except Refusal as refusal:
            if refusal.status != 401 or not signing.is_signed(identity, claimed, request.method, _path_of(request)):
                raise
            return claimed.device

    def admit(self, request: Request, claimed: signing.Credentials) -> int:
        """The device that sent this request. Its counter is used up, so the request cannot be replayed."""
        self._authenticator.authenticate(claimed, request.method, _path_of(request), address_of(request))
        self._rate.take(claimed.device)
        return claimed.device


def _path_of(request: Request) -> str:
    """The path as it was sent, with the query: what the device signed."""
    path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query: bytes = request.scope["query_string"]
    return (path + b"?" + query if query else path).decode("latin-1")


def address_of(request: Request) -> str:
    """The network address that the request comes from."""
    return request.client.host if request.client else ""


def create_app(
    engine: Engine,
    *,
    admin_token: str,
    reports: Reports | None,
    selects: bool,
    routers: Sequence[APIRouter] = (),
    is_stopping: Callable[[], bool] = lambda: False,
    key: ServerKey | None = None,
) -> FastAPI:
    """The application of one process: enrolment, check-ins and downloads if it `selects`, reports if it has `reports`.

    A process that `selects` and has the server's `key` also shows the public log, and lets devices leave.
    """
    app = FastAPI(title="Tacit fleet", version=__version__, docs_url=None, redoc_url=None)
    metrics = Metrics(engine)
    requests = _DeviceRequests(engine)
    if selects:
        selecting = _selecting(engine, requests, key)
        app.router.routes.append(_plain(selecting, CHECK_IN, "POST"))
        app.include_router(selecting)
        if key is not None:
            app.include_router(log_routes(engine, key, partial(_asked, requests), partial(_leaves, requests)))
    if reports is not None:
        app.include_router(_reporting(reports, requests, metrics))
    app.include_router(admin_routes(engine, admin_token, metrics, requests.run_in_thread))
    for router in routers:
        app.include_router(router)

    add_health(app, engine, is_stopping)

    app.add_middleware(metrics.middleware)
    app.add_middleware(drain_unread_bodies)
    app.add_middleware(limit_answers)
    _answer_errors(app)
    describe_credentials(app)
    return app


def _plain(router: APIRouter, path: str, method: str) -> Route:
    """A route to the same function that does nothing but call it. It goes before the router's own, which documents the path.

    FastAPI looks for parameters and dependencies, of which there are none; that takes a good part of the time of a check-in.
    """
    (found,) = (each for each in router.routes if isinstance(each, APIRoute) and each.path == path)

    async def answer(request: Request) -> Response:
        request.scope["route"] = found  # for the metrics
        return cast(Response, await found.endpoint(request))

    return Route(path, answer, methods=[method], include_in_schema=False)


async def _asked(requests: _DeviceRequests, request: Request, call: Callable[[], BaseModel]) -> Response:
    """Answer a request without a body."""
    claimed = _without_body(request, requests)

    def answer() -> BaseModel:
        requests.admit(request, claimed)
        return call()

    return _json(await requests.run_in_thread(answer))


async def _leaves(requests: _DeviceRequests, request: Request, call: Callable[[int, bytes], BaseModel]) -> Response:
    """Answer a request to leave."""
    claimed = requests.claims(request)
    body = await read_body(request, most=MOST_JSON_BYTES)

    def answer() -> BaseModel:
        identity = bytes.fromhex(_parsed(LeaveRequest, body).identity)
        device = requests.admit_leaving(request, claimed, identity)
        _require_body(claimed, body)
        return call(device, identity)

    return _json(await requests.run_in_thread(answer))


def _selecting(engine: Engine, requests: _DeviceRequests, key: ServerKey | None) -> APIRouter:
    router = APIRouter()
    enrolments = RateLimiter(per_s=ENROLMENTS_PER_S, burst=ENROLMENTS_BURST)
    downloads = Downloads(engine)
    snapshots, draw = selection.SnapshotCache(engine), random.SystemRandom()

    @router.post(ENROL, response_model=Enrolled, responses=refusals(), openapi_extra=json_body(EnrolRequest))
    async def enrol(request: Request) -> Response:
        """Exchange an enrolment token for a device number."""
        enrolments.take(address_of(request))
        message = _parsed(EnrolRequest, await read_body(request, most=MOST_JSON_BYTES))
        number = await requests.run_in_thread(lambda: enrolment.enrol(engine, message, now=clock.now(engine), key=key))
        log("device_enrolled")
        return _json(Enrolled(device=number))

    @router.post(CHECK_IN, response_model=CheckInAnswer, responses=refusals(), openapi_extra=json_body(CheckInRequest))
    async def check_in(request: Request) -> Response:
        """Ask for a place in a round; the answer also says how long to wait before the next check-in."""
        claimed = requests.claims(request)
        body = await read_body(request, most=MOST_JSON_BYTES)

        def answer() -> bytes:
            device = requests.admit(request, claimed)
            _require_body(claimed, body)
            message = _parsed(CheckInRequest, body)
            now = clock.now(engine)
            answer = selection.check_in(engine, device, message, now=now, draw=draw, snapshot=snapshots.at(now))
            return padded(answer)

        return Response(await requests.run_short(answer), media_type=JSON)

    @router.get(f"{BLOBS}/{{sha256}}", response_class=Response, responses=refusals() | bytes_out())
    async def download(request: Request, sha256: Annotated[Sha256, Path()]) -> Response:
        """A compiled plan, a checkpoint or a vocabulary, by the SHA-256 of its bytes."""
        claimed = _without_body(request, requests)

        def find() -> bytes:
            requests.admit(request, claimed)
            return downloads.get(sha256)

        content = await requests.run_in_thread(find)
        length = {"content-length": str(len(content))}
        return StreamingResponse(in_pieces(content), media_type=BYTES, headers=length)

    return router


def _reporting(reports: Reports, requests: _DeviceRequests, metrics: Metrics) -> APIRouter:
    router = APIRouter(prefix=f"{ROUNDS}/{{round_id}}")
    memory, sending, buffers = BodyMemory(BODIES_BYTES), OneAtATime(), Buffers(BUFFERS_KEPT)
    # A few threads of their own, because each thread's allocator keeps some of the memory it has used.
    adders = ThreadPoolExecutor(ADDED_AT_ONCE, thread_name_prefix="adding")

    async def take(request: Request, round_id: str, stage: Stage | None) -> Received:
        claimed = requests.claims(request)

        def admit() -> tuple[int, int]:
            device = requests.admit(request, claimed)
            return device, reports.most_bytes(round_id, device, stage)

        device, most = await requests.run_short(admit)
        least = most if stage is None else 0
        length = stated_length(request, most=most, least=least)
        with sending.take(device):
            async with memory.hold(length):
                with metrics.uploads.track_inprogress():
                    body = await read_buffer(request, most=most, least=least, buffers=buffers)

                    def add() -> Received:
                        # The buffer is free when this thread is done with it, however long the request itself has lived.
                        try:
                            _require_body(claimed, body)
                            if stage is None:
                                return reports.report(round_id, device, body, claimed.digest.hex())
                            return reports.post(round_id, device, stage, bytes(body))
                        finally:
                            buffers.give(body)

                    received = await asyncio.get_running_loop().run_in_executor(adders, add)
        metrics.received.inc(len(body))
        return received

    async def fetch(request: Request, round_id: str, stage: str) -> bytes | None:
        claimed = _without_body(request, requests)
        return await requests.run_in_thread(lambda: reports.fetch(round_id, requests.admit(request, claimed), stage))

    @router.put("/report", response_model=Received, responses=refusals(), openapi_extra=bytes_in())
    async def report(request: Request, round_id: _Round) -> Response:
        """The device's report: its update, clipped by the device."""
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
        """The server's message to the device in a stage."""
        found = await fetch(request, round_id, stage)
        return Response(status_code=204) if found is None else Response(found, media_type=BYTES)

    return router


def _without_body(request: Request, requests: _DeviceRequests) -> signing.Credentials:
    """The claimed sender of a request without a body."""
    stated_length(request, most=0)
    claimed = requests.claims(request)
    _require_body(claimed, b"")
    return claimed


def _require_body(claimed: signing.Credentials, body: bytes | bytearray) -> None:
    if not signing.is_body(claimed, body):
        raise unauthorised()


def _parsed(model: type[_Read], body: bytes) -> _Read:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        # Only the names of fields: pydantic's message may quote what was sent.
        fields = sorted({".".join(map(str, each["loc"][:1])) or "the body" for each in error.errors()})
        raise Refusal(f"Expected JSON of {model.__name__}; invalid: {', '.join(fields)[:200]}.") from None


def _json(message: BaseModel) -> Response:
    return Response(message.model_dump_json(), media_type=JSON)


def _answer_errors(app: FastAPI) -> None:
    """Answer every error as `Refused`. The answer never quotes what was sent."""

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
        return refused("The path does not match the documentation.", 422)

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        return refused("No such path, or another method is needed.", error.status_code, headers=error.headers)

    @app.exception_handler(SQLAlchemyError)
    async def database(_: Request, error: SQLAlchemyError) -> Response:
        log_failure("database_failed")
        return refused("The server's database is not available.", 503, again=True, headers={"retry-after": "5"})

    @app.exception_handler(Exception)
    async def bug(_: Request, error: Exception) -> Response:
        # Starlette raises the exception again after this answer, and the server then closes the connection.
        return refused("Internal error.", 500, again=True, headers={"connection": "close"})
