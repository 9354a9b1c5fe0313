"""Warnings, before a run begins, that the plan's noise will harm the model (Gboard, section 2.1: catastrophic starts).

The noise on a mean of m updates has, in d coordinates, a norm of about z · C · √d / m. No mean is longer than the clip C, so
z √d / m is a lower bound on the ratio of noise to signal in one round, whatever C is. Averaging over rounds reduces it; a
large C with much shorter updates increases it. Everything here is computed from public numbers.
"""

from __future__ import annotations

import math

from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.records import UPDATE

# If the noise is this many times as long as any mean update, there is a warning.
HOPELESS = 4.0


def noise_norm(plan: PrivacyPlan, parameters: int) -> float:
    """The norm to expect of one round's noise on the mean update, at the clip the plan begins with."""
    if plan.clip_norm is None:
        return 0.0
    return plan.noise_multipliers[UPDATE] * plan.clip_norm * math.sqrt(parameters) / plan.denominator


def warnings_of(plan: PrivacyPlan, *, parameters: int, model_norm: float, server_rate: float) -> list[str]:
    """One sentence for each problem; none for a sound plan.

    `server_rate` is how far the model moves in the end for a mean update of norm 1.
    """
    noise = noise_norm(plan, parameters)
    if noise == 0 or plan.clip_norm is None:
        return []
    found = []
    if noise > HOPELESS * plan.clip_norm:
        found.append(
            f"The noise on a mean update will be about {noise / plan.clip_norm:.1f} times as long as any update can be: "
            "raise privacy.cohort, or lower privacy.noise_multiplier."
        )
    if noise * server_rate > model_norm:
        found.append(
            f"The first round's noise alone will move the model by about {noise * server_rate:.3g}, more than all of it "
            f"measures ({model_norm:.3g}): begin with a smaller privacy.clip_norm or server.learning_rate."
        )
    return found
