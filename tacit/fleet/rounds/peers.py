"""How the coordinator reaches the processes that add up: in this process, or over HTTP with sealed messages.

    POST /internal/rounds/{round}/{question}     sealed question → sealed answer

A question is sealed for the process that it is sent to, and carries a nonce; the answer is sealed for that question alone
(`wire/sealing.py`). Without the server's secret nobody can ask, read or answer, so TLS certificates are not verified here: an
attacker with a false certificate can only interrupt. The other side is `server/internal_routes.py`.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Protocol

import httpx
from sqlalchemy import Engine

from tacit.errors import FleetError
from tacit.fleet.database import clock, leases
from tacit.fleet.rounds.aggregator import Aggregator
from tacit.fleet.wire.sealing import seal, unseal

INTERNAL = "/internal/rounds"
NONCE_BYTES = 16
# Packing and sending a sum of tens of millions of entries takes a while.
_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
# What a proxy answers if nothing behind it does. Every question can be asked again, after these pauses.
_GATEWAY = (502, 503, 504)
_PAUSES_S = (0.2, 1.0)


class Peer(Protocol):
    """A process that adds up, as the coordinator sees it."""

    def ask(self, round_id: str, question: str, content: bytes = b"") -> bytes:
        """The answer to an `aggregator.PeerQuestion`; FleetError if the process has none or cannot be reached."""
        ...


class RemotePeer:
    """A process at an address."""

    def __init__(self, secret: bytes, process: str, address: str) -> None:
        self._secret, self._process, self._address = secret, process, address

    def ask(self, round_id: str, question: str, content: bytes = b"") -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        where = {"round_id": round_id, "process": self._process}
        body = seal(self._secret, nonce + content, purpose=question_purpose(question), **where)
        url = f"{self._address}{INTERNAL}/{round_id}/{question}"
        for pause in (*_PAUSES_S, None):
            try:
                with httpx.Client(verify=False, trust_env=False, timeout=_TIMEOUT) as client:
                    answer = client.post(url, content=body)
            except httpx.HTTPError:
                answer = None
            if (answer is not None and answer.status_code not in _GATEWAY) or pause is None:
                break
            time.sleep(pause)
        if answer is None:
            raise FleetError("An aggregator process cannot be reached.")
        if answer.status_code == 401:  # the question was sealed for another process, or with another secret
            raise FleetError(
                "An aggregator process was restarted, or has another secret: its part of the round is lost."
            )
        if answer.status_code != 200:
            raise FleetError(f"Expected an aggregator process to answer with status 200, got {answer.status_code}.")
        return unseal(self._secret, answer.content, purpose=answer_purpose(question, nonce), **where)


@dataclass(frozen=True)
class Peers:
    """All processes that add up. `local` is the aggregator of this process, if it has one."""

    engine: Engine
    secret: bytes = field(repr=False)
    local: Aggregator | None

    def alive(self, *, leaving: bool = True) -> dict[str, Peer]:
        """The processes that were seen recently, by name. `leaving`: also those that take no new rounds."""
        roles = (*leases.AGGREGATES, leases.LEAVING) if leaving else leases.AGGREGATES
        found = leases.alive(self.engine, roles, now=clock.now(self.engine))
        return {process: self._peer(process, address) for process, address in found.items()}

    def _peer(self, process: str, address: str) -> Peer:
        if self.local is not None and process == self.local.process:
            return self.local
        return RemotePeer(self.secret, process, address)


def question_purpose(question: str) -> str:
    """What a question is sealed for."""
    return f"ask {question}"


def answer_purpose(question: str, nonce: bytes) -> str:
    """What the answer to the question with this nonce is sealed for."""
    return f"answer {question} {nonce.hex()}"
