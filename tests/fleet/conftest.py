"""Fixtures that every test of the fleet may use."""

import pytest

from tests.support.fleet.postgres import (
    database_url,
    engine,
    postgres_engine,
    postgres_server,
    postgres_url,
    sqlite_engine,
)

__all__ = ["database_url", "engine", "postgres_engine", "postgres_server", "postgres_url", "sqlite_engine"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that asks for a PostgreSQL server starts processes."""
    for item in items:
        if "postgres_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.process)
