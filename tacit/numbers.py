"""Numbers as JSON can hold them."""

from __future__ import annotations

import math


def finite_or_none(value: float | None) -> float | None:
    """The value itself if it is a finite number; None, which is null in JSON, if it is infinite, nan or not given."""
    return value if value is not None and math.isfinite(value) else None
