"""Routes of the runs: the table, and what changes in it."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from tacit.web.events import Events
from tacit.web.rows import RunRow
from tacit.web.settings import BoardSettings
from tacit.web.watcher import RunWatcher


class RunTable(BaseModel):
    """All runs, and what this board may do."""

    folders: list[str]
    control: bool
    owner: bool
    runs: list[RunRow]


def run_routes(watcher: RunWatcher, events: Events, settings: BoardSettings) -> APIRouter:
    """The routes of the table of runs."""
    router = APIRouter(prefix="/api")

    @router.get("/runs")
    def runs() -> RunTable:
        """All runs, as they were last read."""
        folders = [str(folder) for folder in settings.folders]
        return RunTable(folders=folders, control=settings.control, owner=settings.owner, runs=watcher.rows())

    @router.get("/events", response_class=StreamingResponse)
    async def listen() -> StreamingResponse:
        """What changes from now on, as server-sent events: `run` has a row, `gone` a key."""
        return StreamingResponse(events.stream(watcher.watched), media_type="text/event-stream")

    return router
