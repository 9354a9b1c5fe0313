"""A device at work: one check-in and, if the device is selected, one round.

    check in ─► log, receipts ─► download, verify ─► check own limits ─► batches ─► run the plan ─► clip ─► save ─► send

The report, and the fact that the device takes part in the round, are on disk before the first byte is sent. After a kill the
device sends the same bytes again while the round lasts, or deletes them. It never makes a second report for a round, because
the round counts before the first report is sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from pydantic import ValidationError

from tacit.data.vocabulary import load_vocabulary
from tacit.errors import DataError, FleetError, ProtocolError
from tacit.fleet.device import account, examples, public_log, receipts, secure_aggregation, stated_noise
from tacit.fleet.device.backoff import LONGEST_PAUSE_S, jittered, pause_after
from tacit.fleet.device.cage import CageLimits, run_in_cage
from tacit.fleet.device.clipping import Contribution, contribution_of
from tacit.fleet.device.conditions import Conditions, FileConditions
from tacit.fleet.device.connection import Connection
from tacit.fleet.device.home import Home
from tacit.fleet.device.log_memory import LogMemory
from tacit.fleet.device.memory import Pending
from tacit.fleet.device.policy import OwnerPolicy
from tacit.fleet.device.spending import require_affordable, rho_of_round
from tacit.fleet.device.terms import PolicyRefusal, noise_of, require_permitted
from tacit.fleet.wire.blobs import leaves_of, sha256_of
from tacit.fleet.wire.messages import BLOBS, CHECK_IN, ROUNDS, Assignment, CheckInAnswer, CheckInRequest
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.reports import pack_report
from tacit.fleet.wire.task import DeviceTask
from tacit.secagg.session import Session

# The longest time that a device waits because the server says so (a day), and how long it keeps the downloads of a task that it
# is not offered again (a month).
LONGEST_WAIT_S, KEEP_DOWNLOADS_S = 86_400.0, 30 * 86_400.0
# The largest downloads, and the most entries that a task's arrays may have together.
MOST_TASK_BYTES, MOST_PLAN_BYTES, MOST_ENTRIES = 1 << 16, 1 << 26, 1 << 27
# The most tasks that a check-in names, and the most receipts that are checked before a round.
_MOST_NAMED, _MOST_CHECKED = 32, 4


class Agent:
    """Owns a home and a connection. `on_event` gets one sentence about each event, without any of the user's data."""

    def __init__(
        self,
        home: Home,
        connection: Connection,
        *,
        conditions: Conditions | None = None,
        on_event: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.home, self.connection, self.on_event = home, connection, on_event
        self.conditions = conditions or FileConditions(home.conditions_path)
        self._now = connection.now
        self._failures = 0
        self._declined: dict[str, float] = {}

    def step(self) -> float:
        """One check-in and, if the device is selected, one round; returns the seconds to wait before the next check-in.

        After an error in a round the device leaves the round and goes on. Refusal if the server does not know the device, or
        refuses its check-in for another reason that waiting does not change.
        """
        try:
            return self._step()
        finally:
            self.connection.close()

    def _step(self) -> float:
        self._finish_pending()
        self._delete_expired()
        if not self.conditions.met():
            self.on_event("Waiting: the device is in use, not charging or on a metered network.")
            return jittered(LONGEST_PAUSE_S)
        try:
            answer = self._check_in()
            if answer.uncounted:
                self._list_uncounted(answer.uncounted)
                self.home.remember(self.home.memory.without(answer.uncounted))
                if answer.assignment is None:  # perhaps only because of them
                    answer = self._check_in()
        except FleetError as error:
            if isinstance(error, Refusal) and not error.again:
                raise
            self.on_event(error.sentence)
            self._failures += 1
            return pause_after(self._failures)
        self._failures = 0
        if answer.assignment is not None:
            try:
                self._take_part(answer.assignment)
            except (FleetError, ProtocolError, DataError) as error:
                if isinstance(error, (PolicyRefusal, ProtocolError)):
                    self.home.remember(self.home.memory.objecting(error.sentence, self._now()))
                self._declined[answer.assignment.task] = self._now() + LONGEST_PAUSE_S
                self.on_event(f"Left round {answer.assignment.round}. {error.sentence}")
        return min(answer.come_back_s, LONGEST_WAIT_S)

    def _check_in(self) -> CheckInAnswer:
        now = self._now()
        declined = [name for name, until in self._declined.items() if now < until]
        busy = list(dict.fromkeys(declined + self.home.memory.busy_with(now)))[:_MOST_NAMED]
        was_in = [(name, round) for name, round in self.home.memory.was_in() if name not in busy]
        request = CheckInRequest(
            busy_with=tuple(busy),
            was_in=dict(was_in[: _MOST_NAMED - len(busy)]),
            sent=self.home.memory.asked(),
        )
        body = request.model_dump_json().encode()
        try:
            return CheckInAnswer.model_validate_json(self.connection.ask("POST", CHECK_IN, body))
        except ValidationError:
            raise FleetError("The server's answer to the check-in is not valid.") from None

    def _take_part(self, assignment: Assignment) -> None:
        now = self._now()
        until = now + min(assignment.seconds_left, LONGEST_WAIT_S)
        policy = self.home.policy
        self.home.memory.require_whole()
        self.home.remember(self.home.memory.under(policy))
        log = public_log.followed(self.connection, self.home.memory.log, policy)
        self._keep_log(log)
        listed = self.home.account_path
        receipts.check_all(self.connection, log, listed, now=now, most=_MOST_CHECKED, issue=policy.issue)
        task = self._task(assignment.task, until)
        self._keep_log(public_log.with_task(self.connection, log, assignment.task, task))
        require_permitted(policy, task, assignment)
        self._require_known_plan(task, policy)
        self.home.remember(self.home.memory.offered(assignment.task, task, now, most_tasks=policy.most_tasks))
        self.home.memory.server.require_free(assignment.round_id, now, policy)
        self.home.memory.require_free(assignment, now)
        if policy.largest_epsilon is not None and (task.secagg is None or task.secagg.local_variance == 0):
            raise PolicyRefusal(
                "The owner's policy limits ε, and the device can compute none of noise that the server adds."
            )
        stated_noise.require_affordable(self.home.memory, assignment.task, policy)
        contribution = self._work(task, assignment, until, policy)
        if not self.conditions.met():
            raise FleetError("The device is no longer idle, charging and on an unmetered network.")
        if self._now() >= until:
            raise FleetError("The work took longer than the round lasts.")
        if task.secagg is not None:

            def cost(session: Session) -> float:
                bit = assignment.threshold is not None
                return rho_of_round(task, session, bit=bit, corruption=policy.secagg.corruption)

            values = secure_aggregation.integers_of(contribution, task.secagg, assignment)

            def count(session: Session, body: bytes) -> None:
                self._list(task, assignment, until, body, numbers=len(values), rho=cost(session))
                self._count(assignment, None, cost(session))

            secure_aggregation.take_part(
                self.connection,
                task,
                assignment,
                values,
                identity=self.home.identity,
                certificate=self.home.certificate,
                assumptions=policy.secagg,
                until=until,
                on_session=lambda session: self._begin(session, assignment.task, policy, cost(session)),
                before_sending=count,
                after_sending=lambda answer: self._keep_receipt(assignment.round_id, answer),
            )
            self.on_event(f"Took part in round {assignment.round} of {task.name}, with secure aggregation.")
            return
        pending = Pending(
            round_id=assignment.round_id, upload_to=self.connection.permitted(assignment.upload_to), until=until
        )
        update = contribution.update.astype(np.float32)
        report = pack_report(assignment.round_id, contribution.weight, contribution.within, update)
        self.home.keep_report(report)
        self._list(task, assignment, until, report, numbers=len(update))
        self._count(assignment, pending)
        if self._deliver(pending, report):
            self.on_event(f"Took part in round {assignment.round} of {task.name}.")

    def _require_known_plan(self, task: DeviceTask, policy: OwnerPolicy) -> None:
        registry = self.home.registry(policy)
        if registry is not None and not registry.has(task.plan, task.kind):
            raise PolicyRefusal(
                f"The plan {task.plan[:16]}… is not in the owner's registry of plans for {task.kind!r}."
            )

    def _begin(self, session: Session, task: str, policy: OwnerPolicy, cost: float) -> None:
        """Write down that a session begins, before anything of it is sent, so that no session is ever begun twice."""
        spent = self.home.memory.proven_rho
        require_affordable(spent, cost, most=policy.largest_epsilon, delta=policy.delta)
        stated_noise.require_affordable(self.home.memory, task, policy, cost)
        self.home.remember(self.home.memory.begins(session.session_id.hex()))

    def _work(self, task: DeviceTask, assignment: Assignment, until: float, policy: OwnerPolicy) -> Contribution:
        """This device's contribution: the update that its text makes to the model, clipped.

        A device without sentences downloads and runs the plan like any other, for no steps: its update is zero and its weight
        is 0. If it left the round instead, what its user wrote would decide who takes part.
        """
        self._blob(task.vocabulary, MOST_PLAN_BYTES, until)
        words = load_vocabulary(self.home.blob_path(task.vocabulary))
        batches = examples.batches_of(examples.load(self.home.examples_path), words, task)
        plan = self._blob(task.plan, MOST_PLAN_BYTES, until)
        room = 4 * sum(map(math.prod, task.model_shapes)) + MOST_TASK_BYTES
        model = leaves_of(self._blob(assignment.checkpoint, room, until), task.model_shapes)
        limits = CageLimits(
            seconds=policy.plan_seconds,
            memory_bytes=policy.plan_memory_mb << 20,
            closed=policy.cage == "closed",
        )
        left = max(until - self._now(), 1.0)
        update = run_in_cage(plan, task, model, batches, clip_norm=assignment.clip_norm, limits=limits, seconds=left)
        return contribution_of(
            update, batches.predictions, task, clip_norm=assignment.clip_norm, threshold=assignment.threshold
        )

    def _keep_log(self, log: LogMemory) -> None:
        if log != self.home.memory.log:
            self.home.remember(self.home.memory.model_copy(update={"log": log}))

    def _list(
        self,
        task: DeviceTask,
        assignment: Assignment,
        until: float,
        body: bytes,
        *,
        numbers: int,
        rho: float = math.inf,
    ) -> None:
        """Write into the account what is about to be sent, and on which terms."""
        sending = account.Sending(
            at=self._now(),
            until=until,
            issue=self.home.policy.issue,
            task=assignment.task,
            name=task.name,
            run=task.run,
            plan=task.plan,
            kind=task.kind,
            round=assignment.round,
            round_id=assignment.round_id,
            clip_norm=assignment.clip_norm,
            report_goal=task.report_goal,
            noise_multiplier=noise_of(task),
            noise_from="server" if task.secagg is None or task.secagg.local_variance == 0 else "devices",
            secure_aggregation=task.secagg is not None,
            numbers=numbers,
            size=len(body),
            body=sha256_of(body),
            rho=rho if math.isfinite(rho) else None,
        )
        account.add(self.home.account_path, sending)

    def _list_uncounted(self, round_ids: tuple[str, ...]) -> None:
        """Write down what the server says came to nothing: its log must not say otherwise."""
        for each in account.read(self.home.account_path):
            if each.sent.round_id in round_ids and not each.uncounted:
                account.add(self.home.account_path, account.Uncounted(round_id=each.sent.round_id))

    def _keep_receipt(self, round_id: str, answer: bytes) -> None:
        """Keep the receipt in the server's answer. If a server with a log gives none, the device takes part in nothing more."""
        log, mine = self.home.memory.log, [each.sent for each in account.read(self.home.account_path)]
        sent = next((each for each in reversed(mine) if each.round_id == round_id), None)
        if log.key is None or sent is None:
            return
        try:
            found = receipts.receipt_in(answer, sent, log, self.connection.device)
        except PolicyRefusal as refusal:
            account.add(self.home.account_path, account.Unsigned(round_id=round_id, why=refusal.sentence))
            self.home.remember(self.home.memory.objecting(refusal.sentence, self._now()))
            self.on_event(refusal.sentence)
            return
        account.add(self.home.account_path, account.Receipted(round_id=round_id, receipt=found))

    def _count(self, assignment: Assignment, pending: Pending | None, cost: float = math.inf) -> None:
        """Write down that the device takes part in this round, whatever happens to the report."""
        rho = cost if math.isfinite(cost) else None
        self.connection.skip()
        self.home.remember(self.home.memory.taking_part(assignment, self._now(), pending, rho))

    def _finish_pending(self) -> None:
        """Send a report that was saved before a kill, while its round lasts; delete it otherwise."""
        pending, report = self.home.memory.pending, self.home.report()
        if pending is not None and report is not None and self._now() < pending.until:
            self._deliver(pending, report)
        elif pending is not None or report is not None:
            self._delete_report()

    def _deliver(self, pending: Pending, report: bytes) -> bool:
        """Send the report; whether the server has accepted it. After any answer it is deleted, and never sent again."""
        path = f"{ROUNDS}/{pending.round_id}/report"
        try:
            answer = self.connection.insist("PUT", path, report, until=pending.until, at=pending.upload_to)
            self._keep_receipt(pending.round_id, answer)
            accepted = True
        except FleetError as error:
            self.on_event(f"The report was not accepted. {error.sentence}")
            accepted = False
        self._delete_report()
        return accepted

    def _delete_report(self) -> None:
        self.home.remember(self.home.memory.model_copy(update={"pending": None}))
        self.home.drop_report()

    def _task(self, name: str, until: float) -> DeviceTask:
        try:
            task = DeviceTask.model_validate_json(self._blob(name, MOST_TASK_BYTES, until))
        except ValidationError:
            raise FleetError("The task description is not valid.") from None
        shapes = [*task.model_shapes, *task.update_shapes, (task.steps, task.batch_size, task.length + 1)]
        if any(size < 1 for shape in shapes for size in shape) or sum(map(math.prod, shapes)) > MOST_ENTRIES:
            raise FleetError(
                f"Expected a task whose arrays have at most {MOST_ENTRIES} entries, and none that is empty."
            )
        if task.secagg is not None and task.secagg.dimension != task.dimension:
            raise FleetError(
                f"Expected an encoding of {task.dimension} entries, as the task's updates have, got {task.secagg.dimension}."
            )
        return task

    def _blob(self, sha256: str, most: int, until: float) -> bytes:
        found = self.home.blob(sha256)
        if found is None:
            found = self.connection.insist("GET", f"{BLOBS}/{sha256}", until=until, most=most)
            self.home.keep_blob(sha256, found)
        return found

    def _delete_expired(self) -> None:
        """Delete all downloads except those of tasks that may be offered again. A checkpoint serves one round only."""
        now = self._now()
        live = [task for task in self.home.memory.tasks.values() if not task.is_over]
        self.home.drop_blobs(
            but=[blob for task in live if now < task.seen_at + KEEP_DOWNLOADS_S for blob in task.blobs]
        )
