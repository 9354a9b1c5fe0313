"""The routes by which the coordinator asks this process for sums. `rounds/peers.py` is the other side, and explains them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from tacit.errors import FleetError, ProtocolError
from tacit.fleet.rounds.aggregator import Aggregator
from tacit.fleet.rounds.peers import INTERNAL, NONCE_BYTES, answer_purpose, question_purpose
from tacit.fleet.server.request_limits import MOST_QUESTION_BYTES, read_body
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.sealing import seal, unseal


def internal_router(aggregator: Aggregator, secret: bytes) -> APIRouter:
    """The routes by which a coordinator reaches this process; they are not part of the documented interface."""
    router = APIRouter(include_in_schema=False)

    @router.post(f"{INTERNAL}/{{round_id}}/{{question}}")
    async def asked(
        request: Request,
        round_id: Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")],
        question: Annotated[str, Path(pattern=r"^[a-z]{1,16}$")],
    ) -> Response:
        sealed = await read_body(request, most=MOST_QUESTION_BYTES)  # small: the sender is not authenticated yet
        where = {"round_id": round_id, "process": aggregator.process}
        try:
            opened = unseal(secret, sealed, purpose=question_purpose(question), **where)
        except FleetError as error:
            raise Refusal(error.sentence, status=401) from None
        nonce, content = opened[:NONCE_BYTES], opened[NONCE_BYTES:]
        try:
            answer = await run_in_threadpool(aggregator.ask, round_id, question, content)
        except ProtocolError as error:
            raise Refusal(error.sentence, status=409) from None
        return Response(
            seal(secret, answer, purpose=answer_purpose(question, nonce), **where),
            media_type="application/octet-stream",
        )

    return router
