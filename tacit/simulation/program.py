"""The `Program` of a run whose users are simulated, on this machine or on others, for `tacit.runs.driver`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.data.users import all_names
from tacit.errors import PrivacyError
from tacit.files import write_atomic
from tacit.learning.batches import foreign_name, keeps_users_apart
from tacit.learning.work import learned_by
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.samplers import OwnRate
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.reasons import Reason, Why
from tacit.runs.callbacks import WorkersReport
from tacit.runs.folder import RunFolder
from tacit.runs.gate_audit.in_run import GateAudit
from tacit.runs.program import Cohorts, Program
from tacit.runs.provenance import (
    ENGINES,
    has_own_methods,
    is_the_plans_secure_sum,
    same,
    size_objections,
)
from tacit.simulation.batched import BatchedUsers
from tacit.simulation.cohorts import CohortStream
from tacit.simulation.engine import Engine
from tacit.simulation.gate_audit import audit_of
from tacit.simulation.population.sampler import DeviceCheckIns
from tacit.simulation.ray.pool import RayPool
from tacit.simulation.ray.users import RayUsers


@dataclass(frozen=True, kw_only=True)
class SimulatedProgram(Program):
    """A run on simulated users. With `gate_audit`, its gate is audited if that is possible."""

    users: Engine
    gate_audit: bool = True

    @contextmanager
    def running(self) -> Iterator[None]:
        """The engine is open."""
        self.users.open()
        try:
            yield
        finally:
            self.users.close()

    def workers(self) -> WorkersReport | None:
        """What an engine with workers says of them."""
        return self.users.report() if isinstance(self.users, RayUsers) else None

    def participation(self, randomness: Randomness, start: int, attempts: Mapping[int, int]) -> Cohorts:
        """The cohorts of the rounds from `start` on, gathered in the background."""
        return CohortStream(
            self.sampler,
            randomness,
            all_names(self.users.users),
            self.users.prepare,
            start=start,
            stop=self.schedule.rounds,
            attempts=attempts,
        )

    def require_same_users(self, folder: RunFolder, *, begun: bool) -> None:
        """PrivacyError if a run that has begun goes on with other users, or with the same ones under other numbers.

        Who took part is recorded by number, and how often somebody may take part again follows from that. The digest of the
        users' names is kept in the private folder.
        """
        names = np.ascontiguousarray(all_names(self.users.users), np.uint64)
        digest, path = hashlib.sha256(names.tobytes()).hexdigest(), folder.users_path
        if not begun:
            write_atomic(path, f"{digest}\n", mode=0o600)
        elif not path.exists() or path.read_text().strip() != digest:
            raise PrivacyError(
                f"The run {folder.path} was begun with other users, or with the same users in another order.",
                hint="Pass the users and held_out that it was begun with; tacit.users(...) needs the same key and order.",
            )

    def audit(self, folder: RunFolder) -> GateAudit:
        """The users and the mechanism, with the audit between them if the gate can be audited.

        The audit of a run that was extended has ended with the rounds that were planned first, and its result is kept.
        """
        if self.opened.extended_from:
            return GateAudit(self.users, self.mechanism, folder)
        return audit_of(
            self.plan,
            self.users,
            self.mechanism,
            model=self.start.model,
            rounds=self.schedule.rounds,
            strategy=self.opened.strategy,
            folder=folder,
            wanted=self.gate_audit,
        )


def departures(program: SimulatedProgram) -> list[Reason]:
    """What in the users' side of a simulation is not what its plan builds."""
    users, plan = program.users, program.plan
    if not _is_known(users):
        return [Reason(Why.FOREIGN_ENGINE)]
    found = []
    if not _is_the_plans_sampler(program):
        found.append(Reason(Why.FOREIGN_SAMPLER))
    if users.plan != plan:
        found.append(Reason(Why.ENGINE_OF_OTHER_PLAN))
    if not keeps_users_apart(users.shape):
        found.append(Reason(Why.FOREIGN_BATCHES))
    elif program.opened.batching != foreign_name(users.shape):
        found.append(Reason(Why.UNDESCRIBED_BATCHES))
    if not is_the_plans_secure_sum(users.secure, program):
        found.append(Reason(Why.FOREIGN_SECURE_SUM))
    return found + size_objections(learned_by(users.work, program.start.model), program)


def _is_known(users: Engine) -> bool:
    """Whether this is an engine of Tacit's own. That on Ray must have Ray's workers, which run this process's source."""
    if type(users) is RayUsers:
        return type(users.pool) is RayPool and not has_own_methods(users) and not has_own_methods(users.pool)
    return type(users) is BatchedUsers and not has_own_methods(users)


def _is_the_plans_sampler(program: SimulatedProgram) -> bool:
    plan, sampler = program.plan, program.sampler
    people = len(program.users.users)
    if type(sampler) is OwnRate:
        planted = program.opened.planted
        if planted is None or has_own_methods(sampler):
            return False
        if sampler.probability != planted.device_rate or sampler.people + planted.made_up_users != people:
            return False
        return _draws_people(sampler.sampler, plan, sampler.people)
    return _draws_people(sampler, plan, people)


def _draws_people(sampler: Any, plan: PrivacyPlan, people: int) -> bool:
    """Whether this is the plan's sampler, with as many people to draw from as it promises."""
    if type(sampler) is DeviceCheckIns and plan.participation is None:
        return not has_own_methods(sampler) and sampler.describe() == plan.sampling_constants
    return same(sampler, plan.build_sampler()) and (plan.sampling != "fixed" or people >= plan.population)


ENGINES[SimulatedProgram] = departures
