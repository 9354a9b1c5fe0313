"""What a mechanism is: a pair of pure functions that turn bounded sums into releases.

    state          = mechanism.init(template)
    release, state = mechanism.release(bounded, state, key=key)

`state` is a pytree of arrays (empty for independent noise). It is as secret as the noise and is kept in the run's
private folder. `key` is used for this release and never again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tacit.privacy.gate.sums import BoundedSum
from tacit.privacy.noise.randomness import NoiseKey

# Block name → noised sum in float32. Functions of releases and of public data cost no privacy.
Release = Mapping[str, Any]


class Mechanism(Protocol):
    """Adds noise to bounded sums; `noise_multipliers` holds the z_j of each block.

    >>> import tacit
    >>> mechanism: tacit.Mechanism = tacit.Gaussian({"update": 1.5})
    >>> mechanism.noise_multipliers
    {'update': 1.5}
    """

    @property
    def name(self) -> str:
        """What the ledger calls it."""
        ...

    @property
    def noise_multipliers(self) -> Mapping[str, float]:
        """z_j by block."""
        ...

    def init(self, template: Mapping[str, Any]) -> Any:
        """The state before the first release, for blocks shaped like `template`."""
        ...

    def release(self, bounded: BoundedSum, state: Any, *, key: NoiseKey) -> tuple[Release, Any]:
        """One release and the state for the next."""
        ...
