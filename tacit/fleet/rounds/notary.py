"""Receipts: what the server signs for each contribution that it counts (`wire.public_log`)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine

from tacit.fleet.database import clock
from tacit.fleet.database.round_table import RoundRow
from tacit.fleet.wire.messages import Received
from tacit.fleet.wire.public_log import RECEIPT_LABEL, Receipt, salted
from tacit.fleet.wire.server_key import ServerKey


@dataclass(frozen=True)
class Notary:
    """Signs receipts with the server's key; without one nobody gets any."""

    engine: Engine
    key: ServerKey | None

    def receipt(self, round: RoundRow, device: int, body: str) -> tuple[Received, str | None]:
        """The answer to a contribution with this digest, and the leaf of its receipt for the public log."""
        if self.key is None:
            return Received(), None
        salt = self.key.salt("receipt", round.round_id, str(device))
        receipt = Receipt(
            task=round.task,
            round=round.round,
            round_id=round.round_id,
            device=salted(salt, device),
            body=body,
            at=int(clock.now(self.engine)),
            salt=salt,
        )
        signature = self.key.sign(RECEIPT_LABEL, receipt.text())
        return Received(receipt=receipt.text(), signature=signature), receipt.leaf()
