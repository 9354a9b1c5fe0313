"""The clip norm: fixed in the plan, or a quantile of the users' norms that is estimated during training.

**Adaptive clipping** (Gboard, Algorithm 1; Andrew et al. 2021). The estimate C^t of the γ-quantile follows the noisy share of
users whose norm is within it:

    C^{t+1} = C^t · exp(-η (share_t - γ)),    share_t = (noisy Σ (b_k - ½)) / m + ½,

with m the public number of reports. Everything here is a function of releases, so it costs no privacy; what the bits cost is in
`accounting.noise_split`. With correlated noise the noise of the shares cancels over rounds, so a share may lie outside of
[0, 1], and is used as it is. With independent noise the estimate becomes the clip of the next round. With correlated noise it
becomes the clip only at a restart: until then, later rounds still subtract earlier noise, which was scaled to the old clip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tacit.privacy.gate.sums import ClipThresholds
from tacit.privacy.record.records import WITHIN

# How far the estimate may move from its start, so that one extreme share does not make it zero or infinite.
FARTHEST = 1e6


class Clipping(Protocol):
    """The clip of each round. The state is a pytree of arrays, and public."""

    def init(self) -> Any:
        """The state before the first round."""
        ...

    def norms(self, state: Any, round: int) -> ClipThresholds:
        """Where updates are clipped in this round, and what norms are compared to."""
        ...

    def learn(self, state: Any, release: Mapping[str, Any], round: int) -> Any:
        """The state after this round's release."""
        ...


@dataclass(frozen=True)
class FixedClip:
    """The plan's clip norm, which may change at rounds fixed beforehand."""

    norm_at: Callable[[int], float]

    def init(self) -> tuple[()]:
        return ()

    def norms(self, state: tuple[()], round: int) -> ClipThresholds:
        return ClipThresholds(self.norm_at(round))

    def learn(self, state: tuple[()], release: Mapping[str, Any], round: int) -> tuple[()]:
        return state


@dataclass(frozen=True)
class AdaptiveClip:
    """Follows the quantile; the clip changes before the rounds in `changes_at`, or before every round (None)."""

    start: float
    quantile: float
    learning_rate: float
    reports: float
    changes_at: Collection[int] | None

    def init(self) -> dict[str, np.ndarray]:
        return {"active": np.asarray(self.start), "estimate": np.asarray(self.start)}

    def norms(self, state: Mapping[str, Any], round: int) -> ClipThresholds:
        return ClipThresholds(float(state["active"]), float(state["estimate"]))

    def learn(self, state: Mapping[str, Any], release: Mapping[str, Any], round: int) -> dict[str, Any]:
        share = float(release[WITHIN]) / self.reports + 0.5
        moved = math.log(float(state["estimate"]) / self.start) - self.learning_rate * (share - self.quantile)
        farthest = math.log(FARTHEST)
        estimate = np.asarray(self.start * math.exp(min(max(moved, -farthest), farthest)))
        changes = self.changes_at is None or round + 1 in self.changes_at
        return {"active": estimate if changes else state["active"], "estimate": estimate}
