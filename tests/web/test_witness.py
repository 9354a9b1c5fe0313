"""A witness over HTTP: the statuses and types of the specification, and bodies that are too long, too slow or no text."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tacit.errors import LedgerError, WitnessError
from tacit.transparency.checkpoint import Checkpoint
from tacit.transparency.client import WitnessClient, WitnessSilent
from tacit.transparency.merkle import root
from tacit.transparency.submission import MOST_BYTES
from tacit.transparency.witness import Witness
from tacit.web import witness as web
from tests.support.witnesses import listening
from tests.support.witnesses_at_rest import LOG, leaves, submission, witness_in

RECORDS = leaves(*"abcdefgh")


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return witness_in(tmp_path)


@pytest.fixture
def address(witness: Witness) -> Iterator[str]:
    with listening(witness) as found:
        yield found


def test_a_log_gets_its_heads_signed(witness: Witness, address: str) -> None:
    client = WitnessClient(f"{address}/", witness.key.public)
    assert client.latest(LOG.name) is None
    for old, new in ((0, 2), (2, 5), (0, 5), (3, 8)):  # in the end a log that remembers a wrong size
        head = submission(RECORDS, 0, size=new).head
        signed = client.countersign(head, LOG, RECORDS[:new], old)
        assert signed.is_signed_by(witness.key.public)
        assert client.latest(LOG.name) == signed
    assert httpx.get(f"{address}/key").text == f"{witness.key.public.text()}\n"


def test_a_history_that_was_rewritten_is_refused(witness: Witness, address: str) -> None:
    client = WitnessClient(address, witness.key.public)
    client.countersign(submission(RECORDS, 0, size=5).head, LOG, RECORDS[:5], 0)
    other = leaves(*"abxdefgh")
    for size, old in ((3, 0), (5, 0), (5, 5), (8, 5), (8, 0)):
        with pytest.raises(LedgerError, match="does not continue"):
            client.countersign(submission(other, 0, size=size).head, LOG, other[:size], old)
    assert client.latest(LOG.name).root == root(RECORDS[:5])  # type: ignore[union-attr]


def test_statuses_and_types(address: str) -> None:
    def post(text: str | bytes, path: str = "add-checkpoint") -> httpx.Response:
        return httpx.post(f"{address}/{path}", content=text)

    assert post(submission(RECORDS, 0).text()).status_code == 404
    assert post(LOG.text(), "add-log").status_code == 200
    first = post(submission(RECORDS, 0, size=4).text())
    assert (first.status_code, first.text.startswith("— tacit.example/witness "), first.text[-1]) == (200, True, "\n")
    conflict = post(submission(RECORDS, 0).text())
    assert (conflict.status_code, conflict.text) == (409, "4\n")
    assert conflict.headers["content-type"].split(";")[0] == "text/x.tlog.size"
    assert post(submission(leaves(*"abcxy"), 4).text()).status_code == 422
    assert post(b"\xff\xfe").status_code == 400
    assert post(b"").status_code == 400
    assert post(b"x" * (MOST_BYTES + 1)).status_code == 413
    assert post("x", "add-log").status_code == 400
    assert httpx.get(f"{address}/latest/tacit/run/other").status_code == 404
    assert httpx.get(f"{address}/add-checkpoint").status_code == 405


def test_a_body_that_does_not_come(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "BODY_S", 0.05)
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"POST /add-checkpoint HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nold")
        assert b" 408 " in connection.recv(1 << 12).split(b"\r\n")[0]


def test_what_a_client_does_not_believe(witness: Witness, address: str, tmp_path: Path) -> None:
    stranger = witness_in(tmp_path / "stranger").key.public
    client = WitnessClient(address, stranger)
    head = submission(RECORDS, 0).head
    with pytest.raises(WitnessError, match="did not sign with the key"):
        client.countersign(head, LOG, RECORDS, 0)
    with pytest.raises(WitnessError, match="did not sign"):
        client.latest(LOG.name)


def test_a_witness_that_does_not_know_the_log(tmp_path: Path) -> None:
    closed = witness_in(tmp_path / "closed", first_use=False)
    with listening(closed) as address:
        client = WitnessClient(address, closed.key.public)
        with pytest.raises(WitnessError, match="does not know the log") as caught:
            client.countersign(submission(RECORDS, 0).head, LOG, RECORDS, 0)
        assert LOG.text() in str(caught.value.hint)
        assert not isinstance(caught.value, WitnessSilent)
        closed.allow(LOG)
        assert client.countersign(submission(RECORDS, 0).head, LOG, RECORDS, 0).is_signed_by(closed.key.public)
        forged = Checkpoint(LOG.name, len(RECORDS), root(RECORDS)).signed(LOG.name, bytes(32))
        with pytest.raises(WitnessError, match=r"answered 403: The head is not signed .*log\.$"):
            client.countersign(forged, LOG, RECORDS, len(RECORDS))


def test_nobody_listens(witness: Witness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = WitnessClient(f"http://127.0.0.1:{port}", witness.key.public)
    with pytest.raises(WitnessSilent, match="does not answer"):
        client.latest(LOG.name)
    with pytest.raises(WitnessSilent, match="does not answer"):
        client.countersign(submission(RECORDS, 0).head, LOG, RECORDS, 0)
