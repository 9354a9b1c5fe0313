"""The time, by the database's clock, which all processes of a server use.

A machine's own clock may be hours off. With such clocks, processes would believe each other dead, or an open round expired. On
PostgreSQL the database is asked for the time every few seconds, and in between the process adds the elapsed time of its
monotonic clock. With SQLite there is only one machine, and its own clock is used.
"""

from __future__ import annotations

import time
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from tacit.fleet.database.transactions import read_only

# The database is asked again after this long; until then a monotonic clock drifts by less than a millisecond.
_ASK_AFTER_S = 10.0
_NOW = text("SELECT extract(epoch FROM clock_timestamp())")
# For each database: when it was asked, by this process's monotonic clock, and its answer.
_asked: WeakKeyDictionary[Engine, tuple[float, float]] = WeakKeyDictionary()


def now(engine: Engine) -> float:
    """Seconds since 1970 by the database's clock. Works through a database outage once the database has answered before."""
    if engine.dialect.name != "postgresql":
        return time.time()
    known, here = _asked.get(engine), time.monotonic()
    if known is None or here - known[0] > _ASK_AFTER_S:
        try:
            with read_only(engine) as connection:
                answered = float(connection.execute(_NOW).scalar_one())
        except SQLAlchemyError:
            if known is None:
                raise
        else:
            known = _asked[engine] = (time.monotonic(), answered)
    return known[1] + (time.monotonic() - known[0])
