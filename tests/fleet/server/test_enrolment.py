"""Enrolment needs a valid token, and each use counts once; a counter is accepted once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import delete, func, insert, select

from tacit.fleet.database import schema
from tacit.fleet.database.transactions import read_only
from tacit.fleet.server import enrolment
from tacit.fleet.server.authentication import DeviceAuthenticator
from tacit.fleet.server.enrolment import enrol, make_token, revoke
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.signing import COUNTER, credentials_of
from tests.support.fleet.people import NOW, Person, enrolled


def refused(status: int, call, *arguments, **keywords) -> Refusal:
    with pytest.raises(Refusal) as raised:
        call(*arguments, **keywords)
    assert raised.value.status == status
    return raised.value


def uses_left(engine) -> int:
    with read_only(engine) as connection:
        return connection.execute(select(func.sum(schema.tokens.c.uses_left))).scalar_one()


def test_a_token_is_worth_its_uses(engine):
    token = make_token(engine, uses=2, expires_at=NOW + 1)
    numbers = {enrol(engine, Person().request(token), now=NOW) for _ in range(2)}
    assert len(numbers) == 2
    refused(401, enrol, engine, Person().request(token), now=NOW)
    assert enrolment.enrolled(engine) == 2


def test_an_expired_or_invented_token_is_refused(engine):
    token = make_token(engine, uses=5, expires_at=NOW)
    refused(401, enrol, engine, Person().request(token), now=NOW)
    refused(401, enrol, engine, Person().request("an invented token"), now=NOW)
    assert enrolment.enrolled(engine) == 0
    assert uses_left(engine) == 5


def test_an_invented_token_takes_no_write_lock(sqlite_engine):
    with sqlite_engine.begin(), pytest.raises(Refusal):  # the one write lock is taken
        enrol(sqlite_engine, Person().request("an invented token"), now=NOW)


def test_a_proof_of_another_key_or_token_is_refused(engine):
    token, other = (make_token(engine, uses=5, expires_at=NOW + 1) for _ in range(2))
    person, thief = Person(), Person()
    stolen = person.request(token)
    refused(401, enrol, engine, stolen.model_copy(update={"identity": thief.identity.hex()}), now=NOW)
    refused(401, enrol, engine, stolen.model_copy(update={"token": other}), now=NOW)
    assert enrolment.enrolled(engine) == 0


def test_asking_again_gives_the_same_number_and_uses_nothing_up(engine):
    token = make_token(engine, uses=1, expires_at=NOW + 1)
    person = Person()
    number = enrol(engine, person.request(token), now=NOW)
    assert enrol(engine, person.request(token), now=NOW + 5) == number
    assert enrolment.enrolled(engine) == 1
    revoke(engine, number)
    refused(401, enrol, engine, person.request(token), now=NOW)


def test_many_at_once_never_use_a_token_more_often_than_it_is_worth(engine):
    token = make_token(engine, uses=3, expires_at=NOW + 1)

    def one(_):
        try:
            return enrol(engine, Person().request(token), now=NOW)
        except Refusal:
            return None

    with ThreadPoolExecutor(8) as pool:
        numbers = [number for number in pool.map(one, range(12)) if number is not None]
    assert len(numbers) == len(set(numbers)) == enrolment.enrolled(engine) == 3
    assert uses_left(engine) == 0


def test_one_key_is_one_device_even_with_several_tokens_at_once(engine):
    person = Person()
    tokens = [make_token(engine, uses=1, expires_at=NOW + 1) for _ in range(6)]

    def one(token):
        try:
            return enrol(engine, person.request(token), now=NOW)
        except Refusal as refusal:
            return -refusal.status

    with ThreadPoolExecutor(6) as pool:
        numbers = set(pool.map(one, tokens)) - {-409}
    assert len(numbers) == enrolment.enrolled(engine) == 1
    assert uses_left(engine) == 5


def test_a_token_is_kept_as_a_digest_alone(engine):
    token = make_token(engine, uses=1, expires_at=NOW + 1)
    with read_only(engine) as connection:
        assert token not in str(connection.execute(select(schema.tokens)).all())


def test_a_request_is_taken_once(engine):
    door = DeviceAuthenticator(engine)
    person = enrolled(engine)
    credentials = credentials_of(person.headers("GET", "/x"))
    door.authenticate(credentials, "GET", "/x")
    refusal = refused(409, door.authenticate, credentials, "GET", "/x")
    assert refusal.headers == {COUNTER: "1"}
    door.authenticate(credentials_of(person.headers("GET", "/x")), "GET", "/x")


def test_an_older_counter_is_refused_with_the_last_one_in_a_header(engine):
    door = DeviceAuthenticator(engine)
    person = enrolled(engine)
    older = credentials_of(person.headers("GET", "/x"))
    person.counter = 40
    door.authenticate(credentials_of(person.headers("GET", "/x")), "GET", "/x")
    assert refused(409, door.authenticate, older, "GET", "/x").headers == {COUNTER: "41"}


def test_of_many_copies_of_a_request_one_is_taken(engine):
    door = DeviceAuthenticator(engine)
    person = enrolled(engine)
    credentials = credentials_of(person.headers("GET", "/x"))

    def one(_):
        try:
            door.authenticate(credentials, "GET", "/x")
        except Refusal as refusal:
            return refusal.status
        return 200

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(one, range(16))) == [200] + 15 * [409]


def test_a_sender_that_cannot_be_authenticated_learns_nothing(engine):
    door = DeviceAuthenticator(engine)
    person, other = enrolled(engine), enrolled(engine)
    door.authenticate(credentials_of(person.headers("GET", "/x")), "GET", "/x")
    good = credentials_of(person.headers("GET", "/x"))
    in_anothers_name = credentials_of(person.headers("GET", "/x") | {"tacit-device": str(other.number)})
    unknown = credentials_of(person.headers("GET", "/x") | {"tacit-device": "999999"})
    revoke(engine, other.number)
    of_revoked = credentials_of(other.headers("GET", "/x"))
    sentences = {
        refused(401, door.authenticate, credentials, method, path).sentence
        for credentials, method, path in (
            (good, "GET", "/y"),
            (good, "PUT", "/x"),
            (in_anothers_name, "GET", "/x"),
            (unknown, "GET", "/x"),
            (of_revoked, "GET", "/x"),
        )
    }
    assert len(sentences) == 1
    door.authenticate(good, "GET", "/x")  # its counter was not used up by any of them


def test_a_device_that_was_heard_before_is_shut_out_at_once(engine):
    door, person = DeviceAuthenticator(engine), enrolled(engine)
    door.authenticate(credentials_of(person.headers("GET", "/x")), "GET", "/x")
    revoke(engine, person.number)
    refused(401, door.authenticate, credentials_of(person.headers("GET", "/x")), "GET", "/x")


def test_a_number_that_was_asked_for_too_early_is_known_once_it_is_given_out(engine):
    door, person = DeviceAuthenticator(engine), enrolled(engine)
    person.number += 1
    refused(401, door.authenticate, credentials_of(person.headers("GET", "/x")), "GET", "/x")
    other = enrolled(engine)
    assert other.number == person.number
    door.authenticate(credentials_of(other.headers("GET", "/x")), "GET", "/x")


def test_a_number_is_whose_it_is_in_the_database_though_that_was_put_back(engine):
    first, second = DeviceAuthenticator(engine), DeviceAuthenticator(engine)
    forgotten, later = enrolled(engine), Person()
    for door in (first, second):
        door.authenticate(credentials_of(forgotten.headers("GET", "/x")), "GET", "/x")
    with engine.begin() as connection:
        connection.execute(delete(schema.devices))
    refused(401, first.authenticate, credentials_of(forgotten.headers("GET", "/x")), "GET", "/x")
    later.number = forgotten.number
    with engine.begin() as connection:
        connection.execute(insert(schema.devices).values(device=later.number, identity=later.identity))
    # Whichever of the two speaks first to a process that has heard the one before.
    refused(401, first.authenticate, credentials_of(forgotten.headers("GET", "/x")), "GET", "/x")
    second.authenticate(credentials_of(later.headers("GET", "/x")), "GET", "/x")
    refused(401, second.authenticate, credentials_of(forgotten.headers("GET", "/x")), "GET", "/x")
    first.authenticate(credentials_of(later.headers("GET", "/x")), "GET", "/x")


def test_revoking_an_unknown_device_is_refused(engine):
    refused(404, revoke, engine, 5)
