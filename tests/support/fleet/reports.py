"""Places in a round, and reports for them."""

from __future__ import annotations

import numpy as np
from sqlalchemy import Engine, insert

from tacit.fleet.database import schema
from tacit.fleet.wire.reports import pack_report

SIZE = 3


def place(engine: Engine, round_id: str, devices: list[int], process: str) -> None:
    rows = [
        {"round_id": round_id, "device": device, "place": number, "aggregator": process, "state": "selected"}
        for number, device in enumerate(devices)
    ]
    with engine.begin() as connection:
        connection.execute(insert(schema.assignments), rows)


def report(round_id: str, device: int, *, norm: float = 0.5, within: int = 0, weight: float = 1.0) -> bytes:
    vector = np.zeros(SIZE, np.float32)
    vector[device % SIZE] = norm
    return pack_report(round_id, weight, within, vector)
