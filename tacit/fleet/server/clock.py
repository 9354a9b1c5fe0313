"""The one clock that all processes of a server go by: the database's.

A machine's own clock may be hours off. Processes that compared such clocks would take each other for gone, or an open round for
one that is over. On PostgreSQL the time is asked of the database now and then, and counted on from there by a clock that nobody
can set; on SQLite there is one machine, and its clock is the one.
"""

from __future__ import annotations

import time
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from tacit.fleet.server.database import reading

# After so long the database is asked again; clocks that run at all drift by less than a millisecond meanwhile.
_ASK_AFTER_S = 10.0
_NOW = text("SELECT extract(epoch FROM clock_timestamp())")
# By database: when it was asked, by this process's own clock, and what it said.
_asked: WeakKeyDictionary[Engine, tuple[float, float]] = WeakKeyDictionary()


def now(engine: Engine) -> float:
    """Seconds since 1970, by the clock of this database, whether or not it can be reached at the moment."""
    if engine.dialect.name != "postgresql":
        return time.time()
    known, here = _asked.get(engine), time.monotonic()
    if known is None or here - known[0] > _ASK_AFTER_S:
        try:
            with reading(engine) as connection:
                said = float(connection.execute(_NOW).scalar_one())
        except SQLAlchemyError:
            if known is None:
                raise
        else:
            known = _asked[engine] = (time.monotonic(), said)
    return known[1] + (time.monotonic() - known[0])
