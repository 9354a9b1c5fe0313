"""The rounds of a run on devices, one after the other. Each is committed when the training loop asks for the next one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from sqlalchemy.exc import SQLAlchemyError

from tacit.errors import PrivacyError
from tacit.fleet.database import leases, task_table
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
        unfinished = context.run.unfinished
        lost = sum(self._attempts.values()) - self._rounds.start - (unfinished is not None)
        most = context.section.most_lost or max(MOST_LOST, self._rounds.stop // 20)
        task_table.tell(context.engine, context.lease, context.name, lost=lost)
        if lost >= most:
            raise PrivacyError(
                f"Expected fewer than {most} rounds to be lost after their intent, each of which costs privacy, got {lost}: "
                "this run stops for good."
            )
        for round in self._rounds:
            goes_on = unfinished if unfinished is not None and unfinished.round == round else None
            attempt = self._attempts.get(round, 0) if goes_on is None else goes_on.attempt
            key = self._randomness.noise_key(round=round, attempt=attempt)
            self._under_way = current = RoundAttempt(
                context, round, attempt, key, self._participation, unfinished=goes_on
            )
            yield current
            self._participation.add(round, current.devices)
            current.commit()
            self._under_way = None

    def close(self) -> None:
        """Abandon the round under way, if there is one. A settled one is left: the run may go on with its sum."""
        if self._under_way is not None and not self._under_way.devices:
            with suppress(SQLAlchemyError, leases.LeaseLost):  # the next coordinator abandons it
                self._under_way.abandon("the coordinator stopped")
