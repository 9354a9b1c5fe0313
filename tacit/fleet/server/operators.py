"""People who operate a fleet: each has a token and a role, and what they do is written down before it happens.

    viewer      sees status and metrics
    operator    also sees devices by number, and acts on devices and rounds
    owner       also makes enrolment tokens, which decide who is a device, and sets the budget

The administrator's token is an owner's. Others are in `operators.json` in the server's folder, by their SHA-256, which is read
again when it changes. `OperatorGate` stands before all routes of the administrator: it lets a request through under the
administrator's token if its sender's role suffices. `operators-log.jsonl` gets a line for each action, with what was asked for,
and for each refusal, durable before the action, and one with the outcome. It names devices by number, so it is for the owner
alone.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit.errors import FleetError
from tacit.files import append_synced, write_atomic
from tacit.fleet.server.openapi import ADMIN
from tacit.fleet.server.request_limits import read_body
from tacit.fleet.wire.messages import MOST_JSON_BYTES, Refused, Sha256
from tacit.fleet.wire.refusals import Refusal

OPERATORS, AUDIT_LOG = "operators.json", "operators-log.jsonl"
_PRIVATE = 0o600


class OperatorRole(StrEnum):
    """What somebody may do; each role may do what those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    OWNER = "owner"

    def suffices_for(self, needed: OperatorRole) -> bool:
        """Whether this role may do what the other may."""
        order = list(OperatorRole)
        return order.index(self) >= order.index(needed)


class Operator(BaseModel):
    """Somebody with a token."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(min_length=1, max_length=64, pattern=r"^[\w.@ -]+$")
    role: OperatorRole
    token_sha256: Sha256


class _OperatorsFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    operators: tuple[Operator, ...] = ()


def add_operator(folder: Path, name: str, role: OperatorRole) -> str:
    """A new token for this name, which replaces the one before; it cannot be shown again."""
    token = secrets.token_hex(32)
    try:
        added = Operator(name=name, role=role, token_sha256=_digest(token))
    except ValidationError:
        raise FleetError(f"Expected a name of at most 64 letters, digits and . @ _ -, got {name!r}.") from None
    others = [each for each in _read(folder / OPERATORS) if each.name != name]
    _write(folder / OPERATORS, [*others, added])
    return token


def remove_operator(folder: Path, name: str) -> None:
    """Withdraw somebody's token; FleetError if nobody has this name."""
    known = _read(folder / OPERATORS)
    left = [each for each in known if each.name != name]
    if len(left) == len(known):
        raise FleetError(f"No operator is named {name!r} in {folder / OPERATORS}.")
    _write(folder / OPERATORS, left)


def role_needed(method: str, path: str) -> OperatorRole:
    """The role that a request to one of the administrator's routes needs."""
    if path.rstrip("/") == f"{ADMIN}/tokens" or (
        path.rstrip("/") == f"{ADMIN}/budget" and method not in ("GET", "HEAD")
    ):
        return OperatorRole.OWNER
    if method in ("GET", "HEAD") and not path.startswith(f"{ADMIN}/devices"):
        return OperatorRole.VIEWER
    return OperatorRole.OPERATOR


class OperatorGate:
    """ASGI middleware before the administrator's routes. A sender without a known token is left to the routes, which refuse."""

    def __init__(self, app: ASGIApp, *, admin_token: str, folder: Path) -> None:
        self._app, self._admin_token, self._folder = app, admin_token, folder
        self._owner = Operator(name="administrator", role=OperatorRole.OWNER, token_sha256=_digest(admin_token))
        self._lock = threading.Lock()
        self._cached: tuple[tuple[int, int] | None, tuple[Operator, ...]] = (None, ())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or not (path.startswith(f"{ADMIN}/") or path == "/metrics"):
            await self._app(scope, receive, send)
            return
        who = await run_in_threadpool(self._sender, scope)
        if who is None:
            await self._app(scope, receive, send)
            return
        method, needed = scope["method"], role_needed(scope["method"], path)
        acts = method not in ("GET", "HEAD")
        if not who.role.suffices_for(needed):
            await run_in_threadpool(self._write_down, who, method, path, "refused")
            await _refuse(send, f"This needs the role {needed.value!r}, and the token's role is {who.role.value!r}.")
            return
        if acts:
            try:
                body = await _body_of(scope, receive)
            except Refusal as refusal:
                await run_in_threadpool(self._write_down, who, method, path, str(refusal.status))
                await _refuse(send, refusal.sentence, refusal.status)
                return
            receive = _with_body(body, receive)
            await run_in_threadpool(self._write_down, who, method, path, "asked", _order_in(body))
        status: list[int] = []

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
            await send(message)

        bearer = (b"authorization", f"Bearer {self._admin_token}".encode())
        headers = [bearer, *(each for each in scope["headers"] if each[0] != b"authorization")]
        try:
            await self._app({**scope, "headers": headers}, receive, watched)
        finally:
            if acts:
                outcome = str(status[0]) if status else "no answer"
                await run_in_threadpool(self._write_down, who, method, path, outcome)

    def _sender(self, scope: Scope) -> Operator | None:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1 or not given[0].startswith(b"Bearer "):
            return None
        digest = hashlib.sha256(given[0].removeprefix(b"Bearer ")).hexdigest()
        found = None
        for each in (self._owner, *self._operators()):  # all of them, so that the time says nothing
            if hmac.compare_digest(each.token_sha256, digest):
                found = found or each
        return found

    def _operators(self) -> tuple[Operator, ...]:
        """The operators in the file; nobody if it is absent or cannot be read."""
        try:
            seen = os.stat(self._folder / OPERATORS)
        except OSError:
            return ()
        version = (seen.st_mtime_ns, seen.st_ino)
        with self._lock:
            if self._cached[0] != version:
                try:
                    self._cached = version, _read(self._folder / OPERATORS)
                except FleetError:
                    self._cached = version, ()
            return self._cached[1]

    def _write_down(
        self, who: Operator, method: str, path: str, outcome: str, order: dict[str, Any] | None = None
    ) -> None:
        line: dict[str, Any] = {
            "at": round(time.time(), 3),
            "operator": who.name,
            "role": who.role.value,
            "action": f"{method} {path[:200]}",
            "outcome": outcome,
        }
        if order:
            line["order"] = order
        with self._lock:
            descriptor = os.open(self._folder / AUDIT_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _PRIVATE)
            try:
                append_synced(descriptor, json.dumps(line).encode() + b"\n")
            finally:
                os.close(descriptor)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _read(path: Path) -> tuple[Operator, ...]:
    try:
        return _OperatorsFile.model_validate_json(path.read_bytes()).operators
    except FileNotFoundError:
        return ()
    except (OSError, ValidationError):
        raise FleetError(f"The file {path} is not a list of operators.") from None


def _write(path: Path, operators: list[Operator]) -> None:
    write_atomic(path, _OperatorsFile(operators=tuple(operators)).model_dump_json(indent=2), mode=_PRIVATE)


async def _body_of(scope: Scope, receive: Receive) -> bytes:
    """The request's whole body; Refusal if it is longer than any order, or does not come in time."""
    headers = Headers(scope=scope)
    if "content-length" not in headers and "transfer-encoding" not in headers:
        return b""
    return await read_body(Request(scope, receive), most=MOST_JSON_BYTES)


def _with_body(body: bytes, receive: Receive) -> Receive:
    """What gives this body, which was read already, and then what comes after it."""
    given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return given.pop() if given else await receive()

    return received


def _order_in(body: bytes) -> dict[str, Any] | None:
    """The JSON object in this body; None if it is none. The routes decide whether it is a valid order."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


async def _refuse(send: Send, sentence: str, status: int = 403) -> None:
    content = Refused(detail=sentence).model_dump_json().encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": content})
