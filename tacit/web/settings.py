"""What a board was told when it was started."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.runs.finding import RUNS

if TYPE_CHECKING:
    from tacit.fleet.administrator import Access

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class BoardSettings:
    """Where runs are looked for, where the board listens, and what it may do.

    `owner`: figures that only the runs' owner may see are shown. `control`: runs can be stopped and resumed. `fleet`: a server
    of devices whose administrator looks at it here. Each of them, and every address that other machines can reach, needs a
    token in each request; users of the same machine share its loopback address. `code` is a second token that works once, soon
    after the start: it is in the address that this process opens in a browser, and command lines can be read by every user.
    """

    folders: tuple[Path, ...] = (RUNS,)
    host: str = "127.0.0.1"
    port: int = 8080
    owner: bool = False
    control: bool = False
    fleet: Access | None = None
    token: str | None = field(default=None, repr=False)
    code: str | None = field(default=None, repr=False)

    @property
    def needs_token(self) -> bool:
        return self.owner or self.control or self.fleet is not None or not is_loopback(self.host)

    @property
    def shown_host(self) -> str:
        """The host in the address that is printed: this machine's name for a board that listens on every address."""
        return socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host


def new_token() -> str:
    """A random token for the address of a board."""
    return secrets.token_urlsafe(24)
