"""What a device's rounds cost its user, as the device itself can prove it: from noise that devices add.

Only noise that is certainly in the sum counts: that of the fewest devices of the session, less all that the owner assumes
corrupt. Where the server adds the noise the device has no proof of it, and such a round's cost is infinite here.
"""

from __future__ import annotations

import math

from tacit.fleet.device.terms import PolicyRefusal
from tacit.fleet.wire.task import DeviceTask
from tacit.privacy.accounting.discrete_gaussian import rho
from tacit.privacy.accounting.zcdp import epsilon_of_any
from tacit.secagg.session import Session


def rho_of_round(task: DeviceTask, session: Session | None, *, bit: bool, corruption: float) -> float:
    """ρ of one round for this user, against everybody who sees its sum; infinite if devices add no noise."""
    terms = task.secagg
    if terms is None or session is None or terms.local_variance == 0:
        return math.inf
    encoding = terms.encoding()
    moved = encoding.norm_limit_squared + (encoding.element_clip**2 if terms.weighted else 0) + (1 if bit else 0)
    noisy = session.minimum - math.ceil(corruption * session.devices)
    return rho(float(moved), local_variance=terms.local_variance, devices=noisy, dimension=session.dimension)


def epsilon_of(spent: float, delta: float) -> float:
    """The ε of all rounds with this ρ together."""
    return epsilon_of_any(spent, delta)


def require_affordable(spent: float, cost: float, *, most: float | None, delta: float) -> None:
    """PolicyRefusal if a round of this cost would bring the device's own ε over the policy's limit."""
    if most is None:
        return
    then = epsilon_of(spent + cost, delta)
    if not then <= most:
        raise PolicyRefusal(
            f"The owner's policy allows ε = {most:g} in all, and with this round it would be {then:.3g}."
        )
