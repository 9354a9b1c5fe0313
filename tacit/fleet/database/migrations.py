"""Create the tables in a new database, and bring those of an older database to the current version.

To change the schema: change `schema.py`, raise `schema.VERSION`, and add the statements to `MIGRATIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Engine, insert, select, text, update

from tacit.errors import FleetError
from tacit.fleet.database import schema

# An arbitrary number that names PostgreSQL's advisory lock: processes that start together migrate one after the other.
_MIGRATION_LOCK = 0x7AC17
# For each version, the statements that lead to it from the version before. Both databases must understand them.
MIGRATIONS: Mapping[int, Sequence[str]] = {
    2: (
        "ALTER TABLE devices ADD COLUMN quarantined BOOLEAN DEFAULT FALSE NOT NULL",
        "ALTER TABLE devices ADD COLUMN seen_at FLOAT",
        "ALTER TABLE devices ADD COLUMN failures INTEGER DEFAULT 0 NOT NULL",
        "ALTER TABLE devices ADD COLUMN rests_until FLOAT DEFAULT 0 NOT NULL",
        "ALTER TABLE devices ADD COLUMN last_word VARCHAR(200)",
        "ALTER TABLE tasks ADD COLUMN paused BOOLEAN DEFAULT FALSE NOT NULL",
        "ALTER TABLE tasks ADD COLUMN goal INTEGER",
        "ALTER TABLE tasks ADD COLUMN deadline_s FLOAT",
        "ALTER TABLE tasks ADD COLUMN dropped TEXT",
        "ALTER TABLE tasks ADD COLUMN lost INTEGER DEFAULT 0 NOT NULL",
        "ALTER TABLE tasks ADD COLUMN epsilon FLOAT",
        "ALTER TABLE rounds ADD COLUMN stopped_by VARCHAR(16)",
        "ALTER TABLE assignments ADD COLUMN since FLOAT DEFAULT 0 NOT NULL",
    ),
    3: (
        "ALTER TABLE devices ADD COLUMN left_at FLOAT",
        "ALTER TABLE assignments ADD COLUMN receipt VARCHAR(64)",
        "CREATE TABLE log_entries (number BIGINT NOT NULL PRIMARY KEY, leaf VARCHAR(64) NOT NULL UNIQUE, entry TEXT NOT NULL, "
        "tried VARCHAR(32) UNIQUE)",
        "CREATE TABLE receipts (round_id VARCHAR(32) NOT NULL REFERENCES rounds (round_id), number INTEGER NOT NULL, "
        "leaf VARCHAR(64) NOT NULL, PRIMARY KEY (round_id, number))",
    ),
    4: ("CREATE TABLE budget_lines (number INTEGER NOT NULL, line TEXT NOT NULL, PRIMARY KEY (number))",),
}


def migrate(engine: Engine) -> None:
    """Bring the tables to this version. Nothing happens if they have it; of several processes only one migrates."""
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
        connection.execute(text("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)"))
        found = connection.execute(select(schema.schema_version.c.version)).scalar()
        if found is None:
            schema.metadata.create_all(connection)
            connection.execute(insert(schema.schema_version).values(version=schema.VERSION))
            return
        if found > schema.VERSION:
            raise FleetError(
                f"Expected a database of version {schema.VERSION} or older, got {found}: a newer Tacit made it."
            )
        for version in range(found + 1, schema.VERSION + 1):
            for statement in MIGRATIONS[version]:
                connection.execute(text(statement))
        connection.execute(update(schema.schema_version).values(version=schema.VERSION))
