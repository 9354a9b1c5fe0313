"""Everything that is sent to an experiment tracker.

These are the numbers of an evaluation, the plan's settings, and the cost of a finished run with the sentence of its guarantee.
A run is identified by its id and the name of its folder. Tacit sends nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tacit.errors import RunError
from tacit.runs.callbacks import RunEnd, RunStart


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics that are finite numbers.

    >>> numbers({"top1": 0.25, "measured_on": "held-out users", "epsilon_if_planned_to_end_here": None})
    {'top1': 0.25}
    """
    found = {
        name: each for name, each in metrics.items() if isinstance(each, int | float) and not isinstance(each, bool)
    }
    return {name: float(each) for name, each in found.items() if math.isfinite(each)}


def settings(run: RunStart) -> dict[str, str | int | float | bool]:
    """The number of rounds and the plan, as flat values; what is not set is left out.

    >>> settings(RunStart("mine", "7f", {"cohort": 20.0, "secagg": None, "restarts": [8]}, rounds=16, rounds_done=0))
    {'rounds': 16, 'privacy.cohort': 20.0, 'privacy.restarts': '[8]'}
    """
    found: dict[str, str | int | float | bool] = {"rounds": run.rounds}
    for name, value in run.plan.items():
        if value not in (None, [], {}):
            found[f"privacy.{name}"] = value if isinstance(value, str | int | float) else json.dumps(value)
    return found


def cost(end: RunEnd) -> dict[str, float]:
    """Epsilon and delta of a finished run. An infinite epsilon is left out: the sentence of the guarantee says why.

    >>> cost(RunEnd("finished", 1.5, 1e-06, "ε = 1.50 at δ = 1e-06."))
    {'epsilon': 1.5, 'delta': 1e-06}
    """
    return numbers({"epsilon": end.epsilon, "delta": end.delta})


def tracker_module(name: str, extra: str) -> Any:
    """The tracker's own package; RunError with the extra to install if it is not there."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise RunError(f"This callback needs the package {name}.", hint=f'pip install "tacit[{extra}]"') from None
