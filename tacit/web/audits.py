"""Route of a run's audit: what is proven for everybody, and what the attacks found for the owner."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from tacit.api.run import open_run
from tacit.runs.attacked import kept_attack
from tacit.runs.folder import RunFolder
from tacit.runs.gate_audit.outcome import read_outcome
from tacit.web.reading import in_one_sentence, path_of
from tacit.web.settings import BoardSettings
from tacit.web.watcher import RunWatcher


class AuditView(BaseModel):
    """The proven epsilon beside what attacks could show. `gate` and `attack` need a board with --owner."""

    epsilon: float | None
    delta: float
    reasons_not_private: list[str]
    owner: bool
    gate: dict[str, Any] | None = Field(
        default=None, description="the audit of the gate: verdict, tests, measured noise"
    )
    attack: dict[str, Any] | None = Field(
        default=None, description="what tacit audit run found last: ranks and lower bounds"
    )


def audit_routes(watcher: RunWatcher, settings: BoardSettings) -> APIRouter:
    """The route of a run's audit."""
    router = APIRouter(prefix="/api/runs/{key}")

    @router.get("/audit")
    def audit(key: str) -> AuditView:
        """What is proven, and for the owner what was found."""
        path = path_of(watcher, key)
        with in_one_sentence(path):
            stated = open_run(path).guarantee().as_json()
            proven = {name: stated[name] for name in ("epsilon", "delta", "reasons_not_private")}
            if not settings.owner:
                return AuditView(**proven, owner=False)
            folder = RunFolder.open(path)
            gate = read_outcome(folder)
            return AuditView(
                **proven, owner=True, gate=None if gate is None else gate.as_dict(), attack=kept_attack(folder)
            )

    return router
