"""Numbers for JSON: finite ones stay, all others are null."""

from __future__ import annotations

import math

from tacit.numbers import finite_or_none


def test_only_finite_numbers_stay() -> None:
    assert [finite_or_none(value) for value in (0.0, -1.5, 1e308)] == [0.0, -1.5, 1e308]
    assert [finite_or_none(value) for value in (math.inf, -math.inf, math.nan, None)] == [None] * 4
