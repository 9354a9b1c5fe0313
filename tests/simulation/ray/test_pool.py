"""Who gets which task, and what follows when workers are lost, join, or have no memory: with a made-up Ray, in a moment."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tacit.errors import WorkerError
from tacit.recipe.engine import Ray
from tacit.simulation.ray import pool as module
from tacit.simulation.ray.identity import identity
from tacit.simulation.ray.pieces import Piece
from tacit.simulation.ray.pool import RayPool
from tacit.simulation.ray.worker import About, Done, PieceTask

exceptions = pytest.importorskip("ray").exceptions


@dataclass
class Node:
    """A machine with some shards (None: users do not lie in shards) and room for so many workers."""

    room: int
    shards: frozenset[int] | None = None
    workers: int = 0
    name: str = field(default_factory=lambda: os.urandom(28).hex())  # as Ray names them


@dataclass
class Actor:
    """A worker on a node. `told` are the numbers of the tasks that it was given."""

    node: Node | None = None
    dead: bool = False
    prepared: bool = False
    told: list[int] = field(default_factory=list)


class MadeUpRay:
    """As much of Ray as the pool uses. `trains(actor, task)` returns the result, or raises; whoever raises Killed is lost.

    Whoever is on a node that is gone is lost, too. What `late` says of an actor and of what it was asked for ("prepare", or the
    number of a task) has not come yet.
    """

    exceptions = exceptions

    def __init__(self, nodes: list[Node], trains: Callable[[Actor, PieceTask], Any]) -> None:
        self.nodes, self.trains = nodes, trains
        self.actors: list[Actor] = []
        self.waiting: list[tuple[Actor, Any]] = []
        self.turn = 0
        self.late: Callable[[Actor, str | int], bool] = lambda actor, what: False

    def remote(self, _: Any) -> Any:
        return SimpleNamespace(
            options=lambda **given: SimpleNamespace(remote=lambda **_: self._actor(given["scheduling_strategy"]))
        )

    def _actor(self, where: Any) -> Any:
        actor = Actor()
        self.actors.append(actor)
        self.waiting.append((actor, getattr(where, "node_id", None)))

        def about() -> Callable[[], About]:
            return lambda: About("host", actor.node.name, len(self.actors), identity(), "cpu", 1, None)  # type: ignore[union-attr]

        def prepare(_: Any) -> Asked:
            actor.prepared = True
            return Asked(actor, lambda: actor.node.shards, "prepare")  # type: ignore[union-attr]

        def do(task: PieceTask, _: Any) -> Asked:
            actor.told.append(task.number)
            return Asked(actor, lambda: self.trains(actor, task), task.number)

        methods = {name: SimpleNamespace(remote=call) for name, call in (("prepare", prepare), ("do", do))}
        ask = SimpleNamespace(remote=lambda: Asked(actor, about()))
        return SimpleNamespace(actor=actor, about=ask, **methods)

    def _place(self) -> None:
        """Workers come up where there is room: on the node that was asked for if it is there, else on the next one in turn."""
        for actor, wanted in list(self.waiting):
            there = [node for node in self.nodes if node.name == wanted] or [*self.nodes[self.turn :], *self.nodes]
            node = next((node for node in there if node.room > node.workers), None)
            if node is not None:
                actor.node, node.workers = node, node.workers + 1
                self.turn = (self.nodes.index(node) + 1) % len(self.nodes)
                self.waiting.remove((actor, wanted))

    def wait(self, refs: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        self._place()
        ready = [ref for ref in refs if ref.actor.node is not None and not self.late(ref.actor, ref.what)]
        return ready[:1], [ref for ref in refs if ref not in ready[:1]]

    def put(self, value: Any) -> Any:
        return value

    def get(self, ref: Any, timeout: float | None = None) -> Any:
        if ref.actor.node not in self.nodes:
            raise exceptions.ActorDiedError()
        if timeout is not None and self.late(ref.actor, ref.what):
            raise exceptions.GetTimeoutError()
        try:
            return ref()
        except Killed:
            raise exceptions.ActorDiedError() from None

    def kill(self, worker: Any) -> None:
        if not worker.actor.dead and worker.actor.node is not None:
            worker.actor.node.workers -= 1
        worker.actor.dead = True


@dataclass(eq=False)
class Asked:
    """What a worker will say, when it has come up."""

    actor: Actor
    says: Callable[[], Any]
    what: str | int = "about"

    def __call__(self) -> Any:
        return self.says()


class Killed(Exception):
    """The worker is gone."""


def done(task: PieceTask) -> Done:
    return Done(task.number, None, np.empty(0, np.float32), np.empty(0, bool), 0.1)


def opened(ray: MadeUpRay, monkeypatch: pytest.MonkeyPatch, shards: list[int] | None = None, **given: Any) -> RayPool:
    """The pool on this Ray, ready for tasks."""
    connection = SimpleNamespace(ray=ray, close=lambda: None, room_for=lambda gpus: sum(n.room for n in ray.nodes))
    monkeypatch.setattr(module.Connection, "of", lambda settings: connection)
    monkeypatch.setattr(module, "START_S", 0.2)
    found = RayPool(Ray(**given))
    found.open()
    found.prepare(None, shards or [])  # type: ignore[arg-type]
    return found


def tasks(*shards: int | None) -> list[PieceTask]:
    return [PieceTask("m", Piece(n, np.array([n]), 1.0, n, shard), None) for n, shard in enumerate(shards)]


def numbers(pool: RayPool, given: list[PieceTask]) -> list[int]:
    return sorted(each.number for each in pool.do(given, lambda: None))


def test_a_piece_goes_to_a_worker_that_has_its_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [Node(1, frozenset({0, 1})), Node(1, frozenset({1, 2}))]
    ray = MadeUpRay(nodes, lambda actor, task: done(task))
    pool = opened(ray, monkeypatch, [0, 1, 2])
    shards = [0, 0, 0, 0, 2, 1, 2, 0, None, 1]
    assert numbers(pool, tasks(*shards)) == list(range(10))
    for actor in ray.actors:
        assert {shards[number] for number in actor.told} <= {*actor.node.shards, None}  # type: ignore[union-attr, misc]
    assert Counter(number for actor in ray.actors for number in actor.told) == Counter(range(10))


def test_a_worker_with_a_shard_comes_back_on_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other node has room and its turn, and does not have the shard."""
    killed: list[Actor] = []

    def trains(actor: Actor, task: PieceTask) -> Done:
        if task.shard == 1 and not killed:
            killed.append(actor)
            raise Killed
        return done(task)

    nodes = [Node(9, frozenset({0})), Node(1, frozenset({1}))]
    ray = MadeUpRay(nodes, trains)
    pool = opened(ray, monkeypatch, [0, 1], workers=2)
    assert numbers(pool, tasks(0, 1, 1, 0)) == [0, 1, 2, 3]
    again = [actor for actor in ray.actors if actor.node is nodes[1]]
    assert len(again) == 2
    report = pool.report()
    assert (report.workers, report.lost) == (2, 1)


def test_a_shard_that_no_worker_has_is_told_before_the_first_round_and_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [Node(2, frozenset({0})), Node(1, frozenset({1}))]
    ray = MadeUpRay(nodes, lambda actor, task: done(task))
    with pytest.raises(WorkerError, match=r"No worker has shard 2 of the store\."):
        opened(ray, monkeypatch, [0, 1, 2])

    def gone(actor: Actor, task: PieceTask) -> Done:
        if task.shard == 1:
            if nodes[1] in ray.nodes:
                ray.nodes.remove(nodes[1])
            raise Killed
        return done(task)

    ray = MadeUpRay(list(nodes), gone)
    for node in nodes:
        node.workers = 0
    pool = opened(ray, monkeypatch, [0, 1], workers=2)
    with pytest.raises(WorkerError, match=r"No worker has shard 1 of the store\."):
        numbers(pool, tasks(0, 0, 1, 0))


def test_workers_join_and_leave_between_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = MadeUpRay([Node(1)], lambda actor, task: done(task))
    pool = opened(ray, monkeypatch)
    assert numbers(pool, tasks(*[None] * 6)) == list(range(6))
    assert pool.report().workers == 1
    ray.nodes.append(Node(2))
    assert numbers(pool, tasks(*[None] * 9)) == list(range(9))
    assert pool.report().workers == 3
    assert all(actor.told for actor in ray.actors)
    left = ray.nodes.pop()

    def trains(actor: Actor, task: PieceTask) -> Done:
        if actor.node is left:
            raise Killed
        return done(task)

    ray.trains = trains
    assert numbers(pool, tasks(*[None] * 9)) == list(range(9))
    report = pool.report()
    assert (report.workers, report.lost) == (1, 2)


def test_a_piece_that_kills_its_workers_stops_the_run_and_says_what_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a piece needs more memory than a worker has: the system kills whoever takes it."""

    def trains(actor: Actor, task: PieceTask) -> Done:
        if task.number == 2:
            raise Killed
        return done(task)

    ray = MadeUpRay([Node(2)], trains)
    pool = opened(ray, monkeypatch)
    with pytest.raises(WorkerError) as refused:
        numbers(pool, tasks(*[None] * 5))
    assert "5 workers were lost with one piece of a round: perhaps it needs more memory" in refused.value.sentence
    assert refused.value.hint is not None
    assert "Lower engine.chunk" in refused.value.hint
    assert module.MOST_LOSSES <= sum(2 in actor.told for actor in ray.actors) <= 2 * module.MOST_LOSSES


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes")])
def test_a_worker_that_says_that_memory_ran_out_is_told_in_one_sentence(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trains(actor: Actor, task: PieceTask) -> Done:
        raise exceptions.RayTaskError("do", str(error), error)

    pool = opened(MadeUpRay([Node(1)], trains), monkeypatch)
    with pytest.raises(WorkerError, match=r"^The worker host has too little memory for cpu work on a chunk of users\."):
        numbers(pool, tasks(None))


def test_a_worker_that_is_lost_while_it_gets_the_users_is_not_in_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = MadeUpRay([Node(2)], lambda actor, task: done(task))
    pool = opened(ray, monkeypatch)
    ray.nodes.append(new := Node(1))
    plain = ray.get

    def lost(ref: Any, timeout: float | None = None) -> Any:
        if ref.what == "prepare" and ref.actor.node is new:
            raise exceptions.ActorDiedError()
        return plain(ref, timeout)

    monkeypatch.setattr(ray, "get", lost)
    assert numbers(pool, tasks(*[None] * 6)) == list(range(6))
    assert (pool.report().workers, pool.report().lost) == (2, 1)


def test_nobody_waits_for_a_worker_that_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    """It copies a store, perhaps for minutes. Rounds go on without it, and it has a share of the work when it has the users."""
    ray = MadeUpRay([Node(1)], lambda actor, task: done(task))
    pool = opened(ray, monkeypatch)
    ray.nodes.append(new := Node(1))
    ray.late = lambda actor, what: actor.node is new and what == "prepare"
    for _ in range(2):
        assert numbers(pool, tasks(*[None] * 6)) == list(range(6))
        assert (pool.report().workers, pool.report().lost) == (1, 0)
    ray.late = lambda actor, what: False
    assert numbers(pool, tasks(*[None] * 6)) == list(range(6))
    assert (pool.report().workers, pool.report().lost, len(ray.actors)) == (2, 0, 2)
    assert ray.actors[1].told


def test_workers_get_the_users_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one has been asked before the first one is ready."""
    ray = MadeUpRay([Node(3)], lambda actor, task: done(task))
    ray.late = lambda actor, what: what == "prepare" and not all(each.prepared for each in ray.actors)
    assert opened(ray, monkeypatch).report().workers == 3


def test_workers_that_never_have_the_users_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = MadeUpRay([Node(2)], lambda actor, task: done(task))
    ray.late = lambda actor, what: what == "prepare"
    with pytest.raises(WorkerError, match=r"^No worker was ready to train the users within 0\.2 seconds\.") as refused:
        opened(ray, monkeypatch, give_up_s=0.1)
    assert refused.value.hint == "If workers copy a large store first, raise engine.give_up_s."


def test_workers_that_end_as_they_come_up_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that the cluster has no room, and not only after a long while."""
    ray = MadeUpRay([Node(9)], lambda actor, task: done(task))

    def lost(ref: Any, timeout: float | None = None) -> Any:
        raise exceptions.ActorDiedError()

    monkeypatch.setattr(ray, "get", lost)
    with pytest.raises(WorkerError, match=r"^Workers end before they can say that they are there\."):
        opened(ray, monkeypatch, workers=2)
    assert len(ray.actors) <= 2 * (module.MOST_LOSSES + 1)


def test_a_machine_that_is_gone_with_many_workers_does_not_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the protocol of secure sums, whose round is one piece: it would go from one lost worker to the next."""
    gone = Node(2 * module.MOST_LOSSES)
    ray = MadeUpRay([gone], lambda actor, task: done(task))
    pool = opened(ray, monkeypatch)
    ray.nodes.append(Node(1))
    assert numbers(pool, tasks(*[None] * 30)) == list(range(30))
    assert pool.report().workers == gone.room + 1
    ray.nodes.remove(gone)
    assert numbers(pool, tasks(None)) == [0]


def test_a_worker_that_was_given_up_and_answers_late_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the round in which it was given up nor in the next one."""
    slow: list[Actor] = []

    def late(actor: Actor, what: str | int) -> bool:
        if what == 1 and not slow:
            slow.append(actor)
        return bool(slow) and actor is slow[0] and not another_began()

    def another_began() -> bool:
        return any(1 in actor.told for actor in ray.actors if actor is not slow[0])

    ray = MadeUpRay([Node(3)], lambda actor, task: done(task))
    pool = opened(ray, monkeypatch, workers=2, give_up_s=0.05)
    ray.late = late
    monkeypatch.setattr(RayPool, "_stop_process", lambda self, member: None)
    found = [each.number for _ in range(2) for each in pool.do(tasks(*[None] * 6), lambda: None)]
    assert slow
    assert sum(1 in actor.told for actor in ray.actors) >= 2
    assert Counter(found) == Counter(dict.fromkeys(range(6), 2))
    assert pool.report().lost == 1


def test_a_worker_whose_result_waits_is_not_given_up_however_late_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when this process itself was held up: it then looks at one result after another."""
    ray = MadeUpRay([Node(3)], lambda actor, task: done(task))
    pool = opened(ray, monkeypatch, give_up_s=1e-9)
    monkeypatch.setattr(RayPool, "_stop_process", lambda self, member: None)
    assert numbers(pool, tasks(*[None] * 9)) == list(range(9))
    assert pool.report().lost == 0


def test_waiting_tasks_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The most expensive first, on each worker."""
    ray = MadeUpRay([Node(1, frozenset({0})), Node(1, frozenset({1}))], lambda actor, task: done(task))
    pool = opened(ray, monkeypatch, [0, 1])
    numbers(pool, tasks(0, 1, 0, 1, 0, 1, 0, 1))
    for actor in ray.actors:
        assert actor.told == sorted(actor.told)
    assert isinstance(pool._members[0].pending, deque)
