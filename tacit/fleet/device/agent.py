"""A device at work: one check-in and, if chosen, one round.

    check in ─► download, verify ─► own rules ─► batches ─► plan ─► clip ─► write down ─► send

What must survive a kill is written down before it matters: a report, and that the round is taken, before the first byte is
sent. A device that comes back sends the same bytes again while the round lasts, or drops them. It never makes a second
report for a round, because the round is taken before the first one leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from pydantic import ValidationError

from tacit.data.vocabulary import load_vocabulary
from tacit.errors import DataError, FleetError, ProtocolError
from tacit.fleet.device import examples, secure
from tacit.fleet.device.clipping import Contribution, contribution_of
from tacit.fleet.device.conditions import Conditions, FileConditions
from tacit.fleet.device.connection import FIRST_PAUSE, LONGEST_PAUSE, Connection, jittered
from tacit.fleet.device.home import Home
from tacit.fleet.device.memory import Pending
from tacit.fleet.wire.blobs import leaves_of
from tacit.fleet.wire.messages import BLOBS, CHECK_IN, ROUNDS, Answer, Assignment, CheckIn, Task, pack_report
from tacit.fleet.wire.refusals import Refusal

# A day: the longest a device stays away because the server said so. A month without an offer ends a task for the device.
LONGEST_ABSENCE, FORGOTTEN_AFTER = 86_400.0, 30 * 86_400.0
# What a device downloads at most, and the largest model or user it works on, in numbers.
MOST_TASK_BYTES, MOST_PLAN_BYTES, MOST_NUMBERS = 1 << 16, 1 << 26, 1 << 27
# Tasks that a check-in speaks of.
_MOST_NAMED = 32


class Agent:
    """Owns a home and a connection. `say` gets one sentence about each thing that happened, without anything of the user's."""

    def __init__(
        self,
        home: Home,
        connection: Connection,
        *,
        conditions: Conditions | None = None,
        say: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.home, self.connection, self.say = home, connection, say
        self.conditions = conditions or FileConditions(home.conditions_path)
        self._now = connection.now
        self._failures = 0
        self._declined: dict[str, float] = {}

    def step(self) -> float:
        """One check-in and, if chosen, one round; returns the seconds to wait before the next.

        What goes wrong in a round ends the round for this device, not the device. Refusal if the server does not know the
        device, or takes no check-in from it for another reason that time does not mend.
        """
        try:
            return self._step()
        finally:
            self.connection.close()

    def _step(self) -> float:
        self._finish_pending()
        self._delete_expired()
        if not self.conditions.met():
            self.say("Not now: the device is in use, not charging or on a metered network.")
            return jittered(LONGEST_PAUSE)
        try:
            answer = self._check_in()
        except FleetError as error:
            if isinstance(error, Refusal) and not error.again:
                raise
            self.say(error.sentence)
            self._failures += 1
            return jittered(min(FIRST_PAUSE * 2**self._failures, LONGEST_PAUSE))
        self._failures = 0
        if answer.assignment is not None:
            try:
                self._take_part(answer.assignment)
            except (FleetError, ProtocolError, DataError) as error:
                self._declined[answer.assignment.task] = self._now() + LONGEST_PAUSE
                self.say(f"Left round {answer.assignment.round}. {error.sentence}")
        return min(answer.come_back_s, LONGEST_ABSENCE)

    def _check_in(self) -> Answer:
        now = self._now()
        declined = [name for name, until in self._declined.items() if now < until]
        busy = list(dict.fromkeys(declined + self.home.memory.busy_with(now)))[:_MOST_NAMED]
        was_in = [(name, round) for name, round in self.home.memory.was_in() if name not in busy]
        body = CheckIn(busy_with=tuple(busy), was_in=dict(was_in[: _MOST_NAMED - len(busy)])).model_dump_json().encode()
        try:
            return Answer.model_validate_json(self.connection.ask("POST", CHECK_IN, body))
        except ValidationError:
            raise FleetError("Expected an answer to a check-in, got something else.") from None

    def _take_part(self, assignment: Assignment) -> None:
        now = self._now()
        until = now + min(assignment.seconds_left, LONGEST_ABSENCE)
        task = self._task(assignment.task, until)
        self.home.remember(self.home.memory.offered(assignment.task, task, now))
        self.home.memory.require_free(assignment, now)
        contribution = self._work(task, assignment, until)
        if not self.conditions.met():
            raise FleetError("Expected a device that is still idle, charging and unmetered, got one in use.")
        if self._now() >= until:
            raise FleetError("Expected to be ready before the round's time is over, was later.")
        if task.secagg is not None:
            secure.take_part(
                self.connection,
                task,
                assignment,
                secure.integers_of(contribution, task.secagg, assignment),
                identity=self.home.identity,
                assumptions=self.home.config.secagg,
                until=until,
                before_sending=lambda: self._count(assignment, None),
            )
            self.say(f"Took part in round {assignment.round} of {task.name}, under masks.")
            return
        pending = Pending(
            round_id=assignment.round_id, upload_to=self.connection.permitted(assignment.upload_to), until=until
        )
        update = contribution.update.astype(np.float32)
        report = pack_report(assignment.round_id, contribution.weight, contribution.within, update)
        self.home.keep_report(report)
        self._count(assignment, pending)
        if self._deliver(pending, report):
            self.say(f"Took part in round {assignment.round} of {task.name}.")

    def _work(self, task: Task, assignment: Assignment, until: float) -> Contribution:
        """What this device's own text makes of the model: from here on it is clipped.

        A device without sentences downloads and runs the plan like any other, for no steps: its update is zero and its weight
        is 0. To leave the round would let what its user wrote decide who is in it.
        """
        from tacit.fleet.device.plans import run_plan  # JAX, and only once there is work

        self._blob(task.vocabulary, MOST_PLAN_BYTES, until)
        words = load_vocabulary(self.home.blob_path(task.vocabulary))
        batches = examples.batches_of(examples.load(self.home.examples_path), words, task)
        plan = self._blob(task.plan, MOST_PLAN_BYTES, until)
        room = 4 * sum(map(math.prod, task.model_shapes)) + MOST_TASK_BYTES
        model = leaves_of(self._blob(assignment.checkpoint, room, until), task.model_shapes)
        update = run_plan(plan, task, model, batches, clip_norm=assignment.clip_norm)
        return contribution_of(
            update, batches.predictions, task, clip_norm=assignment.clip_norm, threshold=assignment.threshold
        )

    def _count(self, assignment: Assignment, pending: Pending | None) -> None:
        """From here on the round is taken, whatever becomes of it."""
        self.home.remember(self.home.memory.taking_part(assignment, self._now(), pending))

    def _finish_pending(self) -> None:
        """Send again what was written down before a kill, while its round lasts."""
        pending, report = self.home.memory.pending, self.home.report()
        if pending is not None and report is not None and self._now() < pending.until:
            self._deliver(pending, report)
        elif pending is not None or report is not None:
            self._forget_report()

    def _deliver(self, pending: Pending, report: bytes) -> bool:
        """Whether the server said that it has the report. Once there is an answer, it is never sent again."""
        path = f"{ROUNDS}/{pending.round_id}/report"
        try:
            self.connection.insist("PUT", path, report, until=pending.until, at=pending.upload_to)
            taken = True
        except FleetError as error:
            self.say(f"The report was not taken. {error.sentence}")
            taken = False
        self._forget_report()
        return taken

    def _forget_report(self) -> None:
        self.home.remember(self.home.memory.model_copy(update={"pending": None}))
        self.home.drop_report()

    def _task(self, name: str, until: float) -> Task:
        try:
            task = Task.model_validate_json(self._blob(name, MOST_TASK_BYTES, until))
        except ValidationError:
            raise FleetError("Expected the description of a task, got something else.") from None
        shapes = [*task.model_shapes, *task.update_shapes, (task.steps, task.batch_size, task.length + 1)]
        if any(size < 1 for shape in shapes for size in shape) or sum(map(math.prod, shapes)) > MOST_NUMBERS:
            raise FleetError(f"Expected a task of at most {MOST_NUMBERS} numbers, got a larger one.")
        if task.secagg is not None and task.secagg.dimension != task.dimension:
            raise FleetError("Expected an encoding of the task's own updates, got one of another size.")
        return task

    def _blob(self, sha256: str, most: int, until: float) -> bytes:
        found = self.home.blob(sha256)
        if found is None:
            found = self.connection.insist("GET", f"{BLOBS}/{sha256}", until=until, most=most)
            self.home.keep_blob(sha256, found)
        return found

    def _delete_expired(self) -> None:
        """Keep downloads of tasks that may come again; checkpoints are of one round."""
        now = self._now()
        live = [task for task in self.home.memory.tasks.values() if not task.is_over]
        self.home.drop_blobs(but=[blob for task in live if now < task.seen_at + FORGOTTEN_AFTER for blob in task.blobs])
