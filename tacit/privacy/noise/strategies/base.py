"""What a strategy is: how the noise of a round depends on that of other rounds, its sensitivity and its error.

A matrix mechanism over T rounds releases C x + Z for the rounds' sums x and independent Gaussian Z. C is lower
triangular with ones on its diagonal, so the same release reads x + C⁻¹ Z, round by round: each round's sum, plus noise that
subtracts part of the noise of earlier rounds. The sensitivity is how far one user can move C x; the prefix error is the noise
on the prefix sums x_0 + … + x_t, from which the model is made. A good strategy makes the product of both small.

A **restart** before round r forgets all noise made so far: C is block diagonal, with one block for each stretch of rounds
between restarts. Round numbers begin at 0, and a restart is the number of the first round of its stretch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PrivacyError
from tacit.privacy.accounting.correlated import Sensitivity
from tacit.privacy.participation.limits import Gap

if TYPE_CHECKING:
    from tacit.privacy.noise.mechanisms.recurrences import Recurrence

Floats = NDArray[np.float64]


class Strategy(Protocol):
    """A way to correlate noise between rounds; immutable, and equal to any other with the same description.

    >>> import tacit
    >>> from tacit.privacy.noise.strategies import from_description
    >>> plan = tacit.PrivacyPlan(mechanism="tree", sampling="check_in", population=90, cohort=10, min_separation=3,
    ...     max_participation=2, clip_norm=1.0, noise_multiplier=2.0, delta=1e-3)
    >>> strategy = plan.build_strategy(8)
    >>> from_description(strategy.describe()) == strategy
    True
    """

    @property
    def name(self) -> str:
        """What recipes and the ledger call it."""
        ...

    def stretches(self, rounds: int, restarts: Sequence[int] = ()) -> list[int]:
        """The lengths of the stretches between restarts; PrivacyError if the strategy cannot be used for them."""
        ...

    def sensitivity(self, rounds: int, gap: Gap, max_participation: int, restarts: Sequence[int] = ()) -> Sensitivity:
        """The squared sensitivity of all rounds together, in units of the clip: exact or a proven bound, and it says which."""
        ...

    def prefix_rmse(self, rounds: int, restarts: Sequence[int] = ()) -> float:
        """The root of the mean, over rounds, of the variance of the noise on the prefix sum, when Z has variance 1."""
        ...

    def noise_matrix(self, rounds: int, restarts: Sequence[int] = ()) -> Floats:
        """[rounds, draws]: the noise of each round's release as a product with independent N(0, 1) draws.

        Columns are in the order of the draws. Tests compare mechanisms with this matrix; no mechanism uses it.
        """
        ...

    def recurrence_error(self, rounds: int) -> float:
        """A: float64's error in what earlier rounds say about a round's noise, as `tacit.privacy.gate.rounding` takes it.

        In units of 2⁻⁵³ and of the deviation of what is drawn new, for noise whose draws may be off by a grid step
        and that is kept in steps of the grid; errors of second order are in it. 64 of it are for rounding the sum to
        2⁻²⁶ steps.
        """
        ...

    def recurrence(self, longest: int) -> Recurrence:
        """The noise, one round at a time, for at most so many rounds without a restart. It imports JAX when it is called."""
        ...

    def describe(self) -> dict[str, Any]:
        """All of it as JSON, its name under "strategy"; `from_description` gives an equal strategy back, to the last bit."""
        ...


def stretches(rounds: int, restarts: Sequence[int] = ()) -> list[int]:
    """The lengths of the stretches that restarts divide the rounds into."""
    borders = [0, *restarts, rounds]
    if any(first >= second for first, second in pairwise(borders)):
        shown = ", ".join(map(str, restarts))
        raise PrivacyError(
            f"Expected restarts in increasing order within rounds 1 to {rounds - 1}, got {shown or rounds}."
        )
    return [second - first for first, second in pairwise(borders)]


def size_of(combination: Floats) -> float:
    """How large a combination of draws is: its deviation, and what rounding each draw to a grid of σ · 2⁻²⁰ may add.

    A draw's own deviation may be as small as σ/2, so that the rounding is below 2⁻¹⁹ of it.
    """
    return float(np.sqrt(np.sum(combination**2)) + 2.0**-19 * np.sum(np.abs(combination)))


def within_horizon(name: str, horizon: int, rounds: int, restarts: Sequence[int] = ()) -> list[int]:
    """`stretches`; PrivacyError if one is longer than the strategy was optimised for."""
    lengths = stretches(rounds, restarts)
    if max(lengths) > horizon:
        raise PrivacyError(
            f"Expected at most {horizon} rounds without a restart, for which this {name} strategy was optimised,"
            f" got {max(lengths)}."
        )
    return lengths


def rmse_over(lengths: Sequence[int], variances: Floats) -> float:
    """The prefix RMSE of stretches, each with `variances[t]` on the sum of its first t + 1 rounds.

    The noise on a finished stretch's sum stays on every later prefix.
    """
    squares, carried = 0.0, 0.0
    for length in lengths:
        squares += float(np.sum(carried + variances[:length]))
        carried += float(variances[length - 1])
    return float(np.sqrt(squares / sum(lengths)))


def block_diagonal(blocks: Sequence[Floats]) -> Floats:
    """One matrix with these along its diagonal."""
    whole = np.zeros((sum(len(block) for block in blocks), sum(block.shape[1] for block in blocks)))
    row = column = 0
    for block in blocks:
        whole[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
    return whole


def numbers(description: Mapping[str, Any], field: str) -> tuple[float, ...]:
    """A list of finite numbers from a description."""
    given = description.get(field)
    if (
        not isinstance(given, (list, tuple))
        or any(isinstance(each, bool) or not isinstance(each, (int, float)) for each in given)
        or not np.isfinite(np.asarray(given, np.float64)).all()
    ):
        raise PrivacyError(f"The field {field} of a noise strategy is not a list of finite numbers.")
    return tuple(float(each) for each in given)


def horizon_of(description: Mapping[str, Any]) -> int:
    """The number of rounds a description was optimised for."""
    given = description.get("horizon")
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise PrivacyError(f"Expected horizon of a noise strategy to be a whole number of at least 1, got {given!r}.")
    return given
