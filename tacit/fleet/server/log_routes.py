"""What devices ask of the public log, and how they leave. `wire/public_log.py` lists the paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel
from sqlalchemy import Engine

from tacit.fleet.database import leaving
from tacit.fleet.database.public_log import PublicLog
from tacit.fleet.logs import log
from tacit.fleet.server.openapi import json_body, refusals
from tacit.fleet.wire.messages import RoundId, Sha256
from tacit.fleet.wire.public_log import (
    LEAVE,
    LOG,
    MOST_SIZE,
    Counted,
    LeaveRequest,
    LogHead,
    Place,
    Proof,
    SignedText,
)
from tacit.fleet.wire.server_key import ServerKey

# Answers a device's request without a body, after its sender was authenticated.
Asked = Callable[[Request, Callable[[], BaseModel]], Awaitable[Response]]
# Reads a request to leave, and answers it for the device that sent it.
Leaves = Callable[[Request, Callable[[int, bytes], BaseModel]], Awaitable[Response]]
_Leaf = Annotated[Sha256, Path()]
_Round = Annotated[RoundId, Path()]
_Size = Annotated[int, Path(ge=0, lt=MOST_SIZE)]


def log_routes(engine: Engine, key: ServerKey, asked: Asked, leaves: Leaves) -> APIRouter:
    """The routes of one process; `key` is the same in all processes of a server."""
    router, known = APIRouter(), PublicLog(engine)

    @router.get(LOG, response_model=LogHead, responses=refusals())
    async def head(request: Request) -> Response:
        """The log's key and its newest signed head."""
        return await asked(request, lambda: LogHead(key=key.public.text(), head=key.head(*known.head()).text()))

    @router.get(f"{LOG}/consistency/{{old}}/{{size}}", response_model=Proof, responses=refusals())
    async def consistency(request: Request, old: _Size, size: _Size) -> Response:
        """The proof that the log with `size` entries continues the log with `old` entries."""
        return await asked(request, lambda: Proof(hashes=known.consistency(old, size)))

    @router.get(f"{LOG}/entries/{{leaf}}/{{size}}", response_model=Place, responses=refusals())
    async def entry(request: Request, leaf: _Leaf, size: _Size) -> Response:
        """The proof that an entry is in the log with `size` entries."""
        return await asked(request, lambda: known.place(leaf, size))

    @router.get(f"{LOG}/receipts/{{round_id}}/{{leaf}}/{{size}}", response_model=Counted, responses=refusals())
    async def receipt(request: Request, round_id: _Round, leaf: _Leaf, size: _Size) -> Response:
        """The proof that a try counted a receipt, and that the try is in the log with `size` entries."""
        return await asked(request, lambda: known.counted(round_id, leaf, size))

    @router.post(LEAVE, response_model=SignedText, responses=refusals(), openapi_extra=json_body(LeaveRequest))
    async def leave(request: Request) -> Response:
        """Leave for good: the device is never selected again, and gets a signed confirmation."""

        def confirmed(device: int, identity: bytes) -> SignedText:
            found = leaving.leave(engine, device, identity, key)
            log("device_left")
            return found

        return await leaves(request, confirmed)

    return router
