"""Whether this process is alive, and whether requests should be sent to it.

/healthz    200 as long as the process answers at all: restart it if it does not
/readyz     200 if the database answers and the process is not stopping; 503 otherwise: send requests elsewhere
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from fastapi import FastAPI
from fastapi.responses import Response
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from tacit.fleet.database.transactions import read_only

# How long the database may take to answer, and how long its answer is believed: strangers may ask as often as they like.
_PATIENCE_S, _BELIEVED_S = 3.0, 1.0


def add_health(app: FastAPI, engine: Engine, is_stopping: Callable[[], bool]) -> None:
    """Add both routes. They need no credentials and say nothing else."""
    asking = ThreadPoolExecutor(1, thread_name_prefix="readiness")
    last = (-_BELIEVED_S, False)
    lock = asyncio.Lock()

    def answers() -> bool:
        try:
            with read_only(engine) as connection:
                connection.execute(text("SELECT 1"))
        except SQLAlchemyError:
            return False
        return True

    async def reached() -> bool:
        nonlocal last
        async with lock:
            if time.monotonic() - last[0] >= _BELIEVED_S:
                try:
                    async with asyncio.timeout(_PATIENCE_S):
                        found = await asyncio.get_running_loop().run_in_executor(asking, answers)
                except TimeoutError:
                    found = False
                last = (time.monotonic(), found)
            return last[1]

    @app.get("/healthz", include_in_schema=False)
    async def healthy() -> Response:
        return Response("ok\n", media_type="text/plain")

    @app.get("/readyz", include_in_schema=False)
    async def ready() -> Response:
        if is_stopping():
            return Response("stopping\n", 503, media_type="text/plain")
        if not await reached():
            return Response("the database does not answer\n", 503, media_type="text/plain")
        return Response("ok\n", media_type="text/plain")
