"""The server's log: one JSON object a line, with an event and numbers.

A line never holds a device's number, address, key or token, nor anything a device has sent. One event is logged `BURST` times
in a row and `PER_S` times a second after that: whoever can cause an event cannot fill the disk with it. What was left out is
counted in the next line of that event, as "suppressed".
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TextIO

_LOGGER = logging.getLogger("tacit.fleet")
# Below the level of a warning SQLAlchemy would log statements.
_LOGGED = {
    "tacit.fleet": logging.INFO,
    "uvicorn.error": logging.INFO,
    "asyncio": logging.WARNING,
    "sqlalchemy": logging.WARNING,
}


BURST, PER_S = 50, 2.0
_MOST_EVENTS = 1000


class _Flood(logging.Filter):
    """Leaves out records of an event that comes too often."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._events: OrderedDict[tuple[str, str], tuple[float, float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        key, now = (record.name, str(record.msg).partition("\n")[0][:100]), self._clock()
        left, since, suppressed = self._events.pop(key, (float(BURST), now, 0))
        left = min(float(BURST), left + (now - since) * PER_S)
        shown = left >= 1
        self._events[key] = (left - shown, now, 0 if shown else suppressed + 1)
        if len(self._events) > _MOST_EVENTS:
            self._events.popitem(last=False)
        if shown and suppressed:
            record.suppressed = suppressed
        return shown


class _JsonLines(logging.Formatter):
    """Time, level and event. Other libraries' records give their message; a failure gives the exception's type and place."""

    def format(self, record: logging.LogRecord) -> str:
        # Only the first line: asyncio quotes exceptions on further lines.
        event = record.getMessage().partition("\n")[0]
        line = {"time": round(record.created, 3), "level": record.levelname.lower(), "event": event}
        line |= getattr(record, "values", {})
        if hasattr(record, "suppressed"):
            line["suppressed"] = record.suppressed
        if record.exc_info and record.exc_info[0] is not None:
            # Not the exception's text: it may quote what a device has sent.
            line["exception"] = record.exc_info[0].__name__
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            if trace is not None:
                line["where"] = f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"
        return json.dumps(line)


def configure_logs(stream: TextIO | None = None) -> None:
    """Write the fleet's events, and the logs of the libraries it uses, to `stream` (stderr) as JSON lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines())
    handler.addFilter(_Flood())
    for name, level in _LOGGED.items():
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level)


def log(event: str, **values: float | str | bool | None) -> None:
    """Log an event. `values` are numbers and constant strings, never anything about a device."""
    _LOGGER.info(event, extra={"values": values})


def log_failure(event: str) -> None:
    """Log the exception that is being handled, by its type and place."""
    _LOGGER.error(event, exc_info=True)
