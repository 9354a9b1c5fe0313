"""Numbers as JSON can hold them, and as people read them: a bound, or noise that somebody may copy, is rounded up."""

from __future__ import annotations

import math

# A computed value that lies above a rounded one by no more than this share of it is that one, with floating-point error.
_FLOAT_ERROR = 1e-12


def finite_or_none(value: float | None) -> float | None:
    """The value itself if it is a finite number; None, which is null in JSON, if it is infinite, nan or not given."""
    return value if value is not None and math.isfinite(value) else None


def rounded_up(value: float, digits: int = 4) -> str:
    """This many significant digits, rounded up, so that a bound stays a bound."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    nearest = float(f"{value:.{digits}g}")
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return f"{nearest if nearest * (1 + _FLOAT_ERROR) >= value else nearest + unit:.{digits}g}"
