"""A device's connection to its server: signed requests, limits on the size of answers, and retries.

Every request is signed with a counter that only rises. Counters are reserved in blocks: one write to disk serves many requests,
and after a kill the rest of the block is skipped. An answer is read up to a limit and no further. Requests that may succeed
later are repeated, with the pauses of `backoff.py`.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from pydantic import ValidationError

from tacit.errors import FleetError
from tacit.fleet.device.backoff import FIRST_PAUSE_S, jittered, pause_after, retry_after_s
from tacit.fleet.device.home import Home
from tacit.fleet.wire import signing
from tacit.fleet.wire.messages import MOST_JSON_BYTES, Refused
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.tls import is_loopback

COUNTERS_A_BLOCK = 256
# How long the server may be silent within a request.
TIMEOUT_S = 30.0
# The highest counter that a device takes over from the server: a higher one could leave the device none to use.
_HIGHEST_FROM_SERVER = 2**62
# The status of a request that got no answer.
_UNREACHABLE = 599


class Connection:
    """One device's connection to its server. Tests replace `transport`, `sleep` and `now`."""

    def __init__(
        self,
        home: Home,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        config = home.config
        if config.device is None:
            raise FleetError(f"The device in {home.path} is not enrolled.")
        self.base, self.device, self.sleep, self.now = config.server, config.device, sleep, now
        self._home, self._identity = home, home.identity
        require_protected(config.server)
        self._open = partial(client_for, trusted(config.ca), transport)
        self._client: httpx.Client | None = None
        self._next = self._reserved = home.memory.counter

    def close(self) -> None:
        """Close all sockets, which a waiting device does not need. The next request opens new ones."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def ask(self, method: str, path: str, body: bytes = b"", *, most: int = MOST_JSON_BYTES, at: str = "") -> bytes:
        """Send one request; returns the answer's bytes, empty for 204.

        Refusal for an error, with `again` if it may succeed later.
        """
        status, content, headers = self._exchange(method, path, body, most, at)
        last = headers.get(signing.COUNTER, "")
        if status == 409 and last.isdecimal() and self._next <= int(last[:20]) < _HIGHEST_FROM_SERVER:
            if int(last) > self._next:  # this home never used it: an older copy was put back, or there is another one
                self._home.remember(self._home.memory.model_copy(update={"restored": True}))
            self._next = int(last)
            status, content, headers = self._exchange(method, path, body, most, at)
        if status < 300:
            return content
        raise refusal_of(status, content, headers)

    def skip(self) -> None:
        """Use a counter next that is beyond those with which an older copy of the home would begin: it is then told so."""
        self._next = self._reserved + 1

    def insist(
        self, method: str, path: str, body: bytes = b"", *, until: float, most: int = MOST_JSON_BYTES, at: str = ""
    ) -> bytes:
        """Like `ask`, repeated until it succeeds, cannot succeed, or the time is `until`."""
        failures = 0
        while True:
            try:
                return self.ask(method, path, body, most=most, at=at)
            except Refusal as refusal:
                wait = max(pause_after(failures), retry_after_s(refusal.headers))
                if not refusal.again or self.now() + wait >= until:
                    raise
            self.sleep(wait)
            failures += 1

    def await_answer(self, path: str, *, until: float, most: int, at: str = "") -> bytes:
        """Ask until there is an answer (204 means not yet); FleetError if there is none before `until`."""
        pause = FIRST_PAUSE_S / 2
        while True:
            content = self.insist("GET", path, until=until, most=most, at=at)
            if content:
                return content
            wait = jittered(pause)
            if self.now() + wait >= until:
                raise FleetError("The server had no answer before the round's deadline.")
            self.sleep(wait)
            pause = min(1.3 * pause, 4 * FIRST_PAUSE_S)

    def permitted(self, address: str) -> str:
        """The address to upload to, without a trailing slash; an empty one stands for the server's own.

        FleetError if it is less protected than the server's own, or neither the server's host nor a subdomain of it. So an
        attacker who can change the addresses in answers, but has no certificate for these names, gets no reports.
        """
        if not address:
            return address
        here = urlsplit(self.base)
        try:
            there = urlsplit(address)
            _ = there.port  # raises ValueError if the port is invalid
        except ValueError:
            raise FleetError("The server named an upload address that is not a URL.") from None
        if there.scheme != "https":
            if here.scheme == "https":
                raise FleetError("The server named an upload address without https.")
            require_protected(address)
        own, other = here.hostname or "", there.hostname or ""
        on_this_machine = is_loopback(own) and is_loopback(other)
        if not (other == own or other.endswith(f".{own}") or on_this_machine):
            raise FleetError(f"The server named an upload address that is neither {own} nor a subdomain of it.")
        return address.rstrip("/")

    def _counter(self) -> int:
        self._next += 1
        if self._next > self._reserved:
            self._reserved = self._next + COUNTERS_A_BLOCK
            self._home.remember(self._home.memory.model_copy(update={"counter": self._reserved}))
        return self._next

    def _exchange(self, method: str, path: str, body: bytes, most: int, at: str) -> tuple[int, bytes, httpx.Headers]:
        """Status, content and headers; status 599 if there was no answer."""
        headers = signing.signed_headers(self._identity, self.device, self._counter(), method, path, body)
        self._client = self._client or self._open()
        try:
            with self._client.stream(
                method, (at or self.base) + path, headers=headers, content=body or None
            ) as response:
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise FleetError("The server sent a compressed answer, which the request did not allow.")
                content = bytearray()
                for piece in response.iter_bytes():
                    content += piece
                    if len(content) > most:
                        if response.status_code >= 300:
                            break  # an error page of a proxy; its content does not matter
                        raise FleetError(f"The server's answer is longer than {most} bytes.")
                return response.status_code, bytes(content), response.headers
        except httpx.HTTPError as error:
            return _UNREACHABLE, type(error).__name__.encode(), httpx.Headers()


def trusted(ca: str | None) -> ssl.SSLContext:
    """How to verify the server's certificate: against `ca` alone if it is given, else against the system's authorities."""
    if ca is not None and not Path(ca).is_file():
        raise FleetError(f"Expected --ca to be a certificate file, got {ca}, which does not exist.")
    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError:
        raise FleetError(f"Expected certificates in PEM format in {ca}: TLS cannot load it.") from None


def client_for(trust: ssl.SSLContext, transport: httpx.BaseTransport | None = None) -> httpx.Client:
    """An HTTP client that follows no redirects and ignores proxy settings of the environment."""
    return httpx.Client(
        verify=trust,
        transport=transport,
        timeout=TIMEOUT_S,
        trust_env=False,
        headers={"accept-encoding": "identity"},  # sizes are limited as sent
    )


def require_protected(address: str) -> None:
    """FleetError unless the address is https, or http to this machine's loopback address."""
    parts = urlsplit(address)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname is not None and is_loopback(parts.hostname):
        return
    raise FleetError("Expected the server's address to be https://…, or http:// with a loopback address.")


def refusal_of(status: int, content: bytes, headers: httpx.Headers) -> Refusal:
    """The server's error answer as a Refusal. Its sentence is shown as one line without control characters."""
    again = status in (429, _UNREACHABLE) or 500 <= status < _UNREACHABLE
    if status == _UNREACHABLE:
        return Refusal(f"The server cannot be reached ({content.decode()}).", status=status, again=True)
    try:
        refused = Refused.model_validate_json(content)
    except ValidationError:
        # Not an answer of the server's own: a proxy before it, which may know where it is next time.
        return Refusal(f"The server answered {status}.", status=status, again=True, headers=dict(headers))
    shown = "".join(letter for letter in refused.detail[:300] if letter.isprintable())
    return Refusal(
        f"The server answered {status}: {shown}", status=status, again=again or refused.again, headers=dict(headers)
    )
