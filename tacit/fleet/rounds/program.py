"""A run whose users are real devices, in the form that `tacit.runs.driver` takes.

Devices' sums cross the gate here: a sum with known bounds becomes a `BoundedSum`. After that nothing differs from a simulation.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from tacit.errors import FleetError, ProtocolError
from tacit.fleet.database import participation_table, round_table
from tacit.fleet.database.budget_table import FleetAccount
from tacit.fleet.rounds.aggregator import PeerQuestion
from tacit.fleet.rounds.device_rounds import DeviceRounds
from tacit.fleet.rounds.fleet_context import FleetContext, places_of
from tacit.fleet.rounds.participation_check import ParticipationCheck
from tacit.fleet.rounds.round_attempt import DeviceCohort
from tacit.fleet.rounds.secure_size import lost_share
from tacit.learning.secure_sums import SecureSums, unflattened
from tacit.privacy.accounting.noise_split import BIT_BOUND
from tacit.privacy.gate.sums import Block, BoundedSum, ClipThresholds, Diagnostics
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.log import verified
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import FleetRecord
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.reasons import Reason, Why
from tacit.privacy.record.records import UPDATE, WEIGHT, WITHIN, Adjusted, Opened, Record
from tacit.privacy.statement.on_devices import device_lines
from tacit.privacy.statement.wording import Mark
from tacit.runs.folder import RunFolder
from tacit.runs.gate_audit.in_run import GateAudit, not_audited, why_not
from tacit.runs.program import Cohorts, Program
from tacit.runs.provenance import ENGINES, has_own_methods, is_the_plans_secure_sum, size_objections
from tacit.secagg.hadamard import public_signs
from tacit.training.setup import TrainingSetup

# A record of a round is shorter.
_LONGEST_RECORD = 1 << 20


class DeviceUsers:
    """Real devices behind the gate. Their updates are summed already; the sum leaves here as a `BoundedSum`."""

    def __init__(
        self, plan: PrivacyPlan, secure: SecureSums | None, learned: Callable[[Any], Any] = lambda model: model
    ) -> None:
        """`learned`: the subtree of the model that devices' updates have the shape of."""
        self._plan, self._secure, self.learned = plan, secure, learned

    def collect(
        self, broadcast: Any, cohort: DeviceCohort, norms: ClipThresholds
    ) -> tuple[BoundedSum, list[Diagnostics]]:
        """The cohort's sum with its bounds. There are no diagnostics: on a fleet these would have to cross the gate."""
        if self._secure is not None and cohort.masked is not None:
            words = cohort.masked.unmasked()
            signs = public_signs(cohort.masked.signs_seed, self._secure.encoding.padded)
            sides = self._secure.sides(norms, weighted=self._plan.weighted)
            return self._secure.bounded(words, signs, norms, sides, self.learned(broadcast), len(cohort.users)), []
        found = cohort.plain
        assert found is not None
        with jax.enable_x64(True):
            blocks = {UPDATE: Block(unflattened(jnp.asarray(found.update), self.learned(broadcast)), norms.clip)}
            if self._plan.weighted:
                blocks[WEIGHT] = Block(jnp.asarray(found.weight, jnp.float64), 1.0)
            if norms.threshold is not None:
                blocks[WITHIN] = Block(jnp.asarray(found.bits, jnp.float64), BIT_BOUND)
        return BoundedSum(blocks), []

    def update_bound(self, clip: float) -> float:
        """The bound on one device's contribution to the sum, for updates clipped at this norm."""
        return clip if self._secure is None else self._secure.bound(clip)


@dataclass(frozen=True, kw_only=True)
class FleetProgram(Program):
    """A run whose cohorts are devices that check in when they can."""

    context: FleetContext
    folder: RunFolder

    @classmethod
    def of(
        cls, setup: TrainingSetup, folder: RunFolder, context: FleetContext, *, transport: str, odometer: Path
    ) -> FleetProgram:
        """The setup's training on these devices. It is saved after every round, because a lost round costs privacy again.

        `odometer` is the folder that lists every run on these devices.
        """
        opened, fleet = setup.opened(folder), describe_fleet(context, transport=transport)
        return cls(
            plan=setup.plan,
            schedule=dataclasses.replace(setup.schedule, checkpoint_every=1, save_first=True),
            seed=setup.seed,
            opened=dataclasses.replace(opened, fleet=fleet),
            store=odometer,
            start=setup.start,
            users=DeviceUsers(setup.plan, context.secure, setup.work.learned),
            sampler=setup.plan.build_sampler(),
            mechanism=setup.mechanism,
            server=setup.server,
            evaluate=setup.evaluate,
            finish=lambda *outcome: with_device_lines(setup.finish(folder, *outcome), outcome[1]),
            evaluate_first=setup.pretraining is not None,
            witness=setup.witness,
            context=context,
            folder=folder,
            account=FleetAccount(context.engine, context.lease),
        )

    def require_same_users(self, folder: RunFolder, *, begun: bool) -> None:
        """Nothing: devices have names of their own, and the database remembers which of them took part."""

    def unfinished(self, folder: RunFolder, ledger: Ledger, rounds_done: int) -> bool:
        """Whether the processes that added up still have the sum of the last intent, or its masked sum, of the same devices."""
        context = self.context
        context.run.unfinished = None
        left = ledger.lost_from(rounds_done)
        if len(left) != 1 or context.run.lost is not None:
            return False
        round, attempt = left[0]
        found = round_table.settled(context.engine, context.name, round=round, attempt=attempt)
        if found is None:
            return False
        there, counted = context.peers.alive(), round_table.reported_to(context.engine, found.round_id)
        recorded = _recorded(folder).get((round, attempt), [])
        if sorted(recorded) != sorted(device for devices in counted.values() for device in devices):
            return False
        try:
            for process in counted:
                there[process].ask(found.round_id, PeerQuestion.HOLDS)
        except (KeyError, FleetError, ProtocolError):
            return False
        context.run.unfinished = found
        return True

    def follow(self, append: Callable[[Record], object]) -> None:
        """Keep the way to the ledger, and what it says about goal and deadline so far."""
        adjusted = [record for record in self.folder.ledger().records if isinstance(record, Adjusted)]
        run = self.context.run
        run.append, run.head = append, lambda: _last_digest(self.folder.ledger_path)
        run.adjusted = (adjusted[-1].report_goal, adjusted[-1].deadline_s) if adjusted else None

    def audit(self, folder: RunFolder) -> GateAudit:
        """No audit: it would have to mix artificial contributions with those of real devices."""
        reason = why_not(self.plan, wanted=True, simulated=False)
        assert reason is not None
        return not_audited(self.users, self.mechanism, folder, reason)

    def participation(self, randomness: Randomness, start: int, attempts: Mapping[int, int]) -> Cohorts:
        """The rounds from `start` on, after the open rounds of an earlier coordinator are closed."""
        context, task = self.context, self.context.task
        round_table.require_no_older_run(context.engine, context.name, rounds_done=start)
        limits = {"min_separation": task.min_separation, "max_participation": task.max_participation}
        check = ParticipationCheck(partial(_recorded, self.folder), start, **limits)
        # Before the rounds are closed: a device learns of a closed round whether it counts from this table.
        participation_table.match_participation(context.engine, context.lease, context.name, check.before(start))
        unfinished, lost = context.run.unfinished, context.run.lost
        reason = "the coordinator was replaced" if lost is None else f"{lost} If the ledger has its intent, it counts."
        for row in round_table.close_leftover_rounds(
            context.engine,
            context.lease,
            context.name,
            rounds_done=start,
            reason=reason,
            but=None if unfinished is None else unfinished.round_id,
            ledger=context.run.head(),
        ):
            context.log("round abandoned", task=context.name, round=row.round, attempt=row.attempt, reason=reason)
        return DeviceRounds(context, randomness, start, self.schedule.rounds, attempts, check)


def _objections(program: FleetProgram) -> list[Reason]:
    """Why this program may not claim what its plan says (`runs.provenance`)."""
    users: Any = program.users
    if type(users) is not DeviceUsers or has_own_methods(users):
        return [Reason(Why.FOREIGN_ENGINE)]
    found = []
    if users._plan != program.plan or program.context.secure != users._secure:
        found.append(Reason(Why.ENGINE_OF_OTHER_PLAN))
    if not is_the_plans_secure_sum(users._secure, program):
        found.append(Reason(Why.FOREIGN_SECURE_SUM))
    return found + size_objections(users.learned(program.start.model), program)


ENGINES[FleetProgram] = _objections


def with_device_lines(summary: dict[str, Any], opened: Opened) -> dict[str, Any]:
    """The summary, with the assumptions about devices and server added."""
    assumed = [line.text for line in device_lines(opened) if line.mark is Mark.ASSUMED]
    privacy = summary["privacy"]
    return {**summary, "privacy": {**privacy, "assumptions": [*privacy["assumptions"], *assumed]}}


def describe_fleet(context: FleetContext, *, transport: str) -> FleetRecord:
    """The devices' side, as the ledger describes it."""
    section, secure = context.section, context.secure is not None
    goal = context.task.report_goal
    lost = lost_share(goal, places_of(goal, section), section.dropout)
    return FleetRecord(
        transport=transport,
        secure_aggregation=secure,
        checks_norms=not secure,
        over_selection=section.over_selection,
        timer_s=section.timer_s,
        dropout=lost if secure else None,
        corruption=section.corruption if secure else None,
    )


def _last_digest(ledger: Path) -> str | None:
    """The digest of the last whole record, read from the file's end: a ledger may be long."""
    with ledger.open("rb") as file:
        file.seek(-min(_LONGEST_RECORD, file.seek(0, os.SEEK_END)), os.SEEK_END)
        lines = file.read().split(b"\n")[:-1]
    try:
        return str(json.loads(lines[-1])["digest"])
    except (IndexError, ValueError, KeyError):
        return None


def _recorded(folder: RunFolder) -> dict[tuple[int, int], list[int]]:
    """The devices that took part, by (round, attempt), from the run's own record."""
    ledger = folder.ledger()
    if not ledger.intents:
        return {}
    return {(each.round, each.attempt): each.users.tolist() for each in verified(folder.participation_path, ledger)}
