"""Statements given to the driver keep the promises of SQLAlchemy's transactions, on both databases."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import bindparam, func, insert, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from tacit.fleet.database import schema
from tacit.fleet.database.hot_statements import light, reading
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import light_transaction, open_database, read_only

tokens = schema.tokens
TOKEN = {"digest": "0" * 64, "uses_left": 0, "expires_at": 1.0}
INSERT = insert(tokens).values({name: bindparam(name) for name in TOKEN})
USES = select(tokens.c.uses_left).with_for_update()
SET = update(tokens).where(tokens.c.expires_at == 1.0).values(uses_left=bindparam("wanted"))
COUNT = select(func.count()).select_from(tokens)


def test_rows_changes_and_constants(engine):
    with light(engine) as driver:
        assert driver.execute(INSERT, TOKEN).rowcount == 1
        assert driver.execute(SET, {"wanted": 7}).rowcount == 1
        assert driver.execute(USES).fetchall() == [(7,)]
    with reading(engine) as driver:
        assert driver.execute(COUNT).fetchall() == [(1,)]
    with read_only(engine) as connection:
        assert connection.scalar(select(tokens.c.uses_left)) == 7


def test_changes_from_many_threads_are_all_kept_beside_those_of_sqlalchemy(engine):
    with light(engine) as driver:
        driver.execute(INSERT, TOKEN)

    def count(number):
        if number % 2:
            with light(engine) as driver:
                driver.execute(SET, {"wanted": driver.execute(USES).fetchall()[0][0] + 1})
            return
        with light_transaction(engine) as connection:
            there = connection.scalar(select(tokens.c.uses_left).with_for_update())
            connection.execute(update(tokens).values(uses_left=there + 1))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(40)))
    with reading(engine) as driver:
        assert driver.execute(select(tokens.c.uses_left)).fetchall() == [(40,)]


def insert_twice(engine):
    with light(engine) as driver:
        for _ in range(2):
            driver.execute(INSERT, TOKEN | {"uses_left": 424242})


def insert_and_fail(engine):
    with light(engine) as driver:
        driver.execute(INSERT, TOKEN)
        raise ZeroDivisionError


@pytest.mark.parametrize(("call", "error"), [(insert_twice, IntegrityError), (insert_and_fail, ZeroDivisionError)])
def test_a_failed_transaction_leaves_nothing_names_nobody_and_frees_the_lock(engine, call, error):
    with pytest.raises(error) as failure:
        call(engine)
    assert "424242" not in str(failure.value)
    for begin in (light, reading):
        with begin(engine) as driver:
            assert driver.execute(COUNT).fetchall() == [(0,)]


def test_a_rollback_leaves_nothing(engine):
    with light(engine) as driver:
        driver.execute(INSERT, TOKEN)
        driver.rollback()
    with reading(engine) as driver:
        assert driver.execute(COUNT).fetchall() == [(0,)]


def test_readers_do_not_wait_for_a_writer(engine):
    with light(engine) as writer, reading(engine) as reader:
        writer.execute(INSERT, TOKEN)
        assert reader.execute(COUNT).fetchall() == [(0,)]


def test_writers_wait_for_each_other(engine):
    done = []

    def write():
        with light(engine) as driver:
            driver.execute(INSERT, TOKEN | {"digest": "1" * 64})
            done.append("second")

    with engine.begin() as connection:
        connection.execute(insert(tokens).values(**TOKEN))
        thread = threading.Thread(target=write)
        thread.start()
        if engine.dialect.name == "sqlite":
            thread.join(0.1)
            assert not done
    thread.join(600)
    assert done == ["second"]


def test_it_syncs_as_light_transactions_do_and_leaves_durable_ones_alone(engine):
    asked, light_value, durable = {
        "sqlite": (text("PRAGMA synchronous"), 1, 2),
        "postgresql": (text("SHOW synchronous_commit"), "off", "on"),
    }[engine.dialect.name]
    for _ in range(2):
        with light(engine) as driver:
            assert driver.execute(asked).fetchall() == [(light_value,)]
        with engine.begin() as connection:
            assert connection.scalar(asked) == durable


def test_it_goes_on_after_the_database_was_restarted(postgres_server, postgres_url):
    engine = open_database(postgres_url)
    migrate(engine)

    def lose_the_database():
        with light(engine) as driver:
            driver.execute(COUNT).fetchall()
            postgres_server.stop("immediate")
            driver.execute(COUNT).fetchall()

    def count():
        with reading(engine) as driver:
            return driver.execute(COUNT).fetchall()

    with pytest.raises(DBAPIError) as failure:
        lose_the_database()
    assert failure.value.connection_invalidated
    with pytest.raises(OperationalError):
        count()
    postgres_server.start()
    with light(engine) as driver:
        driver.execute(INSERT, TOKEN)
    assert count() == [(1,)]
    engine.dispose()
