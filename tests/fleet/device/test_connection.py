"""Requests are signed, counted and repeated with growing pauses, and answers are limited in size."""

from __future__ import annotations

import gzip

import httpx
import pytest

from tacit.errors import FleetError
from tacit.fleet.device.backoff import FIRST_PAUSE_S, LONGEST_PAUSE_S
from tacit.fleet.device.connection import COUNTERS_A_BLOCK, Connection, require_protected
from tacit.fleet.device.enrolment import enrol
from tacit.fleet.device.home import Home
from tacit.fleet.wire import signing
from tacit.fleet.wire.refusals import Refusal
from tests.support.fleet.fake_server import BASE, TOKEN, Clock, FakeServer, enrolled, refused

BLOB = "/v1/blobs/"


@pytest.fixture
def world(tmp_path):
    """A server with one blob, the device's open home, its connection and its clock."""
    fake = FakeServer()
    fake.add_blob(b"words")
    clock = Clock()
    with Home.open(enrolled(tmp_path, fake, ["see you"])) as home:
        connection = Connection(home, transport=fake.transport, sleep=clock.sleep, now=clock.now)
        yield fake, home, connection, clock
        connection.close()


def path_of(fake):
    return BLOB + next(iter(fake.blobs))


def test_enrolment_gives_a_number_and_signed_requests_are_taken(world):
    fake, home, connection, _ = world
    assert home.config.device == 0
    assert connection.ask("GET", path_of(fake)) == b"words"


def test_a_wrong_token_or_a_used_home_is_refused(tmp_path):
    fake = FakeServer()
    (tmp_path / "typed.txt").write_text("see you")
    arguments = {"server": BASE, "data": tmp_path / "typed.txt", "transport": fake.transport}
    with pytest.raises(Refusal, match="valid token"):
        enrol(tmp_path / "home", token="another token, long enough", **arguments)
    with pytest.raises(FleetError, match="16 to 128"):
        enrol(tmp_path / "home", token="short", **arguments)
    assert enrol(tmp_path / "home", token=TOKEN, **arguments).device == 0  # the same identity, asking again
    with pytest.raises(FleetError, match="already enrolled"):
        enrol(tmp_path / "home", token=TOKEN, **arguments)


def test_a_device_killed_before_it_heard_its_number_stays_one_device(tmp_path):
    fake = FakeServer()
    (tmp_path / "typed.txt").write_text("see you")
    arguments = {"server": BASE, "token": TOKEN, "data": tmp_path / "typed.txt", "transport": fake.transport}

    def lost(request: httpx.Request) -> None:
        raise httpx.ReadError("lost")

    fake.after = lost
    with pytest.raises(FleetError, match="cannot be reached"):
        enrol(tmp_path / "home", **arguments)
    fake.after = lambda request: None
    assert enrol(tmp_path / "home", **arguments).device == 0
    assert len(fake.devices) == 1


def test_counters_rise_over_kills_and_are_written_once_a_block(world, tmp_path):
    fake, home, connection, clock = world
    for _ in range(3):
        connection.ask("GET", path_of(fake))
    assert fake.counters[0] < home.memory.counter <= fake.counters[0] + COUNTERS_A_BLOCK
    # Killed: the next process reads the file only.
    again = Connection(home, transport=fake.transport, sleep=clock.sleep, now=clock.now)
    before = fake.counters[0]
    assert again.ask("GET", path_of(fake)) == b"words"
    assert fake.counters[0] > before
    again.close()


def test_a_home_that_was_restored_catches_up_with_the_servers_counter(world):
    fake, home, connection, _ = world
    fake.counters[0] = 5_000
    assert connection.ask("GET", path_of(fake)) == b"words"
    assert fake.counters[0] == 5_001
    assert home.memory.counter >= 5_001
    assert home.memory.restored


def test_a_request_that_came_twice_is_no_sign_of_another_copy(world):
    fake, home, connection, _ = world
    connection.ask("GET", path_of(fake))
    fake.counters[0] += 1  # the next request, which a proxy sent twice
    assert connection.ask("GET", path_of(fake)) == b"words"
    assert not home.memory.restored


@pytest.mark.parametrize("counter", [str(2**63 - 2), "9" * 5000], ids=["the last", "no number that Python reads"])
def test_a_server_cannot_run_a_device_out_of_counters(world, counter):
    fake, home, connection, _ = world
    fake.before = lambda request: refused(409, "No.", headers={signing.COUNTER: counter})
    with pytest.raises(Refusal):
        connection.ask("GET", path_of(fake))
    assert home.memory.counter < 10_000


@pytest.mark.parametrize(
    "fault",
    [
        lambda: refused(503, "Stopping."),
        lambda: refused(429, "Too many.", again=True),
        lambda: refused(409, "Not yet.", again=True),
        lambda: httpx.Response(502, content=b"<html>"),
        lambda: httpx.Response(404, content=b"<html>"),
        httpx.ConnectError("down"),
        httpx.ReadTimeout("slow"),
    ],
    ids=["503", "429", "again", "502 of a proxy", "404 of a proxy", "unreachable", "slow"],
)
def test_what_may_go_better_later_is_repeated(world, fault):
    fake, _, connection, clock = world
    times = iter(range(3))

    def before(request):
        if next(times, None) is None:
            return None
        if isinstance(fault, Exception):
            raise fault
        return fault()

    fake.before = before
    assert connection.insist("GET", path_of(fake), until=clock.at + 1e4) == b"words"
    assert len(clock.slept) == 3
    for pause, growing in zip(clock.slept, (1, 2, 4), strict=True):
        assert 0.5 * growing * FIRST_PAUSE_S <= pause <= 1.5 * growing * FIRST_PAUSE_S


def test_patience_ends_and_pauses_do_not_grow_for_ever(world):
    fake, _, connection, clock = world
    fake.before = lambda request: refused(503, "Stopping.")
    until = clock.at + 2_000
    with pytest.raises(Refusal, match="503"):
        connection.insist("GET", path_of(fake), until=until)
    assert clock.at < until
    assert max(clock.slept) <= 1.5 * LONGEST_PAUSE_S
    assert len(set(clock.slept)) == len(clock.slept)  # no two alike: devices do not come back in step


def test_retry_after_is_heeded(world):
    fake, _, connection, clock = world
    answers = iter([refused(429, "Too many.", again=True, headers={"retry-after": "7"})])
    fake.before = lambda request: next(answers, None)
    connection.insist("GET", path_of(fake), until=clock.at + 100)
    assert clock.slept == [7.0]


def test_a_refusal_is_not_repeated_and_its_words_are_shown_plainly(world):
    fake, _, connection, clock = world
    fake.before = lambda request: refused(410, "The round\x1b[31m is over.\n")
    with pytest.raises(Refusal) as caught:
        connection.insist("GET", path_of(fake), until=clock.at + 100)
    assert caught.value.sentence == "The server answered 410: The round[31m is over."
    assert clock.slept == []


def test_an_answer_is_read_up_to_its_size_and_no_further(world):
    fake, _, connection, _ = world
    read = []

    def long():
        for _ in range(100):
            read.append(1)
            yield b"x" * 1000

    fake.before = lambda request: httpx.Response(200, content=long())
    with pytest.raises(FleetError, match="longer than 5000 bytes"):
        connection.ask("GET", path_of(fake), most=5000)
    assert len(read) <= 7


def test_an_answer_that_unpacks_to_more_than_its_size_is_refused(world):
    fake, _, connection, _ = world
    packed = gzip.compress(bytes(1 << 20))
    fake.before = lambda request: httpx.Response(200, content=iter([packed]), headers={"content-encoding": "gzip"})
    with pytest.raises(FleetError, match="compressed"):
        connection.ask("GET", path_of(fake), most=1 << 21)


def test_redirects_are_not_followed(world):
    fake, _, connection, _ = world
    fake.before = lambda request: httpx.Response(302, headers={"location": "https://elsewhere.test/"})
    with pytest.raises(Refusal, match="302"):
        connection.ask("GET", path_of(fake))


@pytest.mark.parametrize("address", ["http://fleet.test", "ftp://x", "fleet.test", "http://10.0.0.1", "https://"])
def test_only_https_or_this_machine(world, address):
    with pytest.raises(FleetError, match="https"):
        require_protected(address)
    with pytest.raises(FleetError, match="https"):
        world[2].permitted(address if address != "https://" else "http://127.0.0.1:1")


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:8000", "http://localhost", "http://[::1]:1", "https://fleet.test"]
)
def test_addresses_that_will_do(address):
    require_protected(address)


@pytest.mark.parametrize(
    "address",
    [
        "https://elsewhere.test",
        "https://notfleet.test",
        "https://fleet.test.elsewhere.test",
        "https://fleet.test@elsewhere.test",
        "https://127.0.0.1",
        "https://",
    ],
)
def test_nothing_is_uploaded_to_another_host(world, address):
    with pytest.raises(FleetError, match=r"neither fleet\.test nor a subdomain"):
        world[2].permitted(address)


@pytest.mark.parametrize("address", ["https://[::1", "https://fleet.test:abc", "https://fleet.test:99999999"])
def test_what_is_no_address_is_refused_as_any_other(world, address):
    with pytest.raises(FleetError, match="not a URL"):
        world[2].permitted(address)


@pytest.mark.parametrize("address", ["", "https://fleet.test:9443", "https://a1.fleet.test/"])
def test_what_is_the_servers_own_is_uploaded_to(world, address):
    assert world[2].permitted(address) == address.rstrip("/")
