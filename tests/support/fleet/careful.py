"""Made-up devices that keep a real device's memory: they count what they send, and ask whether it counts."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from sqlalchemy import Engine

from tacit.errors import FleetError
from tacit.fleet.database import task_table
from tacit.fleet.device.memory import Memory
from tacit.fleet.rounds.aggregator import Aggregator
from tacit.fleet.rounds.selection import check_in
from tacit.fleet.wire.messages import Assignment, CheckInAnswer, CheckInRequest
from tacit.fleet.wire.reports import pack_report
from tacit.fleet.wire.task import DeviceTask
from tests.support.fleet.crowd import vector_of

SENDS, LOSES, SILENT = "sends", "loses", "silent"
# What a device does with a place: it sends a report, sends one that is lost on the way, or does nothing.
Habit = Callable[[int, Assignment], str]


class CarefulCrowd:
    """Devices that come in turn until they are stopped. Each keeps its own limits, as `tacit.fleet.device` does."""

    def __init__(
        self,
        engine: Engine,
        aggregators: Mapping[str, Aggregator],
        devices: list[int],
        size: int,
        habit: Habit = lambda device, place: SENDS,
    ) -> None:
        self._engine, self._aggregators, self._devices, self._size = engine, aggregators, devices, size
        self._habit = habit
        self._memory: defaultdict[int, Memory] = defaultdict(Memory)
        self._silent: dict[int, str] = {}
        self._stopping, self._draw = threading.Event(), random.Random(1)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.refusals: list[str] = []

    def __enter__(self) -> CarefulCrowd:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(0.005):
            for device in self._devices:
                if self._stopping.is_set():
                    return
                self._visit(device)

    def _visit(self, device: int) -> None:
        answer = self._ask(device)
        if answer.uncounted:
            self._memory[device] = self._memory[device].without(answer.uncounted)
            answer = self._ask(device) if answer.assignment is None else answer
        place = answer.assignment
        if place is None or self._silent.get(device) == place.round_id:
            return
        habit = self._habit(device, place)
        if habit == SILENT:
            self._silent[device] = place.round_id
            return
        now = time.time()
        task = DeviceTask.model_validate_json(task_table.description_of(self._engine, place.task))
        memory = self._memory[device].offered(place.task, task, now)
        try:
            memory.require_free(place, now)
            self._memory[device] = memory.taking_part(place, now, None)
            if habit == SENDS:
                update = vector_of(device, place.round, self._size, 0.9 * place.clip_norm)
                body = pack_report(place.round_id, 1.0, 0, update)
                self._aggregators[place.upload_to].report(place.round_id, device, body)
        except FleetError as refusal:
            self.refusals.append(refusal.sentence)

    def _ask(self, device: int) -> CheckInAnswer:
        memory, now = self._memory[device], time.time()
        request = CheckInRequest(
            busy_with=tuple(memory.busy_with(now)), was_in=dict(memory.was_in()), sent=memory.asked()
        )
        return check_in(self._engine, device, request, now=now, draw=self._draw)
