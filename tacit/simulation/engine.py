"""What an engine is: the users' side of a simulation, on this machine or on others.

An engine trains the users of a cohort and gives back their bounded sum. The built-in one (`batched.py`) uses this process's
accelerators, and the one on Ray (`ray/`) uses processes on any number of machines. Both promise the same, and one suite tests
it (tests/contracts/test_engines.py):

- Users are trained as `BatchedUsers` trains them, and clipped, weighed and summed by the plan's gate.
- What one user adds depends on that user and the broadcast model, never on who else is there or where they are trained.
- A cohort of nobody gives sums of zero.
- Sums are off by rounding alone, within what `privacy/gate/rounding.py` proves for any order of addition.
- Noise is not added here. An engine has no key of the noise that the mechanism adds.

The two engines add in different orders, so their sums differ in the last bits of float64. Each repeats itself to the bit: the
built-in one on the same number of accelerators, the one on Ray with any number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.data.users import Users
from tacit.learning.batches import Batching
from tacit.learning.secure_sums import SecureSums
from tacit.learning.work import UserWork
from tacit.privacy.gate.sums import BoundedSum, ClipThresholds, Diagnostics
from tacit.privacy.plan import PrivacyPlan


class Synthetic(Protocol):
    """Contributions that belong to nobody, which an audit admits among those of users."""

    def look(self, sums: Sequence[BoundedSum]) -> None:
        """Called with the users' sums (which add up to the whole) before `admit`."""

    def admit(self, gate: Any) -> None:
        """Admit the contributions through this gate."""

    def to_send(self) -> Synthetic:
        """What another process needs for `admit`, and nothing of users."""


class Engine(Protocol):
    """The users' side of a simulation. `chunk` users are trained together on one accelerator."""

    users: Users
    work: UserWork
    plan: PrivacyPlan
    shape: Batching
    chunk: int
    secure: SecureSums | None

    def prepare(self, cohort: NDArray[np.int64]) -> Iterator[Any]:
        """What `collect` will find as `cohort.chunks`. Called in the background, while the round before trains."""
        ...

    def collect(
        self, broadcast: Any, cohort: Any, norms: ClipThresholds, canaries: Synthetic | None = None
    ) -> tuple[BoundedSum, list[Diagnostics]]:
        """Every user's work on the broadcast model, clipped, weighed and summed; then `canaries`, through the same gate."""
        ...

    def learned(self, model: Any) -> Any:
        """The subtree of the broadcast model that users update."""
        ...

    def update_bound(self, clip: float) -> float:
        """The bound on one user's share of the sum of updates that are clipped to this norm."""
        ...

    def spread(self, evaluate: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The same evaluation, computed where users are trained if it can be cut into parts."""
        ...

    def open(self) -> None:
        """Get ready; what is wrong is told here, before a run begins. Calling it again does nothing."""
        ...

    def close(self) -> None:
        """Give back what `open` took."""
        ...
