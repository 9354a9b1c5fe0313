"""Who may ask a board, and what every answer carries.

A request passes four checks before any route sees it:

1. `Host` names this machine: a loopback name, an address in numbers, or the name in the address that was printed. A page of
   somebody else whose name was pointed at this machine (DNS rebinding) sends its own name, and is refused.
2. The browser says where the request comes from (`Sec-Fetch-Site`, `Origin`). Other sites may only link to a page, never fetch.
3. A request that changes something comes from the board's own pages, or carries the token in its `Authorization` header.
4. Where a token is needed, it is in the address, in a cookie that an earlier address has set, or in `Authorization: Bearer`.
   The cookie goes along where a link of another site is followed (`SameSite=Lax`), because such a link may lead here (2).

Answers allow a page to load what the board itself serves and nothing else: no inline scripts or styles, no other host.
"""

from __future__ import annotations

import hmac
import ipaddress
import time
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit.web.problems import body_of, is_opened
from tacit.web.settings import LOOPBACK, BoardSettings, is_loopback

TOKEN = "token"
# A browser that is opened asks within this time.
CODE_S = 120.0
_SAFE = ("GET", "HEAD")


def content_policy(*, scripts: str = "'self'") -> str:
    """The Content-Security-Policy of a page. `scripts`: what may run in it."""
    return (
        f"default-src 'self'; script-src {scripts}; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    )


HEADERS = {
    "content-security-policy": content_policy(),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


class Guard:
    """The checks of this module around an application."""

    def __init__(self, app: ASGIApp, settings: BoardSettings, token: str | None) -> None:
        if settings.needs_token and not token:
            raise ValueError("This board needs a token.")
        self._app = app
        self._settings = settings
        self._token = token if settings.needs_token else None
        self._code, self._code_until = settings.code, time.monotonic() + CODE_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        if (refusal := self._refusal(scope, headers)) is not None:
            status, sentence = refusal
            body, media = body_of(sentence, None, as_page=is_opened(scope["path"], headers), admitted=False)
            await _answer(send_with_headers, status, body, {"content-type": media})
        elif self._token is not None and self._token_in_address(scope):
            if not self._same(_token_of(scope)):
                self._code = None  # it has been used
            await self._to_cookie(scope, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        if not self._is_our_host(headers.getlist("host")):
            return 421, "This address is not the board's: open the one that tacit printed."
        bearer = self._has_bearer(headers)
        if not bearer and _is_foreign(scope, headers):
            return 403, "The board answers its own pages alone, and this request comes from another one."
        if scope["method"] not in _SAFE and not bearer and not _is_own(headers):
            return 403, "Only the board's own pages can change something."
        if self._token is None or bearer or self._token_in_address(scope) or self._has_cookie(headers):
            return None
        return 401, "A token is missing or wrong: open the whole address that tacit printed."

    def _is_our_host(self, given: list[str]) -> bool:
        if len(given) != 1:
            return False
        try:
            parts = urlsplit(f"//{given[0]}")
            host, _ = parts.hostname, parts.port
        except ValueError:
            return False
        if host is None or parts.username is not None or parts.path:
            return False
        if host in LOOPBACK or host == self._settings.shown_host.lower():
            return True
        if is_loopback(self._settings.host):
            return False
        try:
            ipaddress.ip_address(host)  # nobody's name can be pointed at this machine here
        except ValueError:
            return False
        return True

    def _same(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())

    def _has_bearer(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self._same(given)

    def _has_cookie(self, headers: Headers) -> bool:
        # Other programs of this machine set cookies for the same name, some of which the standard library's parser gives up on.
        return self._same(cookie_parser(headers.get("cookie", "")).get(self._cookie, ""))

    def _token_in_address(self, scope: Scope) -> bool:
        given = _token_of(scope)
        return self._same(given) or (scope["method"] == "GET" and self._is_code(given))

    def _is_code(self, given: str) -> bool:
        live = self._code is not None and time.monotonic() < self._code_until
        return live and hmac.compare_digest(given.encode(), (self._code or "").encode())

    @property
    def _cookie(self) -> str:
        return f"tacit-board-{self._settings.port}"  # a browser shares cookies between the ports of a machine

    async def _to_cookie(self, scope: Scope, send: Send) -> None:
        """Take the token out of the address, so that it is in no history and no bookmark."""
        rest = urlencode([(name, value) for name, value in _query(scope) if name != TOKEN])
        where = "/" + quote(scope["path"].lstrip("/")) + (f"?{rest}" if rest else "")
        assert self._token is not None
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Lax"
        await _answer(send, 303, b"", {"location": where, "set-cookie": cookie})


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _token_of(scope: Scope) -> str:
    """The token in the address of something that is only read; empty if there is none, or more than one."""
    given = [value for name, value in _query(scope) if name == TOKEN]
    return given[0] if scope["method"] in _SAFE and len(given) == 1 else ""


def _is_foreign(scope: Scope, headers: Headers) -> bool:
    """Whether another site's page fetches this. A link to a page, which a person follows, is no fetch."""
    site = headers.get("sec-fetch-site", "none")
    if site in ("same-origin", "none"):
        return False
    navigates = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return not (navigates and scope["method"] in _SAFE)


def _is_own(headers: Headers) -> bool:
    """Whether the browser says that the request comes from a page of this very address."""
    origin = headers.get("origin")
    if origin is None or urlsplit(origin).netloc != headers.get("host"):
        return False
    return headers.get("sec-fetch-site", "same-origin") == "same-origin"


async def _answer(send: Send, status: int, body: bytes, headers: dict[str, str]) -> None:
    headers = {"content-length": str(len(body)), **headers}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
