"""The workers of a run: who has which piece, who was lost, who is slow.

**Exactly once.** A piece is done when its result has arrived here, whole. If its worker is lost before (killed, its node gone,
out of memory, or silent for longer than `give_up_s`), the result is gone or is never looked at, and the piece goes to another
worker. Results are kept by the number of the piece, so no piece is counted twice and none is left out. A piece computed again
gives the same sums: it depends on the broadcast model, its users and the round's secrets alone.

**Lost workers are replaced** while the cluster has room; until then the others do the work. Where the number of workers is not
fixed, those for whom room has come join between rounds. Nobody waits for a worker that joins: it is in the pool once it has the
users. A piece that has lost `MOST_LOSSES` workers stops the run: whatever kills them would kill the next one. Nothing was
released for the round, and the run can be resumed. A lost piece goes to a worker that answers, so that the workers of a machine
that is gone are not counted one after another.

**Where the users' text lies in shards**, a piece goes to a worker that has its shard. Workers are spread over the nodes, and a
lost worker is replaced on its node if that is still there. A shard that no worker has stops the run.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tacit.errors import WorkerError
from tacit.recipe.engine import Ray
from tacit.runs.callbacks import WorkersReport
from tacit.simulation.ray.connection import Connection
from tacit.simulation.ray.identity import identity
from tacit.simulation.ray.mistakes import mistake_in, of_the_users, of_the_work
from tacit.simulation.ray.worker import About, Done, Measure, Measured, Packed, PieceTask, UsersSide, Worker, in_numpy

# How many pieces a worker has at a time: one trains, the users of the other are gathered.
AT_A_TIME = 2
MOST_LOSSES = 5
# How long the first worker of a run may take to come up, and a replacement where no worker is left.
START_S = 300.0
# How long a run waits for the others when the first has come; they join later.
OTHERS_S = 60.0
# How long a worker may take to say that it is there, before it is taken to be busy.
ANSWER_S = 10.0
_POLL_S = 0.5
# A worker is slow if it needs so many times as long as the median worker for the same predicted cost.
SLOW = 1.5


class Pool(Protocol):
    """Something that does tasks: the workers of Ray, or one in this process."""

    def open(self) -> list[About]:
        """Start the workers; what they run on. Calling it again does nothing."""

    def prepare(self, side: UsersSide, shards: Sequence[int] = ()) -> None:
        """Give every worker, now or later, what it needs; WorkerError if one of these shards is nowhere."""

    def broadcast(self, model: Any) -> Callable[[], Any]:
        """Lay a model where workers can fetch it."""

    def do(self, tasks: Sequence[PieceTask | Measure], fetch: Callable[[], Any]) -> Iterator[Done | Measured]:
        """The results of these tasks, as they come."""

    def report(self) -> WorkersReport | None:
        """How the workers do."""

    def close(self) -> None:
        """Stop the workers."""


@dataclass(frozen=True)
class Fetch:
    """Fetches an object of the cluster's shared memory, in the process that calls it."""

    holder: list[Any]  # in a list, so that Ray passes the reference and not the object

    def __call__(self) -> Any:
        import ray

        return ray.get(self.holder[0])


@dataclass
class Member:
    """A worker in the pool. `pending` are its tasks, the oldest first; `since` is when it last began one.

    `shards` are those that it has; None: users do not lie in shards.
    """

    actor: Any
    about: About
    shards: frozenset[int] | None = None
    pending: deque[Any] = field(default_factory=deque)
    since: float = 0.0
    done: int = 0
    seconds_a_cost: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.about.host}:{self.about.pid}"

    def has(self, shard: int | None) -> bool:
        """Whether it can train users of this shard."""
        return shard is None or self.shards is None or shard in self.shards


@dataclass(frozen=True)
class Coming:
    """A worker that was asked for. `member` is None until it has said what it runs; from `since` on it gets the users."""

    actor: Any
    member: Member | None = None
    since: float = 0.0


class RayPool:
    """Workers that are Ray actors."""

    def __init__(self, settings: Ray) -> None:
        self._settings = settings
        self._connection: Connection | None = None
        self._members: list[Member] = []
        self._coming: dict[Any, Coming] = {}  # by what a new actor says next: what it runs, then which shards it has
        self._side: list[Any] | None = None
        self._lost = 0

    # Beginning and end.

    def open(self) -> list[About]:
        """Connect, start the workers, and check that they run this process's code."""
        if self._connection is None:
            self._connection = Connection.of(self._settings)
            wanted = self._wanted()
            if wanted < 1 or self._never():
                gpus = self._settings.gpus_per_worker
                what = f"{gpus:g} {'GPUs' if gpus > 1 else 'GPU'}" if gpus else "a CPU core"
                self.close()
                raise WorkerError(
                    f"The Ray cluster has no room for a worker with {what}.",
                    hint="`ray status` shows what the cluster has."
                    if self._settings.address is not None
                    else "Without gpus_per_worker, this machine's cores train.",
                )
            try:
                self._call_for(wanted)
                self._await_members(wanted if self._settings.workers is None else 1)
            except BaseException:
                self.close()
                raise
        return [member.about for member in self._members]

    def prepare(self, side: UsersSide, shards: Sequence[int] = ()) -> None:
        """Send the users' side, once; what a worker finds wrong with it is raised here, and a shard that no worker has."""
        self._side = [self._ray.put(Packed.of(side))]
        members, self._members = self._members, []
        asked = [self._introduce(member) for member in members]
        while any(ref in self._coming for ref in asked):
            self._take_in()
        if not self._members:
            raise WorkerError(
                f"No worker was ready to train the users within {self._patience:g} seconds.",
                hint="If workers copy a large store first, raise engine.give_up_s.",
            )
        for shard in shards:
            self._await_shard(shard)

    def close(self) -> None:
        """Stop the workers, and a Ray that was started for them."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        for actor in [*(member.actor for member in self._members), *(each.actor for each in self._coming.values())]:
            with suppress(Exception):
                connection.ray.kill(actor)
        self._members, self._coming, self._side = [], {}, None
        connection.close()

    # A round.

    def broadcast(self, model: Any) -> Fetch:
        """The model in the cluster's shared memory: each node fetches it once, each worker reads it once."""
        return Fetch([self._ray.put(in_numpy(model))])

    def do(self, tasks: Sequence[PieceTask | Measure], fetch: Callable[[], Any]) -> Iterator[Done | Measured]:
        """The results of these tasks, as they come; WorkerError if they cannot be done."""
        self._grow()
        waiting, losses = deque(tasks), Counter[int]()
        by_ref: dict[Any, tuple[Member, PieceTask | Measure]] = {}
        while waiting or by_ref:
            self._hand_out(waiting, by_ref, fetch, losses)
            ready, _ = self._ray.wait([*self._coming, *by_ref], timeout=_POLL_S) if by_ref or self._coming else ([], [])
            for ref in ready:
                if ref in self._coming:
                    self._welcome(ref)
                    continue
                if ref not in by_ref:  # of a worker that was lost a moment ago
                    continue
                member, task = by_ref[ref]
                done = self._result(ref, member)
                if done is None:
                    self._lose(member, by_ref, waiting, losses)
                    continue
                del by_ref[ref]
                member.pending.remove(ref)
                member.since = time.monotonic()
                self._note_speed(member, done, task)
                yield done
            for member in self._silent():
                self._stop_process(member)
                self._lose(member, by_ref, waiting, losses)
            self._give_up_newcomers()

    # Who there is.

    def report(self) -> WorkersReport:
        """How many workers there are, how many were lost, and who is slow, the slowest first."""
        paces = sorted((each.seconds_a_cost, each.name) for each in self._members if each.seconds_a_cost > 0)
        median = paces[(len(paces) - 1) // 2][0] if paces else 0.0
        slow = [name for pace, name in reversed(paces) if pace >= SLOW * median]
        return WorkersReport(len(self._members), self._lost, tuple(slow))

    @property
    def _ray(self) -> Any:
        assert self._connection is not None, "the pool is open"
        return self._connection.ray

    def _wanted(self) -> int:
        assert self._connection is not None
        return self._settings.workers or self._connection.room_for(self._settings.gpus_per_worker)

    def _never(self) -> bool:
        """Whether no worker can come: on a Ray of our own no machines join."""
        assert self._connection is not None
        return self._settings.address is None and self._connection.room_for(self._settings.gpus_per_worker) < 1

    @property
    def _patience(self) -> float:
        """How long a worker may take until it can train the users: it may have to copy a store first."""
        return max(START_S, self._settings.give_up_s)

    def _call_for(self, count: int, *, near: Member | None = None) -> None:
        """Ask the cluster for so many more workers, on the node of another one if it is there; they come when there is room."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        gpus = self._settings.gpus_per_worker
        where = "SPREAD" if near is None else NodeAffinitySchedulingStrategy(near.about.node, soft=True)
        remote = self._ray.remote(Worker).options(
            num_cpus=1,
            num_gpus=gpus,
            max_concurrency=AT_A_TIME + 1,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=where,
        )
        for _ in range(count):
            actor = remote.remote(gpu=gpus > 0)
            self._coming[actor.about.remote()] = Coming(actor)

    def _await_members(self, enough: int) -> None:
        """Wait until so many workers are there, and not long for those after the first."""
        until, called = time.monotonic() + START_S, 0
        while len(self._members) < enough:
            if not self._coming:
                called += 1
                if called > MOST_LOSSES and not self._members:
                    raise WorkerError(
                        "Workers end before they can say that they are there.",
                        hint="The files worker-*.err in /tmp/ray/session_latest/logs, on their machines, say why.",
                    )
                self._call_for(enough - len(self._members))
            before = len(self._members)
            came = self._take_in()
            if not before and self._members:
                until = time.monotonic() + OTHERS_S
            if not came and time.monotonic() > until:
                if self._members:
                    return
                if self._getting_users():
                    continue
                raise WorkerError(
                    f"No worker came up within {START_S:.0f} seconds: the Ray cluster has no room for one.",
                    hint="`ray status` shows what is free.",
                )

    def _await_shard(self, shard: int | None) -> None:
        """Wait until a worker has this shard; WorkerError if none will."""
        until = time.monotonic() + START_S
        while not any(member.has(shard) for member in self._members):
            if not self._coming or (time.monotonic() > until and not self._getting_users()):
                raise WorkerError(
                    f"No worker has shard {shard} of the store.",
                    hint=f"Copy shard-{shard} to a machine of the cluster, under the path of the store, with a worker on it.",
                )
            self._take_in()

    def _take_in(self) -> bool:
        """Hear of workers that are on their way; whether there was news."""
        ready = self._ray.wait(list(self._coming), timeout=_POLL_S)[0]
        for ref in ready:
            self._welcome(ref)
        self._give_up_newcomers()
        return bool(ready)

    def _welcome(self, ref: Any) -> None:
        """A worker that is on its way has said something: what it runs, and later which shards it has."""
        coming = self._coming.pop(ref)
        if coming.member is None:
            if (member := self._checked(ref, coming.actor)) is None:
                return  # it died before it was there; another one is asked for between rounds
            if self._side is None:
                self._members.append(member)
            else:
                self._introduce(member)
            return
        member = coming.member
        try:
            member.shards = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:  # the worker is there, and says what is wrong
            raise of_the_users(error, member.about) from error
        except self._ray.exceptions.RayError:
            self._forget(member)
            return
        member.since = time.monotonic()
        self._members.append(member)

    def _checked(self, ref: Any, actor: Any) -> Member | None:
        """A new worker, if it is there; WorkerError if it does not run this process's code."""
        try:
            about: About = self._ray.get(ref)
        except Exception as error:
            found = mistake_in(error)
            if found is not None:
                raise found from None
            at_first = self._side is None
            if at_first and isinstance(error, self._ray.exceptions.ActorDiedError) and "__init__" in str(error):
                raise WorkerError(
                    "A worker did not start: Tacit cannot be imported there.",
                    hint="pip install 'tacit[ray]' on every node.",
                ) from error
            return None
        if (difference := identity().difference(about.identity)) is not None:
            package, here, there = difference
            raise WorkerError(
                f"Expected {package} {here} on the worker {about.host}, as on this machine, got {there}.",
                hint="All machines of a run need the same packages.",
            )
        return Member(actor, about, since=time.monotonic())

    def _introduce(self, member: Member) -> Any:
        """Begin to give a worker the users' side; it is in the pool when it has it."""
        assert self._side is not None
        ref = member.actor.prepare.remote(self._side[0])
        self._coming[ref] = Coming(member.actor, member, time.monotonic())
        return ref

    def _getting_users(self) -> bool:
        """Whether a worker is there and is getting the users."""
        return any(each.member is not None for each in self._coming.values())

    def _give_up_newcomers(self) -> None:
        """Take out the workers that have been getting the users for too long."""
        now = time.monotonic()
        for ref, each in list(self._coming.items()):
            if each.member is not None and now - each.since > self._patience:
                del self._coming[ref]
                self._forget(each.member)

    def _grow(self) -> None:
        """Between rounds: replace those who were lost, and take those in for whom room has come."""
        missing = self._wanted() - len(self._members) - len(self._coming)
        if missing > 0:
            self._call_for(missing)

    # What happens to a piece.

    def _hand_out(
        self,
        waiting: deque[PieceTask | Measure],
        by_ref: dict[Any, tuple[Member, PieceTask | Measure]],
        fetch: Callable[[], Any],
        losses: Counter[int],
    ) -> None:
        """Give waiting tasks to the workers with the fewest; wait for a worker where there is none for a task."""
        left: list[PieceTask | Measure] = []
        while waiting:
            task = waiting.popleft()
            if not self._members:
                self._await_members(1)
            self._await_shard(task.shard)
            member = min((each for each in self._members if each.has(task.shard)), key=lambda each: len(each.pending))
            if len(member.pending) >= AT_A_TIME:
                left.append(task)
                if task.shard is None:
                    break
                continue
            if losses[task.number] and not self._answers(member):
                waiting.appendleft(task)
                self._lose(member, by_ref, waiting, losses)
                continue
            if not member.pending:
                member.since = time.monotonic()
            ref = member.actor.do.remote(task, fetch)
            member.pending.append(ref)
            by_ref[ref] = member, task
        waiting.extendleft(reversed(left))

    def _answers(self, member: Member) -> bool:
        """Whether a worker is still there; one that does not answer soon is busy."""
        errors = self._ray.exceptions
        try:
            self._ray.get(member.actor.about.remote(), timeout=ANSWER_S)
        except errors.GetTimeoutError:
            return True
        except errors.RayError:
            return False
        return True

    def _result(self, ref: Any, member: Member) -> Done | Measured | None:
        """The result, or None if the worker was lost; an error of the work itself is raised."""
        errors = self._ray.exceptions
        try:
            done: Done | Measured = self._ray.get(ref)
        except errors.RayTaskError as error:
            raise of_the_work(error, member.about) from error
        except errors.RayError:
            return None
        return done

    def _lose(
        self,
        member: Member,
        by_ref: dict[Any, tuple[Member, PieceTask | Measure]],
        waiting: deque[PieceTask | Measure],
        losses: Counter[int],
    ) -> None:
        """Take a lost worker out, and its tasks back; the one that it was working on counts as a loss of that piece."""
        for place, ref in enumerate(list(member.pending)):
            _, task = by_ref.pop(ref)
            waiting.appendleft(task)
            if place == 0:
                losses[task.number] += 1
                if losses[task.number] >= MOST_LOSSES:
                    raise WorkerError(
                        f"{MOST_LOSSES} workers were lost with one piece of a round: perhaps it needs more memory than a "
                        f"worker has, or more than {self._settings.give_up_s:g} seconds.",
                        hint="Lower engine.chunk, raise engine.pieces or engine.give_up_s, then resume the run.",
                    )
        member.pending.clear()
        self._forget(member)
        self._call_for(1, near=member if member.shards is not None else None)

    def _forget(self, member: Member) -> None:
        self._lost += 1
        if member in self._members:
            self._members.remove(member)
        with suppress(Exception):
            self._ray.kill(member.actor)

    def _stop_process(self, member: Member) -> None:
        """Have a worker that does not answer killed by its node, so that its place is free for another one."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(member.about.node, soft=False)
        with suppress(Exception):
            kill = self._ray.remote(_kill).options(num_cpus=0, scheduling_strategy=there, max_retries=0)
            kill.remote(member.about.pid)

    def _silent(self) -> list[Member]:
        """The workers who have had a piece for longer than they may, and of whom no result waits to be looked at."""
        now = time.monotonic()
        late = [each for each in self._members if each.pending and now - each.since > self._settings.give_up_s]
        return [each for each in late if not self._ray.wait(list(each.pending), timeout=0)[0]]

    def _note_speed(self, member: Member, done: Done | Measured, task: PieceTask | Measure) -> None:
        """A running mean of a worker's seconds by cost; its first piece is left out, since it compiles."""
        member.done += 1
        if member.done > 1 and task.cost:
            now = done.seconds / task.cost
            member.seconds_a_cost = now if member.seconds_a_cost == 0 else 0.8 * member.seconds_a_cost + 0.2 * now


def _kill(pid: int) -> None:
    """Kill a worker; whatever else has its number by now is left alone."""
    with suppress(OSError):
        if sys.platform != "linux" or Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::"):
            os.kill(pid, signal.SIGKILL)
