"""The development certificate is one that a strict client accepts, for this machine alone."""

from __future__ import annotations

import datetime
import socket
import ssl
import stat
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tacit.errors import FleetError
from tacit.fleet.wire import tls
from tacit.fleet.wire.tls import development_certificate, require_pair, require_transport


def handshake(certificate, key, name: str) -> bool:
    """Whether a client that trusts only this certificate accepts a server called `name` that has it."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    asking = ssl.create_default_context(cafile=certificate)
    asking.verify_flags |= ssl.VERIFY_X509_STRICT
    here, there = socket.socketpair()

    def serve():
        try:
            serving.wrap_socket(there, server_side=True).close()
        except OSError:
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        asking.wrap_socket(here, server_hostname=name).close()
        accepted = True
    except ssl.SSLCertVerificationError:
        here.close()
        accepted = False
    thread.join()
    return accepted


def test_it_serves_this_machine_and_no_other(tmp_path):
    certificate, key = development_certificate(tmp_path)
    assert all(handshake(certificate, key, name) for name in ("localhost", "127.0.0.1", "::1"))
    assert not handshake(certificate, key, "example.org")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_it_is_made_once(tmp_path):
    before = [path.read_bytes() for path in development_certificate(tmp_path)]
    assert [path.read_bytes() for path in development_certificate(tmp_path)] == before


def test_it_is_made_anew_before_it_expires_and_if_the_key_is_another(tmp_path, monkeypatch):
    certificate, key = development_certificate(tmp_path)
    key.write_bytes(development_certificate_of(tmp_path / "other")[1].read_bytes())
    development_certificate(tmp_path)
    assert handshake(certificate, key, "localhost")
    monkeypatch.setattr(tls, "_DAYS", 3)
    certificate.unlink()
    development_certificate(tmp_path)
    short = certificate.read_bytes()
    monkeypatch.undo()
    development_certificate(tmp_path)
    assert certificate.read_bytes() != short
    left = x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    assert left > datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=30)


def development_certificate_of(folder):
    folder.mkdir()
    return development_certificate(folder)


def test_plain_http_is_for_this_machine_alone():
    for host in ("127.0.0.1", "localhost", "::1", "127.3.2.1"):
        require_transport(http=True, host=host)
    for host in ("0.0.0.0", "192.168.0.4", "example.org", "::"):
        require_transport(http=False, host=host)
        with pytest.raises(FleetError, match=r"--http only with a loopback --host"):
            require_transport(http=True, host=host)


def test_a_certificate_that_no_server_could_begin_with(tmp_path):
    certificate, key = development_certificate(tmp_path)
    require_pair(certificate, key)
    _, foreign = development_certificate_of(tmp_path / "other")
    secret = serialization.load_pem_private_key(key.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    passphrase = serialization.BestAvailableEncryption(b"open sesame")
    locked.write_bytes(secret.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, passphrase))
    for one, other in (
        (tmp_path / "none.pem", key),
        (certificate, tmp_path / "none.pem"),
        (key, certificate),
        (certificate, foreign),
        (certificate, locked),
    ):
        with pytest.raises(FleetError, match=r"Expected a certificate in .* and its key, without a passphrase"):
            require_pair(one, other)
