"""What the audit of the gate keeps of each round, in private/gate_audit.jsonl.

The first record says how the run is audited; one record per round follows. They are as secret as the noise: the release minus
its noise along the channels is the users' sum along the channels. So only the run's owner can read them, and they are removed
when the run has ended and its result is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.privacy.accounting.noise_split import BIT_BOUND
from tacit.privacy.noise.strategies import Strategy, from_description
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.records import UPDATE, WEIGHT, WITHIN
from tacit.runs.gate_audit.layout import Floats, Layout
from tacit.runs.metrics import read_metrics

_KEY = "gate audit"


@dataclass(frozen=True)
class Design:
    """How a run is audited, and the noise that its plan states."""

    layout: Layout
    noise_multipliers: Mapping[str, float]
    strategy: Strategy | None = None
    restarts: tuple[int, ...] = ()

    @classmethod
    def of(cls, plan: PrivacyPlan, layout: Layout, strategy: Strategy | None) -> Design:
        """Made from the plan, not from the mechanism, which is what the audit tests."""
        return cls(layout, plan.noise_multipliers, strategy, plan.restarts)

    def as_record(self) -> dict[str, Any]:
        """The file's first line."""
        return {
            "round": 0,
            _KEY: self.layout.as_dict(),
            "noise_multipliers": dict(self.noise_multipliers),
            "strategy": None if self.strategy is None else self.strategy.describe(),
            "restarts": list(self.restarts),
        }

    @classmethod
    def from_record(cls, found: Mapping[str, Any]) -> Design:
        described = found["strategy"]
        return cls(
            Layout.from_dict(found[_KEY]),
            found["noise_multipliers"],
            None if described is None else from_description(described),
            tuple(found["restarts"]),
        )


@dataclass(frozen=True)
class Seen:
    """One round.

    `released` [channels]: the release minus the users' sum, along each channel; the users' sum is the gates' sum before the
    canaries were added. `admitted` [channels]: the same for the sum that the mechanism was given. `energy` and `largest`
    [arrays]: Σ x² and max |x| of the noise x on the array.
    """

    round: int
    attempt: int
    clip: float
    threshold: float | None
    coins: np.ndarray
    released: Floats
    admitted: Floats
    energy: Floats
    largest: Floats

    def bounds(self) -> dict[str, float]:
        """The stated bound on one user's share of each block."""
        return {UPDATE: self.clip, WEIGHT: 1.0, WITHIN: BIT_BOUND}

    def as_record(self) -> dict[str, Any]:
        """A line of the file; rounds there count from 1, as a checkpoint's do."""
        return {
            "round": self.round + 1,
            "attempt": self.attempt,
            "clip": self.clip,
            "threshold": self.threshold,
            "coins": self.coins.astype(int),
            "released": self.released,
            "admitted": self.admitted,
            "energy": self.energy,
            "largest": self.largest,
        }

    @classmethod
    def from_record(cls, found: Mapping[str, Any]) -> Seen:
        arrays = {
            name: np.array(
                found[name], np.float64
            )  # a number that is not finite was written as null, and comes back as nan
            for name in ("released", "admitted", "energy", "largest")
        }
        return cls(
            found["round"] - 1,
            found["attempt"],
            found["clip"],
            found["threshold"],
            np.array(found["coins"], bool),
            **arrays,
        )


def read_records(path: Path) -> tuple[Design, list[Seen]] | None:
    """How the run is audited, and the rounds recorded so far; None if there is no file, or no complete line in it."""
    records: Sequence[Mapping[str, Any]] = list(read_metrics(path))
    if not records:
        return None
    return Design.from_record(records[0]), [Seen.from_record(each) for each in records[1:]]
