"""A process's part in rounds, for tests of the interface around it: it remembers what it was given."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from tacit.fleet.wire.messages import Received
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.task import SessionTerms

HERE, OVER, ELSEWHERE = "0" * 32, "1" * 32, "2" * 32
REPORT_BYTES, MESSAGE_BYTES = 1000, 500
SESSION = SessionTerms(
    session_id="4" * 64,
    graph_seed="5" * 64,
    devices=3,
    neighbours=2,
    threshold=2,
    minimum=2,
    dimension=3,
    bits=16,
    index=1,
)


@dataclass
class FakeReports:
    """Everybody has a place in the round HERE; OVER is over, and ELSEWHERE another process's."""

    taken: list[tuple[str, int, str | None, bytes]] = field(default_factory=list)
    ready: bool = True

    def most_bytes(self, round_id: str, device: int, stage: str | None) -> int:
        if round_id == OVER:
            raise Refusal("The round is over.", status=410)
        if round_id != HERE:
            raise Refusal("The device has no place in this round.", status=403)
        return REPORT_BYTES if stage is None else MESSAGE_BYTES

    def report(self, round_id: str, device: int, body: bytes | bytearray, digest: str) -> Received:
        assert digest == hashlib.sha256(body).hexdigest()
        return self._take(round_id, device, None, bytes(body))

    def post(self, round_id: str, device: int, stage: str, body: bytes) -> Received:
        return self._take(round_id, device, stage, body)

    def fetch(self, round_id: str, device: int, stage: str) -> bytes | None:
        self.most_bytes(round_id, device, stage)
        if not self.ready:
            return None
        return SESSION.model_dump_json().encode() if stage == "session" else f"{stage} for {device}".encode()

    def _take(self, round_id: str, device: int, stage: str | None, body: bytes) -> Received:
        repeated = (round_id, device, stage, body) in self.taken
        if not repeated:
            self.taken.append((round_id, device, stage, body))
        return Received(repeated=repeated)
