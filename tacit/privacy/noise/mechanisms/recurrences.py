"""Correlated noise as a recurrence: the noise of a round, given the noise of earlier rounds.

    state         = recurrence.init(template)
    known, spread = recurrence.ahead(state, position)
    state         = recurrence.after(state, noise, position)

Given the rounds before it, the noise of a round is Gaussian: its mean is `known`, a linear function of the earlier
noise, and its standard deviation is `spread` times that of Z. So every round takes one draw for each coordinate,
whatever the strategy. `after` gets the noise that the release really carries, including the rounding to its grid.
`position` counts the rounds since the last restart, at which the state is that of `init` again.

Noise and state are float64, shaped like the block, in steps of the grid that releases are rounded to.
"""

from __future__ import annotations

from typing import Any, Protocol


class Recurrence(Protocol):
    """The rows of a strategy's noise matrix, one after the other. Call it with 64-bit types enabled."""

    def init(self, template: Any) -> Any:
        """The state before the first round."""
        ...

    def ahead(self, state: Any, position: int) -> tuple[Any, float]:
        """Mean and relative standard deviation of this round's noise, given the earlier rounds'."""
        ...

    def after(self, state: Any, noise: Any, position: int) -> Any:
        """The state for the next round, once this one's noise is known."""
        ...
