"""TLS: a development certificate for this machine, checks of the owner's certificate, and where plain HTTP is allowed.

The development certificate is self-signed and valid for localhost alone; devices trust it with `--ca`. A server that other
machines reach needs a certificate from a real authority.
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tacit.errors import FleetError
from tacit.files import write_atomic

CERTIFICATE, KEY = "certificate.pem", "key.pem"
_DAYS, _RENEW_DAYS = 90, 7


def development_certificate(folder: Path) -> tuple[Path, Path]:
    """Paths of a certificate for localhost and its key in `folder`. New ones are made if they are missing or expire soon."""
    certificate_path, key_path = folder / CERTIFICATE, folder / KEY
    now = datetime.datetime.now(datetime.UTC)
    if not _is_usable(certificate_path, key_path, now):
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_atomic(key_path, private, mode=0o600)
        write_atomic(certificate_path, _signed(key, now).public_bytes(serialization.Encoding.PEM))
    return certificate_path, key_path


def require_transport(*, http: bool, host: str) -> None:
    """FleetError if devices' requests would leave this machine unencrypted."""
    if http and not is_loopback(host):
        raise FleetError(f"Expected --http only with a loopback --host such as 127.0.0.1, got {host}.")


def require_pair(certificate: Path, key: Path) -> None:
    """FleetError if a server could not start with this certificate and key. A key with a passphrase does not work."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except OSError:  # SSLError is one
        sentence = f"Expected a certificate in {certificate} and its key, without a passphrase, in {key}: TLS cannot load them."
        raise FleetError(sentence) from None


def is_loopback(host: str) -> bool:
    """Whether a host name or IP address is this machine's loopback address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _is_usable(certificate_path: Path, key_path: Path, now: datetime.datetime) -> bool:
    """Whether both files exist, belong together and do not expire soon."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
    except (OSError, ValueError):
        return False
    return key.public_key() == certificate.public_key() and certificate.not_valid_after_utc > now + datetime.timedelta(
        days=_RENEW_DAYS
    )


def _signed(key: ec.EllipticCurvePrivateKey, now: datetime.datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Tacit development server")])
    names = [x509.DNSName("localhost"), *(x509.IPAddress(ipaddress.ip_address(ip)) for ip in ("127.0.0.1", "::1"))]
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    public = key.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # for devices whose clock is slow
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
    )
    return builder.sign(key, hashes.SHA256())
