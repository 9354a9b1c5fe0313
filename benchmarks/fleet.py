"""Speed of one server process: check-ins, and reports of 5 MB added up. One JSON line a case.

    python benchmarks/fleet.py                         on SQLite
    python benchmarks/fleet.py --database postgresql://…

One process serves, this one plays the devices, so two cores are busy: requests are signed before the clock starts and sent over
plain sockets. `memory_MB` is the server's peak so far; between the cases of reports it must not grow with their number.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine, insert, update

from tacit.fleet.database import schema
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database
from tacit.fleet.rounds.selection import SNAPSHOT_S
from tacit.fleet.wire.messages import CHECK_IN, ROUNDS
from tacit.fleet.wire.reports import pack_report
from tacit.fleet.wire.signing import signed_headers
from tacit.fleet.wire.task import DeviceTask
from tacit.secagg import keys

NUMBERS = 1_250_000  # of a model of 5 MB
PROCESS = "a" * 32


@dataclass
class Device:
    """A simulated device."""

    number: int
    private: bytes = field(repr=False)
    counter: int = 0

    def request(self, method: str, path: str, body: bytes) -> bytes:
        """The head of its next request, signed."""
        self.counter += 1
        fields = {"host": "here", "content-length": str(len(body))}
        fields |= signed_headers(self.private, self.number, self.counter, method, path, body)
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        return "\r\n".join([*lines, "\r\n"]).encode()


def serve(database: str, listener: socket.socket) -> None:
    """A process that selects and adds up, as `tacit serve` runs it."""
    import uvicorn

    from tacit.fleet.database.heartbeat import Heartbeat
    from tacit.fleet.rounds.aggregator import Aggregator
    from tacit.fleet.server.api import create_app
    from tacit.fleet.server.connections import Connections

    engine = open_database(database)
    Heartbeat(engine, PROCESS, role="all", address="http://here").start()
    app = create_app(engine, admin_token="b" * 64, reports=Aggregator(engine, PROCESS), selects=True)
    transport: dict[str, Any] = {"http": Connections().protocol(), "loop": "asyncio", "server_header": False}
    config = uvicorn.Config(app, log_config=None, access_log=False, backlog=4096, **transport)
    uvicorn.Server(config).run(sockets=[listener])


@contextmanager
def serving(database: str) -> Iterator[tuple[int, int]]:
    """The port and the process number of a server."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        process = multiprocessing.get_context("fork").Process(target=serve, args=(database, listener))
        process.start()
        try:
            yield listener.getsockname()[1], process.pid or 0
        finally:
            process.terminate()
            process.join()


def enrol(engine: Engine, count: int) -> list[Device]:
    """Devices with keys, entered at once."""
    privates = [os.urandom(32) for _ in range(count)]
    with engine.begin() as connection:
        rows = [{"identity": keys.identity_public(private)} for private in privates]
        query = insert(schema.devices).returning(schema.devices.c.device, sort_by_parameter_order=True)
        numbers = connection.execute(query, rows).scalars().all()
    return [Device(number, private) for number, private in zip(numbers, privates, strict=True)]


def open_round(engine: Engine, places: int) -> str:
    """A task of its own with an open round."""
    description = DeviceTask(
        name=f"benchmark {os.urandom(8).hex()}",
        kind="train",
        plan="0" * 64,
        vocabulary="0" * 64,
        layout="sentences",
        length=1,
        batch_size=1,
        steps=1,
        model_shapes=((NUMBERS,),),
        update_shapes=((NUMBERS,),),
        clipping="flat",
        example_cap=None,
        min_separation=1,
        max_participation=1,
        timer_s=0,
        report_goal=max(places, 1),
    ).model_dump_json()
    task, round_id, now = hashlib.sha256(description.encode()).hexdigest(), os.urandom(16).hex(), time.time()
    row = {"round": 0, "attempt": 0, "state": "open", "checkpoint": "0" * 64, "clip_norm": 1.0, "opened_at": now}
    with engine.begin() as connection:
        connection.execute(update(schema.tasks).values(active=False))
        task_row = {"task": task, "name": "benchmark", "description": description, "active": True, "opened_at": now}
        connection.execute(insert(schema.tasks).values(**task_row))
        sizes = {"goal": max(places, 1), "places": places, "deadline": now + 3600}
        connection.execute(insert(schema.rounds).values(round_id=round_id, task=task, **row, **sizes))
    time.sleep(2 * SNAPSHOT_S)  # until the server has noticed
    return round_id


def check_ins(engine: Engine, port: int, devices: list[Device], *, places: int, connections: int) -> dict[str, Any]:
    """Every device checks in once; `places` of them are chosen."""
    open_round(engine, places)
    requests = [(device.request("POST", CHECK_IN, b"{}") + b"{}", b"") for device in devices]
    seconds, answers = asyncio.run(_play(port, requests, connections))
    chosen = sum(b'"assignment":null' not in answer for answer in answers)
    assert chosen == min(places, len(devices)), chosen
    return {"devices": len(devices), "chosen": chosen, "check_ins_per_second": round(len(devices) / seconds, 1)}


def reports(engine: Engine, port: int, devices: list[Device], *, connections: int) -> dict[str, Any]:
    """Every device has a place, and sends its report."""
    round_id = open_round(engine, len(devices))
    with engine.begin() as connection:
        row = {"round_id": round_id, "aggregator": PROCESS, "state": "selected"}
        rows = [{"device": device.number, "place": place, **row} for place, device in enumerate(devices)]
        connection.execute(insert(schema.assignments), rows)
    update_ = np.random.default_rng(0).standard_normal(NUMBERS).astype(np.float32)
    body = pack_report(round_id, 1.0, 0, update_ / (2 * np.linalg.norm(update_)))
    path = f"{ROUNDS}/{round_id}/report"
    requests = [(device.request("PUT", path, body), body) for device in devices]
    seconds, answers = asyncio.run(_play(port, requests, connections))
    assert all(b'"repeated":false' in answer for answer in answers), answers[0]
    rate = len(devices) / seconds
    return {
        "reports": len(devices),
        "reports_per_second": round(rate, 1),
        "MB_per_second": round(rate * len(body) / 1e6, 1),
    }


async def _play(port: int, requests: list[tuple[bytes, bytes]], connections: int) -> tuple[float, list[bytes]]:
    """Send all requests over so many connections; the seconds it took, and the answers."""
    waiting, answers = iter(requests), []

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for head, body in waiting:
            writer.write(head)
            writer.write(body)
            await writer.drain()
            answered = await reader.readuntil(b"\r\n\r\n")
            status = answered.split(b" ", 2)[1]
            length = next(line for line in answered.lower().split(b"\r\n") if line.startswith(b"content-length"))
            answer = await reader.readexactly(int(length.split(b":")[1]))
            assert status == b"200", answer
            answers.append(answer)
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(connections)))
    return time.perf_counter() - started, answers


def _cpu_seconds(process: int) -> float:
    """What a process has computed for so far."""
    times = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def _peak_MB(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) // 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--database", help="postgresql://…; none: a new file of SQLite")
    parser.add_argument("--devices", type=int, default=4000)
    parser.add_argument("--reports", type=int, default=100)
    parser.add_argument("--connections", type=int, default=128)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = arguments.database or f"sqlite:///{folder}/fleet.db"
        engine = open_database(database)
        migrate(engine)
        devices = enrol(engine, arguments.devices)
        engine.dispose()
        with serving(database) as (port, process):

            def show(case: str, play: Callable[..., dict[str, Any]], cohort: list[Device], **terms: int) -> None:
                before = _cpu_seconds(process)
                found = play(engine, port, cohort, **terms)
                each = {"server_cpu_ms_each": round((_cpu_seconds(process) - before) / len(cohort) * 1e3, 2)}
                common = {"case": case, "database": engine.dialect.name, "connections": terms["connections"]}
                print(json.dumps(common | found | each | {"memory_MB": _peak_MB(process)}), flush=True)

            terms = {"connections": arguments.connections}
            check_ins(engine, port, devices[:200], places=0, **terms)  # warm
            show("check-ins, all sent away", check_ins, devices, places=0, **terms)
            show("check-ins, all chosen", check_ins, devices, places=len(devices), **terms)
            for times in (1, 2, 4):
                show("reports", reports, devices[: arguments.reports * times], **terms)
        engine.dispose()


if __name__ == "__main__":
    main()
