"""What would fit into the rest of a budget, where that is quick to find: fewer rounds, or more noise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from tacit.privacy.accounting.budget_filter import Limit, most_rho, spending
from tacit.privacy.accounting.charges import Charge

# How far noise is looked for, and how finely.
_MOST_NOISE, _NOISE_STEPS = 64.0, 12


def what_fits(charges: Mapping[str, Charge], charge: Charge, limit: Limit) -> str | None:
    """A sentence about what would fit in the place of this charge beside the others; None if nothing is known to."""

    def fits(changed: Charge) -> bool:
        return spending({**charges, "": changed}, limit).value <= limit.value

    if charge.threshold_delta or charge.words is not None or charge.rho_of_words:
        return None
    if len(charge.rounds) == 1 and not charge.rho:
        return _of_rounds(charge, fits)
    if not charge.rounds and charge.rho > 0 and (room := most_rho(charges, limit)) > 0:
        return f"It would fit with a noise multiplier {_up(math.sqrt(charge.rho / room))} times as large."
    return None


def _of_rounds(charge: Charge, fits: Callable[[Charge], bool]) -> str | None:
    (group,) = charge.rounds

    def changed(**changes: Any) -> Charge:
        return dataclasses.replace(charge, rounds=(dataclasses.replace(group, **changes),))

    few, many = 0, group.count
    while many - few > max(1, group.count // 256):
        half = (few + many) // 2
        few, many = (half, many) if fits(changed(count=half)) else (few, half)
    found = [] if few == 0 else [f"{few:,} of its {group.count:,} rounds"]
    least, most = 1.0, _MOST_NOISE
    if fits(changed(noise_multiplier=group.noise_multiplier * most)):
        for _ in range(_NOISE_STEPS):
            middle = math.sqrt(least * most)
            least, most = (
                (least, middle) if fits(changed(noise_multiplier=group.noise_multiplier * middle)) else (middle, most)
            )
        found.append(f"all of them with a noise multiplier {_up(most)} times as large")
    return f"What would fit: {', or '.join(found)}." if found else None


def _up(value: float) -> str:
    return f"{math.ceil(value * 100) / 100:.2f}"
