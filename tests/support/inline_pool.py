"""Workers in this process, for tests of the engine on Ray without Ray: everything is pickled as if it went elsewhere."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tacit.runs.callbacks import WorkersReport
from tacit.simulation.ray.worker import About, Done, Measure, Measured, PieceTask, UsersSide, Worker, in_numpy


class InlinePool:
    """So many workers; tasks are dealt out in turn, and results come in an order that `shuffle` decides.

    Worker number i has the shards number i, i + (how many workers there are), ... of a store that lies in shards.
    """

    def __init__(self, workers: int = 1, shuffle: Callable[[list[Any]], list[Any]] = lambda done: done) -> None:
        self.workers = [Worker(gpu=None) for _ in range(workers)]
        self.shuffle = shuffle
        self.tasks: list[bytes] = []
        self.results: list[bytes] = []

    def open(self) -> list[About]:
        return [worker.about() for worker in self.workers]

    def prepare(self, side: UsersSide, shards: Sequence[int] = ()) -> None:
        for worker in self.workers:
            worker.prepare(pickle.loads(pickle.dumps(side)))

    def broadcast(self, model: Any) -> Callable[[], Any]:
        sent = pickle.dumps(in_numpy(model))
        return lambda: pickle.loads(sent)

    def do(self, tasks: Sequence[PieceTask | Measure], fetch: Callable[[], Any]) -> Iterator[Done | Measured]:
        if tasks and isinstance(tasks[0], Measure):
            yield from self.shuffle([self.workers[0].do(task, fetch) for task in tasks])
            return
        self.tasks = [pickle.dumps(task) for task in tasks]
        done = [
            self.workers[(number if sent.shard is None else sent.shard) % len(self.workers)].do(sent, fetch)
            for number, sent in enumerate(map(pickle.loads, self.tasks))
        ]
        self.results = [pickle.dumps(each) for each in done]
        yield from (pickle.loads(pickle.dumps(each)) for each in self.shuffle(done))

    def report(self) -> WorkersReport | None:
        return WorkersReport(len(self.workers), 0)

    def close(self) -> None:
        pass
