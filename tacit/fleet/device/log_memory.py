"""What a device remembers of its server's public log: the key, the last head, the tasks that it found there."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tacit.fleet.device.terms import PolicyRefusal
from tacit.fleet.wire.messages import Sha256
from tacit.transparency.checkpoint import Checkpoint


class LogMemory(BaseModel):
    """Of one log. A policy that names another key begins anew (`under`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    key: str | None = Field(default=None, description="the log's public key, name+id+key")
    head: str | None = Field(default=None, description="the last signed head that the device accepted")
    tasks: tuple[Sha256, ...] = Field(default=(), description="entries of tasks that were proven to be in the log")
    fork: str | None = Field(
        default=None, description="a head of another log that the same server showed somebody else"
    )

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The last head."""
        return None if self.head is None else Checkpoint.parse(self.head)

    def under(self, key: str | None) -> LogMemory:
        """The memory under a policy that names this key: another key than before is another log."""
        return LogMemory() if key is not None and self.key not in (None, key) else self

    def forked(self, head: str) -> LogMemory:
        """The memory after another device showed this head, which does not belong to the same log."""
        return self.model_copy(update={"fork": head})

    def require_one_log(self) -> None:
        """PolicyRefusal if the server is known to show two logs."""
        if self.fork is not None:
            raise PolicyRefusal(
                "Two different logs were shown: another device has a head that does not fit this one's."
            )
