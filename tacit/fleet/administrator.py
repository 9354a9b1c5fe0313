"""What the administrator of a running server asks it, with their token: `tacit fleet` and the board ask here."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tacit.errors import FleetError
from tacit.fleet.device.connection import require_protected

TIMEOUT_S = 30


@dataclass(frozen=True)
class Access:
    """A server, the file with its administrator's token, and a certificate to trust if the server has no public one."""

    server: str
    admin_token: Path
    ca: Path | None = None


def ask(method: str, path: str, access: Access, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """The server's answer; FleetError if there is none or the server refuses."""
    answer = _request(method, path, access, body)
    if answer.status_code == 204:
        return {}
    try:
        content = answer.json()
        if answer.status_code == 200:
            return dict(content)
        sentence = str(content["detail"])
    except (ValueError, KeyError, TypeError):
        raise FleetError(f"The server at {access.server} is not a Tacit server.") from None
    raise FleetError(f"{access.server} refused the request: {sentence}")


def metrics(access: Access) -> str:
    """The server's metrics in Prometheus' text format; FleetError if there are none."""
    answer = _request("GET", "/metrics", access, None)
    if answer.status_code != 200:
        raise FleetError(f"{access.server} refused the request for its metrics.")
    return answer.text


def _request(method: str, path: str, access: Access, body: dict[str, Any] | None) -> httpx.Response:
    server = access.server
    require_protected(server)  # the administrator's token is sent there
    try:
        secret = access.admin_token.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise FleetError(f"Cannot read the administrator's token in {access.admin_token}.") from None
    try:
        trusted = ssl.create_default_context(cafile=access.ca)
    except (OSError, ssl.SSLError):
        raise FleetError(f"Expected certificates in PEM format in {access.ca}: TLS cannot load it.") from None
    try:
        with httpx.Client(verify=trusted, timeout=TIMEOUT_S, trust_env=False) as client:
            headers = {"authorization": f"Bearer {secret}"}
            return client.request(method, server.rstrip("/") + path, json=body, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL):
        raise FleetError(
            f"No answer from {server}.",
            hint="Check that tacit serve is running there, and give its certificate with --ca.",
        ) from None
