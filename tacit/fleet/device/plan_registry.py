"""The plans that a device may run: a list of their hashes, signed by a key that is not the server's.

Without a registry a plan is any program with the task's shapes, so the server chooses what is computed on a user's text, up to
the clip. With one, somebody who can read the plan's source, and compile it to the same bytes, has vouched for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tacit.errors import FleetError
from tacit.fleet.device.signed_files import read_signed
from tacit.fleet.wire.messages import Sha256

PLANS_LABEL = b"tacit fleet plans v1\0"


class PermittedPlan(BaseModel):
    """A plan by its SHA-256, and the kind of task that it may serve."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    sha256: Sha256
    kind: Literal["train", "evaluate", "discover"]
    note: str = Field(default="", max_length=200)


class PlanRegistry(BaseModel):
    """`plans.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    format: Literal[1] = 1
    plans: tuple[PermittedPlan, ...]

    def has(self, sha256: str, kind: str) -> bool:
        """Whether this plan may serve a task of this kind."""
        return any((plan.sha256, plan.kind) == (sha256, kind) for plan in self.plans)


def read_registry(path: Path, key: str) -> PlanRegistry:
    """The registry in this file; FleetError unless this key signed it."""
    try:
        return PlanRegistry.model_validate_json(read_signed(path, key, PLANS_LABEL))
    except ValidationError:
        raise FleetError(f"The registry of plans {path} is not valid.") from None
