"""Both databases keep the same promises about transactions; of several processes one migrates."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, insert, inspect, select, text, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from tacit.errors import FleetError
from tacit.fleet.database import migrations, schema
from tacit.fleet.database.budget_table import FleetAccount
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import light_transaction, open_database, read_only
from tacit.privacy.accounting.budget_filter import Limit


@pytest.fixture
def fresh(database_url):
    """A database of its own, for tests that change the tables."""
    engine = open_database(database_url)
    migrate(engine)
    yield engine
    engine.dispose()


TOKEN = {"digest": "0" * 64, "uses_left": 0, "expires_at": 1.0}


def test_migrating_makes_every_table_and_again_changes_nothing(engine):
    with engine.begin() as connection:
        connection.execute(insert(schema.tokens).values(**TOKEN))
    migrate(engine)
    assert set(inspect(engine).get_table_names()) == set(schema.metadata.tables)
    with read_only(engine) as connection:
        assert connection.scalar(select(func.count()).select_from(schema.tokens)) == 1
        assert connection.execute(select(schema.schema_version.c.version)).all() == [(schema.VERSION,)]


def test_processes_that_start_together_migrate_once(database_url):
    engines = [open_database(database_url) for _ in range(6)]
    together = threading.Barrier(6)

    def start(engine):
        together.wait()
        migrate(engine)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(start, engines))
    with read_only(engines[0]) as connection:
        assert connection.execute(select(schema.schema_version.c.version)).all() == [(schema.VERSION,)]
    for engine in engines:
        engine.dispose()


def test_an_older_database_is_brought_forward_and_keeps_what_it_has(fresh, monkeypatch):
    with fresh.begin() as connection:
        connection.execute(insert(schema.tokens).values(**TOKEN))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    step = ("ALTER TABLE tokens ADD COLUMN note VARCHAR(8)", "UPDATE tokens SET note = 'old'")
    monkeypatch.setattr(migrations, "MIGRATIONS", {schema.VERSION: step})
    migrate(fresh)
    migrate(fresh)
    with read_only(fresh) as connection:
        assert connection.execute(text("SELECT digest, note FROM tokens")).all() == [(TOKEN["digest"], "old")]


def test_version_2_becomes_what_is_made_today(engine):
    """What versions 3 and 4 add is taken away, and then added by their statements."""
    made = {name: {each["name"] for each in inspect(engine).get_columns(name)} for name in schema.metadata.tables}
    with engine.begin() as connection:
        for statement in (
            "DROP TABLE budget_lines",
            "DROP TABLE receipts",
            "DROP TABLE log_entries",
            "ALTER TABLE devices DROP COLUMN left_at",
            "ALTER TABLE assignments DROP COLUMN receipt",
            "UPDATE schema_version SET version = 2",
        ):
            connection.execute(text(statement))
    migrate(engine)
    assert {
        name: {each["name"] for each in inspect(engine).get_columns(name)} for name in schema.metadata.tables
    } == made
    FleetAccount(engine).set_limit(Limit(None, None, 1.0))
    assert FleetAccount(engine).history().limit == Limit(None, None, 1.0)


def test_a_migration_that_fails_leaves_the_old_version(fresh, monkeypatch):
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    step = ("ALTER TABLE tokens ADD COLUMN note VARCHAR(8)", "UPDATE nothing SET note = 'old'")
    monkeypatch.setattr(migrations, "MIGRATIONS", {schema.VERSION: step})
    with pytest.raises(SQLAlchemyError):
        migrate(fresh)
    assert "note" not in {column["name"] for column in inspect(fresh).get_columns("tokens")}
    with read_only(fresh) as connection:
        assert connection.scalar(select(schema.schema_version.c.version)) == schema.VERSION - 1


def test_a_newer_database_is_refused(fresh):
    with fresh.begin() as connection:
        connection.execute(update(schema.schema_version).values(version=schema.VERSION + 1))
    with pytest.raises(FleetError, match=f"got {schema.VERSION + 1}: a newer Tacit made it"):
        migrate(fresh)


@pytest.mark.parametrize("begin", [lambda engine: engine.begin(), light_transaction], ids=["durable", "light"])
def test_changes_from_many_threads_are_all_kept(engine, begin):
    with engine.begin() as connection:
        connection.execute(insert(schema.tokens).values(**TOKEN))

    def count(_):
        with begin(engine) as connection:
            # Read, then write: lost unless the transaction locks what it reads.
            there = connection.scalar(select(schema.tokens.c.uses_left).with_for_update())
            connection.execute(update(schema.tokens).values(uses_left=there + 1))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(40)))
    with read_only(engine) as connection:
        assert connection.scalar(select(schema.tokens.c.uses_left)) == 40


def test_a_failed_transaction_leaves_nothing_and_frees_the_lock(engine):
    for begin in (engine.begin, lambda: light_transaction(engine)):
        with pytest.raises(SQLAlchemyError), begin() as connection:
            connection.execute(insert(schema.tokens), [TOKEN, TOKEN | {"digest": None}])
    with light_transaction(engine) as connection:
        assert connection.scalar(select(func.count()).select_from(schema.tokens)) == 0


def test_readers_do_not_wait_for_a_writer(engine):
    with engine.begin() as writer, read_only(engine) as reader:
        writer.execute(insert(schema.tokens).values(**TOKEN))
        assert reader.scalar(select(func.count()).select_from(schema.tokens)) == 0


def test_foreign_keys_hold(engine):
    row = {"task": "0" * 64, "device": 1, "round": 0, "attempt": 0}
    with pytest.raises(SQLAlchemyError), engine.begin() as connection:
        connection.execute(insert(schema.participations).values(**row))


def test_sqlite_syncs_durable_transactions_and_only_those(tmp_path):
    engine = open_database(f"sqlite:///{tmp_path}/fleet.db")
    for _ in range(2):
        with light_transaction(engine) as connection:
            assert connection.scalar(text("PRAGMA synchronous")) == 1
        with engine.begin() as connection:
            assert connection.scalar(text("PRAGMA synchronous")) == 2
    engine.dispose()


def test_postgres_syncs_durable_transactions_and_only_those(postgres_url):
    engine = open_database(postgres_url)
    for _ in range(2):
        with light_transaction(engine) as connection:
            assert connection.scalar(text("SHOW synchronous_commit")) == "off"
        with engine.begin() as connection:
            assert connection.scalar(text("SHOW synchronous_commit")) == "on"
    engine.dispose()


@pytest.mark.parametrize("url", ["nonsense", "sqlite://", "mysql://somewhere/x"])
def test_other_databases_are_refused(url):
    with pytest.raises(FleetError, match="Expected --database"):
        open_database(url)


def test_a_database_out_of_reach_is_one_sentence_without_the_password(tmp_path):
    with pytest.raises(FleetError, match="Cannot reach the database") as raised:
        open_database(f"postgresql://user:secret@/x?host={tmp_path}")
    assert "secret" not in raised.value.sentence
    with pytest.raises(FleetError, match="Cannot reach"):
        open_database(f"sqlite:///{tmp_path}/no/such/folder/fleet.db")


def test_it_goes_on_after_the_database_was_restarted(postgres_server, postgres_url):
    engine = open_database(postgres_url)
    migrate(engine)
    postgres_server.stop("immediate")
    with pytest.raises(SQLAlchemyError), read_only(engine) as connection:
        connection.execute(text("SELECT 1"))
    postgres_server.start()
    with engine.begin() as connection:
        connection.execute(insert(schema.tokens).values(**TOKEN))
    engine.dispose()


def test_who_took_part_is_for_the_owner_alone(tmp_path):
    engine = open_database(f"sqlite:///{tmp_path}/fleet.db")
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(insert(schema.tokens).values(**TOKEN))
        files = list(tmp_path.iterdir())
        assert {path.name for path in files} == {"fleet.db", "fleet.db-wal", "fleet.db-shm"}
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    engine.dispose()


def test_what_fails_does_not_name_anybody(engine):
    twice = [TOKEN | {"uses_left": 424242}] * 2
    with pytest.raises(IntegrityError) as failure, engine.begin() as connection:
        connection.execute(insert(schema.tokens), twice)
    assert "424242" not in str(failure.value)
