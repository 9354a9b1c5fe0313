"""The application of a board: the guard around it, the routes in it, and the built pages of static/."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from tacit import __version__
from tacit.errors import TacitError
from tacit.web.audits import audit_routes
from tacit.web.compare import compare_routes
from tacit.web.control import control_routes
from tacit.web.events import Events
from tacit.web.fleets import FleetWatch, fleet_routes
from tacit.web.keyboard.routes import keyboard_routes
from tacit.web.one_run import one_run_routes
from tacit.web.papers import paper_routes
from tacit.web.plans import plan_routes
from tacit.web.problems import body_of, is_opened
from tacit.web.runs import run_routes
from tacit.web.security import HEADERS, Guard
from tacit.web.settings import BoardSettings
from tacit.web.suggestions import Suggester
from tacit.web.watcher import RunWatcher

STATIC = Path(__file__).parent / "static"


def create_app(settings: BoardSettings) -> FastAPI:
    """The board. Its watcher starts with the application and stops with it."""
    events = Events()
    watcher = RunWatcher(settings.folders, on_change=events.row, on_gone=events.gone)
    fleet = None if settings.fleet is None else FleetWatch(settings.fleet)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watcher.start()
        if fleet is not None:
            fleet.start()
        try:
            yield
        finally:
            events.close()
            watcher.stop()
            if fleet is not None:
                fleet.stop()
            suggester.close()

    suggester = Suggester()
    routers = [
        run_routes(watcher, events, settings),
        one_run_routes(watcher, settings, suggester),
        audit_routes(watcher, settings),
        compare_routes(watcher),
        control_routes(watcher, settings),
        plan_routes(),
        keyboard_routes(watcher.path),
        fleet_routes(fleet),
        paper_routes(),
    ]
    app = web_app(settings, routers, title="Tacit board", lifespan=lifespan)
    app.state.watcher, app.state.stopping = watcher, (events.close,)
    page(app, "/", "board.html")
    page(app, "/keyboard", "keyboard.html")
    return app


def web_app(settings: BoardSettings, routers: Sequence[APIRouter], **about: object) -> FastAPI:
    """An application behind the guard, with these routes, the built assets under /static, and errors in one sentence."""
    app = FastAPI(version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json", **about)  # type: ignore[arg-type]
    for router in routers:
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC))
    _answer_errors(app)
    app.add_middleware(Guard, settings=settings, token=settings.token)
    return app


def page(app: FastAPI, path: str, file: str, **headers: str) -> None:
    """Serve a built page of static/ at this path. `headers` replace those that every answer has, such as its policy."""

    @app.get(path, include_in_schema=False)
    def show() -> Response:
        return FileResponse(STATIC / file, headers={name.replace("_", "-"): value for name, value in headers.items()})


def _answer_errors(app: FastAPI) -> None:
    """Every error is one sentence under `problem`. What went wrong inside is in the terminal, never in an answer."""

    @app.exception_handler(TacitError)
    def mistake(request: Request, error: TacitError) -> Response:
        return problem(request, 409, error.sentence, error.hint)

    @app.exception_handler(RequestValidationError)
    def wrong_value(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "the request"
        return problem(request, 422, f"Expected another {where}: {first['msg']}.")

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        sentence = (
            "There is no such page." if error.status_code == 404 and error.detail == "Not Found" else error.detail
        )
        return problem(request, error.status_code, sentence)

    @app.exception_handler(Exception)
    def bug(request: Request, error: Exception) -> Response:
        logging.getLogger(__name__).error("%s failed", request.url.path, exc_info=error)
        answer = problem(request, 500, "The board could not answer. Its terminal shows why.")
        answer.headers.update(HEADERS)  # this answer is made outside the guard
        return answer


def problem(request: Request, status: int, sentence: str, hint: str | None = None) -> Response:
    """An answer that says what is wrong in one sentence."""
    opened = is_opened(request.url.path, request.headers)
    body, media = body_of(sentence, hint, as_page=opened, admitted=True)
    return Response(body, status_code=status, media_type=media)
