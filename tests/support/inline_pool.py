"""Workers in this process, for tests of the engine on Ray without Ray: everything is pickled as if it went elsewhere."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tacit.models.word_lm import parameter_count
from tacit.recipe.engine import Ray
from tacit.recipe.training import Recipe
from tacit.runs.callbacks import Callback, WorkersReport
from tacit.runs.driver import begin
from tacit.runs.folder import RunFolder
from tacit.simulation.program import SimulatedProgram
from tacit.simulation.ray.users import RayUsers
from tacit.simulation.ray.worker import About, Done, Measure, Measured, PieceTask, UsersSide, Worker, in_numpy
from tacit.simulation.training import program_of
from tacit.training.recipes import RecipeSetup


class InlinePool:
    """So many workers; tasks are dealt out in turn, and results come in an order that `shuffle` decides.

    Worker number i has the shards number i, i + (how many workers there are), ... of a store that lies in shards.
    """

    def __init__(self, workers: int = 1, shuffle: Callable[[list[Any]], list[Any]] = lambda done: done) -> None:
        self.workers = [Worker(gpu=None) for _ in range(workers)]
        self.shuffle = shuffle
        self.sides: list[bytes] = []
        self.models: list[bytes] = []
        self.tasks: list[bytes] = []
        self.measures: list[bytes] = []
        self.results: list[bytes] = []

    def open(self) -> list[About]:
        return [worker.about() for worker in self.workers]

    def prepare(self, side: UsersSide, shards: Sequence[int] = ()) -> None:
        self.sides.append(pickle.dumps(side))
        for worker in self.workers:
            worker.prepare(pickle.loads(self.sides[-1]))

    def broadcast(self, model: Any) -> Callable[[], Any]:
        sent = pickle.dumps(in_numpy(model))
        self.models.append(sent)
        return lambda: pickle.loads(sent)

    def do(self, tasks: Sequence[PieceTask | Measure], fetch: Callable[[], Any]) -> Iterator[Done | Measured]:
        if tasks and isinstance(tasks[0], Measure):
            self.measures = [pickle.dumps(task) for task in tasks]
            yield from self.shuffle([self.workers[0].do(pickle.loads(sent), fetch) for sent in self.measures])
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


def inline_program(recipe: Recipe, folder: RunFolder, pool: Any = None, *, pieces: int = 3) -> SimulatedProgram:
    """The recipe's program, its users trained in pieces by workers in this process; or by those of another pool."""
    setup = RecipeSetup.build(recipe)
    engine = RayUsers(
        setup.dataset.train,
        setup.work,
        setup.plan,
        setup.batches,
        settings=Ray(pieces=pieces),
        parameters=parameter_count(setup.learned),
        chunk=setup.chunk,
        secure=setup.secure,
        pool=InlinePool() if pool is None else pool,
    )
    return program_of(setup, folder, engine)


def run_inline(recipe: Recipe, out: Path, pool: Any = None, *, pieces: int = 3) -> RunFolder:
    """A run of this recipe, which gives the bytes that real workers of Ray give with as many pieces."""
    folder = RunFolder.create(out, recipe.to_toml())
    begin(inline_program(recipe, folder, pool, pieces=pieces), folder, Callback())
    return folder
