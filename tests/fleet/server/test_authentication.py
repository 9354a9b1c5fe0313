"""A stranger with bad signatures costs little, and keeps nobody else away."""

from __future__ import annotations

from functools import partial

import pytest
from sqlalchemy import Engine, event

from tacit.fleet.server import authentication
from tacit.fleet.server.authentication import DeviceAuthenticator
from tacit.fleet.server.request_limits import FAILURES_BURST, RateLimiter
from tacit.fleet.wire import signing
from tacit.fleet.wire.refusals import Refusal
from tests.support.fleet.people import Person, enrolled

PATH = "/v1/check-in"


def status(authenticator: DeviceAuthenticator, person: Person, address: str) -> int:
    """The status of the answer to this person's next request."""
    credentials = signing.credentials_of(person.headers("POST", PATH))
    try:
        authenticator.authenticate(credentials, "POST", PATH, address)
    except Refusal as refusal:
        return refusal.status
    return 200


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, no limit grows while a test runs."""
    monkeypatch.setattr(authentication, "RateLimiter", partial(RateLimiter, clock=lambda: 0.0))


@pytest.fixture
def statements(sqlite_engine: Engine) -> list[str]:
    """Every statement that the database is asked."""
    asked: list[str] = []
    event.listen(sqlite_engine, "before_cursor_execute", lambda *arguments: asked.append(arguments[2]))
    return asked


def test_bad_signatures_ask_the_database_next_to_nothing(sqlite_engine: Engine, statements: list[str]) -> None:
    authenticator, victim = DeviceAuthenticator(sqlite_engine), enrolled(sqlite_engine)
    stranger = Person(number=victim.number)
    statements.clear()
    answers = [status(authenticator, stranger, "there") for _ in range(FAILURES_BURST)]
    assert set(answers) == {401}
    assert sum(statement.startswith("SELECT") for statement in statements) == 2


def test_an_address_with_many_bad_signatures_is_refused_unread_but_not_its_known_devices(sqlite_engine: Engine) -> None:
    authenticator, known, new = DeviceAuthenticator(sqlite_engine), enrolled(sqlite_engine), enrolled(sqlite_engine)
    assert status(authenticator, known, "there") == 200
    stranger = Person(number=new.number)
    answers = [status(authenticator, stranger, "there") for _ in range(FAILURES_BURST + 20)]
    assert (answers[0], answers[-1]) == (401, 429)
    assert status(authenticator, known, "there") == 200
    assert status(authenticator, new, "there") == 429
    assert status(authenticator, new, "elsewhere") == 200


def test_unknown_numbers_are_not_looked_up_without_end(
    sqlite_engine: Engine, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "LOOK_UPS_BURST", 20)
    authenticator = DeviceAuthenticator(sqlite_engine)
    answers = [
        status(authenticator, Person(private=bytes(32), number=10_000 + number), f"address {number}")
        for number in range(30)
    ]
    assert answers == [401] * 20 + [429] * 10
    assert sum(statement.startswith("SELECT") for statement in statements) == 20
