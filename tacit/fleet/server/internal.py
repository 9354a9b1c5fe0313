"""What the coordinator and the processes that add up say to each other, sealed in both directions (`sealed.py`).

    POST /internal/rounds/{round}/{what}     sealed question → sealed answer

A question is sealed for the process it is put to and carries a nonce; its answer is sealed for that question alone. Whoever
does not have the server's secret can ask nothing, read nothing and answer nothing; certificates are therefore not looked at on
this way, and a wrong one can do no more than a cut cable.
"""

from __future__ import annotations

import os
from typing import Annotated, Protocol

import httpx
from fastapi import APIRouter, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from tacit.errors import FleetError, ProtocolError
from tacit.fleet.rounds.aggregator import Aggregator
from tacit.fleet.rounds.sealed import seal, unseal
from tacit.fleet.server.limits import read_body
from tacit.fleet.wire.refusals import Refusal

INTERNAL = "/internal/rounds"
_NONCE_BYTES = 16
_MOST_BYTES = 4096
# Sums of tens of millions of numbers take a while to pack and to send.
_TIMEOUT = httpx.Timeout(60.0, connect=5.0)


class Peer(Protocol):
    """A process that adds up, as the coordinator sees it: this one, or another one."""

    def ask(self, round_id: str, what: str, content: bytes = b"") -> bytes:
        """Its answer; FleetError if it has none or cannot be reached."""
        ...


class RemotePeer:
    """A process at an address."""

    def __init__(self, secret: bytes, process: str, address: str) -> None:
        self._secret, self._process, self._address = secret, process, address

    def ask(self, round_id: str, what: str, content: bytes = b"") -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        where = {"round_id": round_id, "process": self._process}
        question = seal(self._secret, nonce + content, purpose=f"ask {what}", **where)
        url = f"{self._address}{INTERNAL}/{round_id}/{what}"
        try:
            with httpx.Client(verify=False, trust_env=False, timeout=_TIMEOUT) as client:
                answer = client.post(url, content=question)
        except httpx.HTTPError:
            raise FleetError("Expected an answer of a process that adds up, but it cannot be reached.") from None
        if answer.status_code != 200:
            raise FleetError(f"Expected an answer of a process that adds up, got status {answer.status_code}.")
        return unseal(self._secret, answer.content, purpose=f"answer {what} {nonce.hex()}", **where)


def internal_router(aggregator: Aggregator, secret: bytes) -> APIRouter:
    """The routes by which a coordinator reaches this process; no part of the documented interface."""
    router = APIRouter(include_in_schema=False)

    @router.post(f"{INTERNAL}/{{round_id}}/{{what}}")
    async def asked(
        request: Request,
        round_id: Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")],
        what: Annotated[str, Path(pattern=r"^[a-z]{1,16}$")],
    ) -> Response:
        sealed = await read_body(request, most=_MOST_BYTES)  # nobody has shown the secret yet
        where = {"round_id": round_id, "process": aggregator.process}
        try:
            question = unseal(secret, sealed, purpose=f"ask {what}", **where)
        except FleetError as error:
            raise Refusal(error.sentence, status=401) from None
        nonce, content = question[:_NONCE_BYTES], question[_NONCE_BYTES:]
        try:
            answer = await run_in_threadpool(aggregator.ask, round_id, what, content)
        except ProtocolError as error:
            raise Refusal(error.sentence, status=409) from None
        return Response(
            seal(secret, answer, purpose=f"answer {what} {nonce.hex()}", **where), media_type="application/octet-stream"
        )

    return router
