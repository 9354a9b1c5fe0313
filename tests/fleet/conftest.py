"""Fixtures that every test of the fleet may use."""

from tests.fleet.postgres import database_url, engine, postgres_server, postgres_url

__all__ = ["database_url", "engine", "postgres_server", "postgres_url"]
