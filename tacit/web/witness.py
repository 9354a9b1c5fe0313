"""A witness over HTTP: C2SP's `add-checkpoint`, and two requests of Tacit's own beside it.

    POST /add-checkpoint     a submission (`tacit.transparency.submission`): 200 and the witness's signature, or why not
    POST /add-log            the public key of a run's log, which introduces itself: 200, or 403 if it may not
    GET  /latest/ORIGIN      the head of a log that was signed last, with its signatures: 200, or 404
    GET  /key                the witness's public key

Nobody has to show who they are: a head counts by its log's signature. A body must be short and arrive in time.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse
from starlette.requests import ClientDisconnect

from tacit import __version__
from tacit.transparency.client import ADD_CHECKPOINT, ADD_LOG, LATEST
from tacit.transparency.submission import MOST_BYTES
from tacit.transparency.witness import Refused, Witness
from tacit.web.serving import listening

SHUTDOWN_S, BODY_S, AT_ONCE = 2, 10.0, 64
_SIZE_TYPE = "text/x.tlog.size"


def witness_app(witness: Witness) -> FastAPI:
    """The application of this witness."""
    app = FastAPI(version=__version__, title="Tacit witness", docs_url=None, redoc_url=None, openapi_url=None)

    @app.post(f"/{ADD_CHECKPOINT}")
    async def add_checkpoint(request: Request) -> PlainTextResponse:
        text = await _body(request)
        return PlainTextResponse(await run_in_threadpool(witness.add_checkpoint, text))

    @app.post(f"/{ADD_LOG}")
    async def add_log(request: Request) -> PlainTextResponse:
        text = await _body(request)
        await run_in_threadpool(witness.introduce, text)
        return PlainTextResponse("")

    @app.get(f"/{LATEST}/{{origin:path}}")
    def latest(origin: str) -> PlainTextResponse:
        head = witness.latest(origin)
        if head is None:
            raise Refused(404, "The witness has signed no head of this log.")
        return PlainTextResponse(head.text())

    @app.get("/key")
    def key() -> PlainTextResponse:
        return PlainTextResponse(f"{witness.key.public.text()}\n")

    @app.exception_handler(Refused)
    def refused(request: Request, why: Refused) -> PlainTextResponse:
        if why.size is not None:
            return PlainTextResponse(f"{why.size}\n", status_code=why.status, media_type=_SIZE_TYPE)
        return PlainTextResponse(f"{why.sentence}\n", status_code=why.status)

    @app.exception_handler(sqlite3.Error)
    def unavailable(request: Request, error: sqlite3.Error) -> PlainTextResponse:
        logging.getLogger(__name__).error("the state of the witness cannot be used: %s", error)
        return PlainTextResponse("The witness cannot write down what it signs now.\n", status_code=503)

    return app


async def _body(request: Request) -> str:
    """The request's body; Refused if it is too long, too slow or no text."""
    content = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                content += part
                if len(content) > MOST_BYTES:
                    raise Refused(413, f"Expected at most {MOST_BYTES} bytes.")
        return content.decode()
    except TimeoutError:
        raise Refused(408, "The request took too long.") from None
    except (UnicodeDecodeError, ClientDisconnect):
        raise Refused(400, "Expected text in UTF-8.") from None


def serve(witness: Witness, *, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the witness until Ctrl-C; RunError if the port is taken. `ready` is called with the address."""
    with listening(host, port) as listener:
        config = uvicorn.Config(
            witness_app(witness),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=SHUTDOWN_S,
            timeout_keep_alive=5,
            limit_concurrency=AT_ONCE,
            server_header=False,
        )
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listener.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listener])
