"""What a server had of a device and its data, over all tasks, for the life of the data.

What is counted for a task could be reset by another task, another run of it or another name. So rounds, the pause between them,
the timer, the best terms that the server ever offered, and the cost are counted for the server as a whole. Every report that
was sent counts, whatever became of it, because the device cannot verify what the server does with a report.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tacit.errors import FleetError
from tacit.fleet.device.policy import OwnerPolicy
from tacit.fleet.device.terms import PolicyRefusal, Terms
from tacit.fleet.wire.messages import RoundId, Sha256

# How many rounds and sessions are remembered by name.
_MOST_NAMES = 4096


class ServerMemory(BaseModel):
    """The device's part in the rounds of its server."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rounds: int = Field(default=0, ge=0, description="the number of rounds it took part in")
    last_at: float | None = Field(default=None, description="when it last took part, by the device's own clock")
    best: Terms | None = Field(default=None, description="the best of each term that the server ever offered")
    policy_issue: int = Field(default=0, ge=0, description="the edition of the owner's policy that `best` belongs to")
    spent_rho: float = Field(default=0.0, ge=0, description="of the rounds whose noise the devices added")
    unproven: int = Field(default=0, ge=0, description="rounds whose noise is the server's word")
    round_ids: tuple[RoundId, ...] = Field(default=(), description="the rounds it took part in, the latest last")
    sessions: tuple[Sha256, ...] = Field(default=(), description="sessions of secure aggregation, the latest last")

    def under(self, policy: OwnerPolicy) -> ServerMemory:
        """The memory under this edition of the policy; FleetError if the edition is older than the one before.

        A new edition lets the server offer other terms than before.
        """
        if policy.issue < self.policy_issue:
            raise FleetError(
                f"Expected issue {self.policy_issue} or a later one of the owner's policy, got issue {policy.issue}."
            )
        if policy.issue == self.policy_issue:
            return self
        return self.model_copy(update={"policy_issue": policy.issue, "best": None})

    def offered(self, terms: Terms, kind: str) -> ServerMemory:
        """The memory after an offer; PolicyRefusal if the server offered better terms before, in any task."""
        if self.best is not None:
            terms.require_as_good_as(self.best, kind)
        return self.model_copy(update={"best": terms.best(self.best)})

    def require_free(self, round_id: str, now: float, policy: OwnerPolicy) -> None:
        """FleetError if the owner's pause runs, all rounds are used up, or the device was in this round."""
        if self.rounds >= policy.most_rounds:
            raise PolicyRefusal(
                f"The device has taken part in {self.rounds} rounds of this server, as many as the owner's policy allows."
            )
        if round_id in self.round_ids:
            raise PolicyRefusal("The server offered a round again that the device has taken part in.")
        if self._took_part_within(policy.least_pause_s, now):
            raise FleetError(f"The pause of {policy.least_pause_s:g} s in the owner's policy is still running.")

    @property
    def timer_s(self) -> float:
        """The longest timer that the server ever stated: it runs after a report for any task."""
        return 0.0 if self.best is None else self.best.timer_s

    def rests(self, now: float) -> bool:
        """Whether this timer is running."""
        return self._took_part_within(self.timer_s, now)

    def _took_part_within(self, seconds: float, now: float) -> bool:
        # A clock that was set back does not make a pause longer than it is.
        return self.last_at is not None and self.last_at <= now < self.last_at + seconds

    def begins(self, session: str) -> ServerMemory:
        """The memory when a session of secure aggregation begins; PolicyRefusal if it was begun before."""
        if session in self.sessions:
            raise PolicyRefusal("The server offered a session of secure aggregation again that the device had begun.")
        return self.model_copy(update={"sessions": (*self.sessions, session)[-_MOST_NAMES:]})

    def taking_part(self, round_id: str, now: float, rho: float | None) -> ServerMemory:
        """The memory when a report is about to be sent. `rho` is the round's cost, if the device can prove one."""
        return self.model_copy(
            update={
                "rounds": self.rounds + 1,
                "last_at": now,
                "spent_rho": self.spent_rho + (rho or 0.0),
                "unproven": self.unproven + (rho is None),
                "round_ids": (*self.round_ids, round_id)[-_MOST_NAMES:],
            }
        )
