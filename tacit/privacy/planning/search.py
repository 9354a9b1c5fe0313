"""The largest setting whose cost stays within a target, where a larger one never costs less."""

from __future__ import annotations

import math
from collections.abc import Callable

TOLERANCE = 2e-4
# The least noise multiplier that a search tries: already here one round costs ε > 1,000, and accountants slow down below it.
LEAST_SEARCHED_NOISE = 0.02
# The least factor between two tries while one end of the bracket is missing; it is squared each time.
_FIRST_STRIDE = 1.03
_LONGEST_STRIDE = 1e3


def largest_within(
    cost: Callable[[float], float],
    target: float,
    least: float,
    most: float,
    *,
    whole: bool = False,
    start: float | None = None,
    tolerance: float = TOLERANCE,
) -> float | None:
    """An x in [least, most], both above 0, with cost(x) ≤ target, and at most `tolerance` (relative) below the largest.

    With `whole`, only whole numbers are tried, and up to 1 / tolerance the answer is the largest itself. None if cost(least)
    is above the target. `cost` is called about ten times, only inside [least, most], and may be infinite.
    """

    def allowed(x: float) -> float:
        return min(max(float(round(x)) if whole else x, least), most)

    x = allowed(math.sqrt(least * most) if start is None else start)
    stride, slope = _FIRST_STRIDE, 1.0
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    before: tuple[float, float] | None = None
    while low is None or high is None:
        here = cost(x)
        within = here <= target
        if x >= most if within else x <= least:
            return x if within else None
        low, high = ((x, here), high) if within else (low, (x, here))
        # Where a power of x would meet the target, and a little beyond it.
        slope = _slope(before, (x, here), slope)
        ratio = target / here if 0 < here < math.inf else _LONGEST_STRIDE if within else 1 / _LONGEST_STRIDE
        beyond = max(ratio, 1 / ratio) ** (1 / slope) * _FIRST_STRIDE
        beyond = min(max(beyond, stride), _LONGEST_STRIDE)
        before, stride = (x, here), stride * stride
        x = allowed(max(x * beyond, x + 1 if whole else x) if within else min(x / beyond, x - 1 if whole else x))
    return _narrowed(cost, target, low, high, whole, tolerance)


def _slope(one: tuple[float, float] | None, other: tuple[float, float], otherwise: float) -> float:
    """The slope of log cost over log x between two points, within fixed limits."""
    if one is None or one[0] == other[0] or not (0 < one[1] < math.inf and 0 < other[1] < math.inf):
        return otherwise
    return min(max(math.log(other[1] / one[1]) / math.log(other[0] / one[0]), 0.3), 4.0)


def _narrowed(
    cost: Callable[[float], float],
    target: float,
    low: tuple[float, float],
    high: tuple[float, float],
    whole: bool,
    tolerance: float,
) -> float:
    """The lower end of the bracket, once its ends are close: interpolation in logarithms, halving where that stalls."""
    halve = False
    while high[0] - low[0] > max(low[0] * tolerance, 1.0 if whole else 0.0):
        width = math.log(high[0] / low[0])
        share = 0.5
        if not halve and 0 < low[1] < high[1] < math.inf:
            # Next to the root, by less than the tolerance, on the side of the farther end, so that both ends move in.
            share = math.log(target / low[1]) / math.log(high[1] / low[1])
            share += (0.4 if share < 0.5 else -0.4) * tolerance / width
        x = low[0] * math.exp(width * min(max(share, 0.0), 1.0))
        if whole:
            x = float(min(max(round(x), low[0] + 1), high[0] - 1))
        elif not low[0] < x < high[0]:
            x = math.sqrt(low[0] * high[0])
        here = cost(x)
        if here <= target:
            low = (x, here)
        else:
            high = (x, here)
        halve = not halve and math.log(high[0] / low[0]) > width / 2
    return low[0]
