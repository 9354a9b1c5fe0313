"""Signed requests, bounded answers, patience.

Every request is signed with a counter that only rises. Counters are set aside a block at a time: one write to disk serves many
requests, and after a kill the rest of the block is skipped. An answer is read up to a stated size and no further. Whatever the
network does, a request that is worth repeating is repeated, with pauses that grow and differ from device to device, so that a
server that comes back is not met by all of them at once.
"""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from pydantic import ValidationError

from tacit.errors import FleetError
from tacit.fleet.device.home import Home
from tacit.fleet.wire import signing
from tacit.fleet.wire.messages import MOST_JSON_BYTES, Refused
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.tls import is_loopback

COUNTERS_A_BLOCK = 256
# Seconds: the first pause, the longest, and how long one request may be silent.
FIRST_PAUSE, LONGEST_PAUSE, SILENCE = 0.5, 60.0, 30.0
# A server that names a counter beyond this would leave the device none.
_MOST_COUNTER = 2**62
_UNREACHABLE = 599


class Connection:
    """One device's way to its server. `sleep` and `now` are the world's, or a test's."""

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
            raise FleetError(f"Expected an enrolled device in {home.path}, got one that is not.")
        self.base, self.device, self.sleep, self.now = config.server, config.device, sleep, now
        self._home, self._identity = home, home.identity
        require_protected(config.server)
        self._open = partial(client_for, trusted(config.ca), transport)
        self._client: httpx.Client | None = None
        self._next = self._set_aside = home.memory.counter

    def close(self) -> None:
        """Let go of sockets, which a device that rests does not keep; the next request opens new ones."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def ask(self, method: str, path: str, body: bytes = b"", *, most: int = MOST_JSON_BYTES, at: str = "") -> bytes:
        """One request and its answer's bytes, empty for 204; Refusal for anything else, `again` if it may go better later."""
        status, content, headers = self._exchange(method, path, body, most, at)
        last = headers.get(signing.COUNTER, "")
        if status == 409 and last.isdecimal() and self._next <= int(last[:20]) < _MOST_COUNTER:
            self._next = int(last)  # an older home was restored, or a request overtook another
            status, content, headers = self._exchange(method, path, body, most, at)
        if status < 300:
            return content
        raise refusal_of(status, content, headers)

    def insist(
        self, method: str, path: str, body: bytes = b"", *, until: float, most: int = MOST_JSON_BYTES, at: str = ""
    ) -> bytes:
        """The same, again and again while that makes sense and `until` has not come."""
        pause = FIRST_PAUSE
        while True:
            try:
                return self.ask(method, path, body, most=most, at=at)
            except Refusal as refusal:
                wait = max(jittered(pause), _asked_to_wait(refusal))
                if not refusal.again or self.now() + wait >= until:
                    raise
            self.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    def await_answer(self, path: str, *, until: float, most: int, at: str = "") -> bytes:
        """Ask until there is something (204 is "not yet"); FleetError when `until` comes first."""
        pause = FIRST_PAUSE / 2
        while True:
            content = self.insist("GET", path, until=until, most=most, at=at)
            if content:
                return content
            wait = jittered(pause)
            if self.now() + wait >= until:
                raise FleetError("Expected an answer before the round's time is over, got none.")
            self.sleep(wait)
            pause = min(1.3 * pause, 4 * FIRST_PAUSE)

    def permitted(self, address: str) -> str:
        """An address that the server sends devices to: none for its own.

        FleetError if it is less protected than the server's own, or somebody else's: neither the server's name, nor one below
        it. Whoever can make a server lie about addresses, but has no certificate for its names, gets nothing.
        """
        if not address:
            return address
        here = urlsplit(self.base)
        try:
            there = urlsplit(address)
            _ = there.port  # read here, where it may be none
        except ValueError:
            raise FleetError("Expected an address to upload to, got something else.") from None
        if there.scheme != "https":
            if here.scheme == "https":
                raise FleetError("Expected an https address to upload to, got another.")
            require_protected(address)
        own, other = here.hostname or "", there.hostname or ""
        on_this_machine = is_loopback(own) and is_loopback(other)
        if not (other == own or other.endswith(f".{own}") or on_this_machine):
            raise FleetError(f"Expected an address to upload to at {own} or a name below it, got another.")
        return address.rstrip("/")

    def _counter(self) -> int:
        self._next += 1
        if self._next > self._set_aside:
            self._set_aside = self._next + COUNTERS_A_BLOCK
            self._home.remember(self._home.memory.model_copy(update={"counter": self._set_aside}))
        return self._next

    def _exchange(self, method: str, path: str, body: bytes, most: int, at: str) -> tuple[int, bytes, httpx.Headers]:
        """Status, content, headers; a network that fails is status 599."""
        headers = signing.signed_headers(self._identity, self.device, self._counter(), method, path, body)
        self._client = self._client or self._open()
        try:
            with self._client.stream(
                method, (at or self.base) + path, headers=headers, content=body or None
            ) as response:
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise FleetError("Expected an answer as it is, which was asked for, got a compressed one.")
                content = bytearray()
                for piece in response.iter_bytes():
                    content += piece
                    if len(content) > most:
                        if response.status_code >= 300:
                            break  # the page of a proxy: what it says does not matter
                        raise FleetError(f"Expected an answer of at most {most} bytes, got more.")
                return response.status_code, bytes(content), response.headers
        except httpx.HTTPError as error:
            return _UNREACHABLE, type(error).__name__.encode(), httpx.Headers()


def trusted(ca: str | None) -> ssl.SSLContext:
    """Servers' certificates are verified: against `ca` alone where one is given, else as the system does."""
    if ca is not None and not Path(ca).is_file():
        raise FleetError(f"Expected a certificate file, got {ca}, which does not exist.")
    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError:
        raise FleetError(f"Expected certificates in PEM format in {ca}, got something else.") from None


def client_for(trust: ssl.SSLContext, transport: httpx.BaseTransport | None = None) -> httpx.Client:
    """A client that follows no redirects, and no settings of its surroundings."""
    return httpx.Client(
        verify=trust,
        transport=transport,
        timeout=SILENCE,
        trust_env=False,
        headers={"accept-encoding": "identity"},  # sizes are bounded as they travel
    )


def require_protected(address: str) -> None:
    """FleetError unless it is https, or http to this very machine."""
    parts = urlsplit(address)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname is not None and is_loopback(parts.hostname):
        return
    raise FleetError("Expected the server's address to be https://…, or http:// on this machine only, got another.")


def refusal_of(status: int, content: bytes, headers: httpx.Headers) -> Refusal:
    """What the server said, in its words if they can be shown: one line, no control characters."""
    again = status in (429, _UNREACHABLE) or 500 <= status < _UNREACHABLE
    if status == _UNREACHABLE:
        return Refusal(f"The server cannot be reached ({content.decode()}).", status=status, again=True)
    try:
        refused = Refused.model_validate_json(content)
    except ValidationError:
        return Refusal(f"The server answered {status}.", status=status, again=again, headers=dict(headers))
    shown = "".join(letter for letter in refused.detail[:300] if letter.isprintable())
    return Refusal(
        f"The server answered {status}: {shown}", status=status, again=again or refused.again, headers=dict(headers)
    )


def jittered(pause: float) -> float:
    """From half of it to half as much again."""
    return pause * random.uniform(0.5, 1.5)


def _asked_to_wait(refusal: Refusal) -> float:
    """Retry-After in seconds, up to the longest pause."""
    text = refusal.headers.get("retry-after", "")
    return min(float(text), LONGEST_PAUSE) if text.isdecimal() else 0.0
