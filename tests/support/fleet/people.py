"""Small stand-ins for the tests of the fleet: devices with keys, tasks and open rounds."""

from __future__ import annotations

import hashlib
import os
import uuid
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine, delete, insert, select, update

from tacit.fleet.database import schema
from tacit.fleet.server import enrolment
from tacit.fleet.wire.messages import EnrolRequest
from tacit.fleet.wire.signing import enrolment_proof, signed_headers
from tacit.fleet.wire.task import DeviceTask
from tacit.secagg import keys

NOW = 1_000_000.0


@dataclass
class Person:
    """A device as the server sees it: a key, a number, a counter."""

    private: bytes = field(default_factory=lambda: os.urandom(32))
    number: int = -1
    counter: int = 0

    @property
    def identity(self) -> bytes:
        return keys.identity_public(self.private)

    def request(self, token: str) -> EnrolRequest:
        proof = enrolment_proof(self.private, token)
        return EnrolRequest(token=token, identity=self.identity.hex(), proof=proof.hex())

    def headers(self, method: str, path: str, body: bytes = b"") -> dict[str, str]:
        """The headers of its next request."""
        self.counter += 1
        return signed_headers(self.private, self.number, self.counter, method, path, body)


def enrolled(engine: Engine) -> Person:
    """A device with a number."""
    person = Person()
    token = enrolment.make_token(engine, uses=1, expires_at=NOW + 60)
    person.number = enrolment.enrol(engine, person.request(token), now=NOW)
    return person


def enrolled_many(engine: Engine, count: int) -> list[int]:
    """Numbers of devices that nobody will sign for."""
    with engine.begin() as connection:
        rows = [{"identity": os.urandom(32)} for _ in range(count)]
        query = insert(schema.devices).returning(schema.devices.c.device)
        return sorted(connection.execute(query, rows).scalars())


def a_task(engine: Engine, **changes: Any) -> str:
    """An active task; returns its name."""
    values: dict[str, Any] = {
        "name": f"task {uuid.uuid4()}",
        "kind": "train",
        "plan": "1" * 64,
        "vocabulary": "2" * 64,
        "layout": "sentences",
        "length": 8,
        "batch_size": 4,
        "steps": 2,
        "model_shapes": ((3,),),
        "update_shapes": ((3,),),
        "clipping": "flat",
        "example_cap": None,
        "min_separation": 2,
        "max_participation": 3,
        "timer_s": 0.0,
        "report_goal": 2,
    }
    description = DeviceTask(**(values | changes)).model_dump_json()
    task = hashlib.sha256(description.encode()).hexdigest()
    row = {"task": task, "name": "a task", "description": description, "active": True, "opened_at": NOW}
    with engine.begin() as connection:
        connection.execute(insert(schema.tasks).values(**row))
    return task


def a_process(engine: Engine, *, role: str = "aggregator", seen_at: float = NOW, address: str = "http://here") -> str:
    """A process that was seen."""
    process = uuid.uuid4().hex
    row = {"process": process, "role": role, "address": address, "seen_at": seen_at}
    with engine.begin() as connection:
        connection.execute(insert(schema.processes).values(**row))
    return process


def a_round(engine: Engine, task: str, round: int = 0, **changes: Any) -> str:
    """An open round; returns its identifier."""
    row = {
        "round_id": uuid.uuid4().hex,
        "task": task,
        "round": round,
        "attempt": 0,
        "state": "open",
        "checkpoint": "3" * 64,
        "clip_norm": 1.0,
        "goal": 2,
        "places": 3,
        "opened_at": NOW,
        "deadline": NOW + 60,
    } | changes
    with engine.begin() as connection:
        connection.execute(insert(schema.rounds).values(**row))
    return str(row["round_id"])


def finish(engine: Engine, round_id: str, *, counted: bool = True) -> list[int]:
    """End a round as a coordinator does; those with a place are its participants. Returns them."""
    places, rounds = schema.assignments.c, schema.rounds.c
    with engine.begin() as connection:
        row = connection.execute(select(schema.rounds).where(rounds.round_id == round_id)).one()
        chosen = list(connection.execute(select(places.device).where(places.round_id == round_id)).scalars())
        if counted and chosen:
            values = {"task": row.task, "round": row.round, "attempt": row.attempt}
            connection.execute(insert(schema.participations), [{"device": device, **values} for device in chosen])
        connection.execute(delete(schema.assignments).where(places.round_id == round_id))
        state = "committed" if counted else "abandoned"
        connection.execute(update(schema.rounds).where(rounds.round_id == round_id).values(state=state))
    return chosen
