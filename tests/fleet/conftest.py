"""Fixtures that every test of the fleet may use."""

from tests.support.fleet.postgres import (
    database_url,
    engine,
    postgres_engine,
    postgres_server,
    postgres_url,
    sqlite_engine,
)

__all__ = ["database_url", "engine", "postgres_engine", "postgres_server", "postgres_url", "sqlite_engine"]
