"""A run from its first record to its summary, whatever it trains: begin it, go on with it, stop it, finish it.

What is trained comes as a `Program`. A run that was stopped or killed goes on from its last checkpoint, under the plan in its
ledger's first record. The rounds since the checkpoint run again, with fresh noise, and are accounted again; a seeded run
repeats them exactly. A run that has finished can be given more rounds (`tacit.runs.extension`).
"""

from __future__ import annotations

import dataclasses
import signal
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.errors import PrivacyError, RunError
from tacit.learning.loop import TrainingState, rounds
from tacit.learning.state import from_arrays, to_arrays
from tacit.privacy.accounting.spent import cost_if_it_had_ended_here
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.log import repair_torn_tail, verified
from tacit.privacy.record.ledger import Ledger, LedgerWriter
from tacit.privacy.record.records import (
    FRESH_NOISE,
    SAME_SUM,
    SEEDED_REPLAY,
    Committed,
    Extended,
    Opened,
    Resumed,
    extended,
    to_json,
)
from tacit.runs import checkpoints
from tacit.runs.budget.reservation import Reservation
from tacit.runs.callbacks import Callback, RunEnd, notifying
from tacit.runs.cost import cost_of
from tacit.runs.extension import objection_to_extending, require_extendable
from tacit.runs.folder import RunFolder, first_difference
from tacit.runs.heads import Heads
from tacit.runs.journal import RunJournal
from tacit.runs.metrics import truncate_after
from tacit.runs.odometer import Odometer
from tacit.runs.program import Program
from tacit.runs.provenance import with_reasons

# Yields the state after each round, and returns the run's summary. Closed early, it stops the run as Ctrl-C does: the last
# round is saved, and the run can be resumed.
Rounds = Generator[TrainingState, None, dict[str, Any]]


def begin(program: Program, folder: RunFolder, callback: Callback) -> dict[str, Any]:
    """Run the program in a folder that has no ledger yet; returns the run's summary."""
    return to_the_end(first_rounds(program, folder, callback, catch_interrupt=True))


def go_on(program: Program, folder: RunFolder, callback: Callback, *, older_if_damaged: bool = False) -> dict[str, Any]:
    """Go on with a run that has begun; PrivacyError if the program is not the one it was begun with."""
    return to_the_end(
        further_rounds(program, folder, callback, older_if_damaged=older_if_damaged, catch_interrupt=True)
    )


def first_rounds(program: Program, folder: RunFolder, callback: Callback, *, catch_interrupt: bool = False) -> Rounds:
    """The rounds of a run in a folder that has no ledger yet.

    Everything in the program that its plan did not build becomes a reason in the ledger's first record: epsilon is infinite.
    """
    program = dataclasses.replace(program, opened=with_reasons(program))
    listed = _register(program, folder)
    heads = Heads(listed, folder, program.witness, program.opened)
    reservation = Reservation(folder, program.store, program.account)
    reservation.reserve(program.opened)
    ledger = folder.create_ledger(program.opened)
    try:
        reservation.again()
        program.require_same_users(folder, begun=False)
        _warn(callback, heads.record(ledger))
        return (
            yield from _rounds(program, folder, ledger, program.start, callback, heads, reservation, catch_interrupt)
        )
    finally:
        reservation.settle(ledger)
        ledger.close()


def further_rounds(
    program: Program,
    folder: RunFolder,
    callback: Callback,
    *,
    older_if_damaged: bool = False,
    catch_interrupt: bool = False,
    extend: bool = False,
) -> Rounds:
    """The rounds that are left of a run that has begun; PrivacyError if the program is not the one it was begun with.

    With `extend`, the run has finished, and the program's rounds are planned from now on: the ledger says so before the first
    of them.
    """
    program = dataclasses.replace(program, opened=with_reasons(program))
    ledger, reservation = folder.open_ledger(), None
    try:
        closed, opened = ledger.ledger.closed, ledger.ledger.opened
        if extend:
            require_extendable(ledger.ledger, folder, program.schedule.rounds)
            opened = extended(opened, program.schedule.rounds)
        elif closed is not None and closed.outcome != "stopped":
            raise RunError(
                f"The run {folder.path} has {closed.outcome}, so there is nothing to resume.",
                hint=f"To extend it: tacit train --resume {folder.path} --set run.rounds={2 * opened.rounds}"
                if closed.outcome == "finished" and objection_to_extending(opened) is None
                else None,
            )
        require_same_promise(opened, program.opened)
        program = dataclasses.replace(program, opened=opened)
        program.require_same_users(folder, begun=bool(ledger.ledger.intents))
        folder.accountable_ledger()  # raises if the ledger contradicts the folder: the final cost is computed from it
        heads = Heads(_register(program, folder, ledger.ledger), folder, program.witness, opened)
        _warn(callback, heads.require_extended())
        repair_torn_tail(folder.participation_path, ledger.ledger)
        checkpoint = folder.resume_point(older_if_damaged=older_if_damaged)
        state = program.start
        if checkpoint is not None:
            noise = _noise_arrays(folder, state, checkpoint.round)
            state = from_arrays(state, checkpoint.round, checkpoint.arrays, noise)
            if checkpoint.round > ledger.ledger.rounds_committed:  # killed between the checkpoint and its record
                ledger.append(Committed(checkpoint.round, checkpoint.digest))
        same_sum = (
            program.seed is None
            and program.schedule.save_first
            and program.unfinished(folder, ledger.ledger, state.round)
        )
        # Before the ledger says so: more rounds, and rounds since the checkpoint that are about to run again.
        reservation = Reservation(folder, program.store, program.account)
        reservation.reserve(opened, ledger.ledger.intents, start=state.round + same_sum)
        if extend:
            ledger.append(Extended(program.schedule.rounds))
        folder.remove_summary()
        lost, unfinished = ledger.ledger.lost_from(state.round), None
        if same_sum:
            *_, last = verified(folder.participation_path, ledger.ledger)
            unfinished = (last.round, last.attempt, last.users)
            ledger.append(Resumed(state.round + 1, [], SAME_SUM))
        else:
            ledger.append(Resumed(state.round, lost, FRESH_NOISE if program.seed is None else SEEDED_REPLAY))
        reservation.again()
        _warn(callback, heads.record(ledger))
        truncate_after(folder.metrics_path, state.round)
        truncate_after(folder.diagnostics_path, state.round)
        truncate_after(folder.gate_audit_path, state.round)
        return (
            yield from _rounds(
                program, folder, ledger, state, callback, heads, reservation, catch_interrupt, unfinished
            )
        )
    finally:
        if reservation is not None:
            reservation.settle(ledger)
        ledger.close()


def require_same_promise(recorded: Opened, now: Opened) -> None:
    """PrivacyError unless the plan, the data and the reasons for an infinite epsilon are those of the first record."""
    then, here = (to_json(dataclasses.replace(each, tacit_version="")) for each in (recorded, now))
    for each in (then, here):  # known to the ledger alone; how many rounds are planned is compared
        each.pop("extended_from", None)
    difference = first_difference(then, here)
    if difference is not None:
        field, before, after = difference
        raise PrivacyError(f"Expected what the ledger was begun with, where {field} is {before}, got {after}.")


def _register(program: Program, folder: RunFolder, ledger: Ledger | None = None) -> Odometer | None:
    """Enter the run into its store's odometer and return that; None for a world, which has no people and no odometer.

    LedgerError, and nothing entered, if the odometer knows more records of the run than `ledger` has (None: no ledger yet).
    """
    if program.store is None:
        return None
    listed = Odometer(program.store)
    if ledger is None:
        listed.require_new(folder.run_id)
    else:
        listed.require_extended(ledger)
    claims = not program.opened.reasons_not_private
    listed.register(run_id=folder.run_id, run=folder.path, claims_privacy=claims)
    return listed


def _warn(callback: Callback, sentence: str | None) -> None:
    if sentence is not None:
        callback.on_warning(sentence)


def _noise_arrays(folder: RunFolder, template: TrainingState, round: int) -> Mapping[str, Any]:
    """The mechanism's state, from the private folder; independent noise has none."""
    if not jax.tree.leaves(template.noise):
        return {}
    return checkpoints.load(checkpoints.path_of(folder.private_path, round)).arrays


def _participation(folder: RunFolder, ledger: Ledger, rounds: int) -> list[NDArray[np.int64]]:
    """The cohorts of the first `rounds` rounds: of each round, the attempt that the current model contains."""
    if not ledger.intents:
        return []
    live = {intent.round: number for number, intent in enumerate(ledger.intents)}  # the last attempt of each
    cohorts = [cohort.users for cohort in verified(folder.participation_path, ledger)]
    return [cohorts[live[round]] for round in range(rounds)]


def to_the_end(run: Rounds) -> dict[str, Any]:
    """Run every round; returns the summary."""
    while True:
        try:
            next(run)
        except StopIteration as end:
            summary: dict[str, Any] = end.value
            return summary


def _rounds(
    program: Program,
    folder: RunFolder,
    ledger: LedgerWriter,
    state: TrainingState,
    callback: Callback,
    heads: Heads,
    reservation: Reservation,
    catch_interrupt: bool,
    unfinished: tuple[int, int, NDArray[np.int64]] | None = None,
) -> Rounds:
    opened = ledger.ledger.opened
    with ExitStack() as leaving:
        notifier = leaving.enter_context(notifying(callback))
        leaving.enter_context(program.running())
        audit = leaving.enter_context(program.audit(folder))
        journal = RunJournal(
            folder,
            ledger,
            program.plan,
            program.schedule,
            to_arrays=to_arrays,
            evaluate=program.evaluate,
            cost_so_far=lambda intents: cost_if_it_had_ended_here(opened, intents),
            update_bound=program.users.update_bound,
            heads=heads,
            admit=reservation.admit,
            confirm=reservation.confirm,
            settle=partial(reservation.settle, ledger),
            notifier=notifier,
            settled=audit.settle,
            unfinished=unfinished,
        )
        leaving.callback(journal.release)
        leaving.callback(reservation.settle, ledger)  # before the journal releases the ledger's lock
        journal.start(state.round)
        for users in _participation(folder, ledger.ledger, state.round):
            program.sampler.remember(users)
        program.follow(ledger.append)
        cohorts = program.participation(
            Randomness.fresh() if program.seed is None else Randomness.from_seed(program.seed),
            state.round,
            Counter(intent.round for intent in journal.intents),
        )
        leaving.callback(cohorts.close)
        with _stopping_at_a_round(journal) if catch_interrupt else nullcontext():
            if program.evaluate_first and state.round == 0:
                journal.begin(state)
            for after in rounds(
                state,
                participation=cohorts,
                users=audit.users,
                clipping=program.plan.build_clipping(),
                mechanism=audit.mechanism,
                server=program.server,
                journal=journal,
            ):
                state = after
                if (report := program.workers()) is not None:
                    notifier.workers(report)
                if not catch_interrupt:  # the caller has the loop, and sees the model now
                    journal.before_showing()
                try:
                    yield state
                except GeneratorExit:
                    journal.stop(state)
                    raise
        cost = cost_of(folder, ledger.ledger)
        summary = program.finish(state, opened, cost.stated)
        folder.write_summary(summary)
        journal.close("finished")
        audit.conclude()
        checkpoints.remove_all(folder.private_path)  # the noise state, as secret as the noise
        notifier.end(RunEnd("finished", cost.stated.epsilon, cost.stated.delta, cost.guarantee().headline))
        if notifier.error is not None:
            raise notifier.error
        return summary


@contextmanager
def _stopping_at_a_round(journal: RunJournal) -> Iterator[None]:
    """Ctrl-C stops after the current round, with a checkpoint; a second Ctrl-C stops at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def request(number: int, frame: Any) -> None:
        if journal.stop_requested:
            raise KeyboardInterrupt
        journal.stop_requested = True

    before: Callable[[int, Any], Any] | int | None = signal.signal(signal.SIGINT, request)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
