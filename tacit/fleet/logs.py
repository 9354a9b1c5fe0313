"""The server's log: one JSON object a line, with an event and numbers.

A line never holds a device's number, address, key or token, nor anything a device has sent.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TextIO

_LOGGER = logging.getLogger("tacit.fleet")
# Below the level of a warning SQLAlchemy would log statements.
_LOGGED = {
    "tacit.fleet": logging.INFO,
    "uvicorn.error": logging.INFO,
    "asyncio": logging.WARNING,
    "sqlalchemy": logging.WARNING,
}


class _JsonLines(logging.Formatter):
    """Time, level and event. Other libraries' records give their message; a failure gives the exception's type and place."""

    def format(self, record: logging.LogRecord) -> str:
        # Only the first line: asyncio quotes exceptions on further lines.
        event = record.getMessage().partition("\n")[0]
        line = {"time": round(record.created, 3), "level": record.levelname.lower(), "event": event}
        line |= getattr(record, "values", {})
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
