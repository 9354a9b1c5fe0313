"""The rounds of a run on devices, one after the other. Each is committed when the training loop asks for the next one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from sqlalchemy.exc import SQLAlchemyError

from tacit.errors import PrivacyError
from tacit.fleet.database import leases, round_table, task_table
from tacit.fleet.rounds.fleet_context import FleetContext
from tacit.fleet.rounds.participation_check import ParticipationCheck
from tacit.fleet.rounds.round_attempt import RoundAttempt
from tacit.privacy.noise.randomness import Randomness

# A round that is lost after its intent costs privacy, and devices can make rounds fail on purpose. A run stops when it has lost
# this many, or a twentieth of its rounds if that is more.
MOST_LOST = 8


class DeviceRounds:
    """The rounds from `start` to `stop`. `attempts` counts the intents of each round that are in the ledger."""

    def __init__(
        self,
        context: FleetContext,
        randomness: Randomness,
        start: int,
        stop: int,
        attempts: Mapping[int, int],
        participation: ParticipationCheck,
    ) -> None:
        self._context, self._randomness, self._rounds = context, randomness, range(start, stop)
        self._attempts, self._participation = attempts, participation
        self._under_way: RoundAttempt | None = None

    def __iter__(self) -> Iterator[RoundAttempt]:
        context = self._context
        # The ledger has one intent for every round in the checkpoint, and one for every round that was lost.
        lost, most = sum(self._attempts.values()) - self._rounds.start, max(MOST_LOST, self._rounds.stop // 20)
        if lost >= most:
            raise PrivacyError(
                f"Expected fewer than {most} rounds to be lost after their intent, each of which costs privacy, got {lost}: "
                "this run stops for good."
            )
        for round in self._rounds:
            attempt = self._attempts.get(round, 0)
            key = self._randomness.noise_key(round=round, attempt=attempt)
            self._under_way = current = RoundAttempt(context, round, attempt, key, self._participation)
            yield current
            opened = current.opened
            assert opened is not None  # the loop settles each round that it gets
            self._participation.add(round, current.devices)
            round_table.commit(context.engine, context.lease, opened.round_id)
            task_table.drop_checkpoint(context.engine, opened.checkpoint)
            context.log("round committed", task=context.name, round=round, attempt=attempt)
            self._under_way = None

    def close(self) -> None:
        """Abandon the round under way, if there is one."""
        if self._under_way is not None:
            settled = "it was lost after its cohort was settled: if the ledger has its intent, it counts"
            reason = settled if self._under_way.devices else "the coordinator stopped"
            with suppress(SQLAlchemyError, leases.LeaseLost):  # the next coordinator abandons it
                self._under_way.abandon(reason)
