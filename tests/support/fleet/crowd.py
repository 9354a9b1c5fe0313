"""Made-up devices that come to a server again and again, in one thread, without a network between."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine

from tacit.errors import FleetError
from tacit.fleet.database.heartbeat import Heartbeat
from tacit.fleet.rounds.aggregator import Aggregator
from tacit.fleet.rounds.coordinator import Coordinator
from tacit.fleet.rounds.peers import Peers
from tacit.fleet.rounds.selection import check_in
from tacit.fleet.wire.messages import Assignment, CheckInRequest
from tacit.fleet.wire.reports import pack_report
from tacit.fleet.wire.server_key import ServerKey
from tacit.recipe.training import Recipe, parse_recipe
from tests.support.fleet.worlds import recipe_tree

SECRET = bytes(range(32))
# Much longer than anything that a test waits for takes, on a machine that others use, too.
PATIENCE_S = 600.0


def fleet_recipe(**changes: Any) -> Recipe:
    """A run of three rounds of four devices out of twelve, without noise."""
    fleet = {"over_selection": 1.5, "deadline_s": 20.0, "timer_s": 0.0} | changes.pop("fleet", {})
    name = changes.pop("name", "small")
    tree = {**recipe_tree(**changes), "name": name}
    return parse_recipe({**tree, "fleet": fleet})


def vector_of(device: int, round: int, size: int, norm: float) -> NDArray[np.float32]:
    """What a made-up device sends: always the same in a round, and of this norm."""
    found = np.random.default_rng([device, round]).normal(size=size)
    return (found * norm / np.linalg.norm(found)).astype(np.float32)


class Crowd:
    """Devices that check in in turn and send what they have, until it is stopped."""

    def __init__(
        self,
        engine: Engine,
        aggregators: Mapping[str, Aggregator],
        devices: list[int],
        size: int,
        *,
        send: Callable[[Aggregator, int, Assignment, bytes], None] | None = None,
    ) -> None:
        self._engine, self._aggregators, self._devices, self._size = engine, aggregators, devices, size
        self._send = send or (lambda aggregator, device, place, body: _report(aggregator, device, place, body))
        self._stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.refused: list[str] = []

    def __enter__(self) -> Crowd:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self.thread.join()

    def join(self, devices: list[int]) -> None:
        """Let more devices come."""
        self._devices = self._devices + devices

    def _run(self) -> None:
        draw = random.Random(1)
        while not self._stopping.wait(0.01):
            for device in self._devices:
                answer = check_in(self._engine, device, CheckInRequest(), now=time.time(), draw=draw)
                if (place := answer.assignment) is None:
                    continue
                update = vector_of(device, place.round, self._size, 0.9 * place.clip_norm)
                body = pack_report(place.round_id, 1.0, 0, update)
                try:
                    self._send(self._aggregators[place.upload_to], device, place, body)
                except FleetError as refusal:
                    self.refused.append(refusal.sentence)


def _report(aggregator: Aggregator, device: int, place: Assignment, body: bytes) -> None:
    aggregator.report(place.round_id, device, body)


class Server:
    """A coordinator and processes that add up, in this process; `stopping` ends it as Ctrl-C does.

    With `stop_after` that is set by the coordinator's own thread, once it has committed so many rounds and before it begins
    another: a test that watched from outside could be too late.
    """

    def __init__(
        self,
        engine: Engine,
        recipe: Recipe,
        out: Path,
        *,
        aggregators: int = 1,
        odometer: Path | None = None,
        stop_after: int | None = None,
    ) -> None:
        self.engine, self.stopping = engine, threading.Event()
        names = [f"{number:032x}" for number in range(aggregators)]
        self.aggregators = {f"http://{name}": Aggregator(engine, name, ServerKey(SECRET)) for name in names}
        self.hearts = [
            Heartbeat(engine, one.process, role="aggregator", address=address, on_beat=one.sweep)
            for address, one in self.aggregators.items()
        ]
        self.heartbeat = Heartbeat(engine, "c" * 32, role="coordinator", address="http://coordinator")
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._stop_after = stop_after
        self.coordinator = Coordinator(
            engine,
            recipe,
            out,
            heartbeat=self.heartbeat,
            peers=LocalPeers(engine, SECRET, None, self.aggregators),
            transport="https",
            stopping=self.stopping,
            log=self._heard,
            odometer=odometer or out.parent,
        )

    def __enter__(self) -> Server:
        for heartbeat in (*self.hearts, self.heartbeat):
            heartbeat.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stopping.set()
        for heartbeat in (*self.hearts, self.heartbeat):
            heartbeat.stop()

    def _heard(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))
        if len(self.named("round committed")) == self._stop_after:
            self.stopping.set()

    def named(self, event: str) -> list[dict[str, Any]]:
        """The fields of the events of this name."""
        return [fields for name, fields in self.events if name == event]


class LocalPeers(Peers):
    """Aggregators of this process, reached without a network."""

    def __init__(
        self, engine: Engine, secret: bytes, local: Aggregator | None, aggregators: Mapping[str, Aggregator]
    ) -> None:
        super().__init__(engine, secret, local)
        object.__setattr__(self, "aggregators", aggregators)

    def _peer(self, process: str, address: str) -> Any:
        return self.aggregators[address]  # type: ignore[attr-defined]


@contextmanager
def in_background(call: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """Run it in a thread; what is yielded waits for its result. A test that fails does not wait: that could be for ever."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield lambda: future.result(timeout=PATIENCE_S)
    thread.join()


def wait_for(condition: Callable[[], bool]) -> None:
    """Until it holds; fails after PATIENCE_S."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("what was waited for did not happen")
