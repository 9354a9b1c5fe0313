"""Figures as people read them: bounds, and noise that somebody may copy, are rounded up and never down."""

from __future__ import annotations

import math

# A computed value that lies above a rounded one by no more than this share of it is that one, with floating-point error.
_FLOAT_ERROR = 1e-12


def rounded_up(value: float, digits: int = 4) -> str:
    """This many significant digits, rounded up, so that a bound stays a bound."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    nearest = float(f"{value:.{digits}g}")
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return f"{nearest if nearest * (1 + _FLOAT_ERROR) >= value else nearest + unit:.{digits}g}"
