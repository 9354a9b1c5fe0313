"""How large a round of secure aggregation has to be, and which threshold it gets, from what may go wrong in it.

Of n selected devices, masking takes exactly the report goal g, so n - g are lost by design: they were selected because some
never come. After masking a further share d of the g may drop out (`fleet.dropout`), and their shares of everybody's secrets
with them. Both count: of n devices only g - ⌊d g⌋ are sure to reveal. Each device that reveals false shares costs two more,
itself and one to correct it (`tacit.secagg.decoding`): room is left for as many as are assumed to be corrupt, if the round is
large enough for that, and for fewer if not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

from tacit.errors import FleetError, ProtocolError
from tacit.recipe.sections import FleetSection
from tacit.secagg import parameters
from tacit.secagg.parameters import Parameters


@lru_cache(maxsize=4096)
def size_for(devices: int, goal: int, *, dropout: float, corruption: float) -> Parameters:
    """Neighbours and threshold for so many devices, of whose vectors `goal` are taken; ProtocolError if they are too few.

    They are safe against a malicious server where so many devices allow it, and else against an honest-but-curious one.
    """
    for against in (parameters.against_malicious, parameters.against_curious):
        if (found := _sized(against, devices, goal, dropout=dropout, corruption=corruption)) is not None:
            return found
    raise ProtocolError(f"Expected more than {devices} devices in a round of secure aggregation with a goal of {goal}.")


def trusting(goal: int, places: int, section: FleetSection) -> str | None:
    """A sentence for whoever starts a run whose full rounds hold only against a server that follows the protocol; else None.

    Devices whose owner's policy expects a malicious server, as the default does, take no part in such rounds.
    """

    def holds(devices: int, dropout: float) -> bool:
        odds = {"dropout": dropout, "corruption": section.corruption}
        return _sized(parameters.against_malicious, devices, goal, **odds) is not None

    if holds(places, section.dropout):
        return None
    percent = _most(lambda each: holds(places, each / 100), 0, int(100 * section.dropout))
    fewer = _most(lambda each: holds(each, section.dropout), goal, places)
    better = [] if percent is None else [f"fleet.dropout = {percent / 100:g}"]
    better += [] if fewer is None else [f"fleet.over_selection = {math.floor(1000 * fewer / goal) / 1000:g}"]
    advice = f" They hold against one that lies with {' or '.join(better)}." if better else ""
    return (
        f"Rounds of {places} devices with a report goal of {goal} and fleet.dropout = {section.dropout:g} hold only against a "
        f"server that follows the protocol, and devices with the default policy refuse them.{advice}"
    )


def _sized(
    against: Callable[..., Parameters], devices: int, goal: int, *, dropout: float, corruption: float
) -> Parameters | None:
    """Parameters of this kind with room to correct as many false shares as possible; None if there are none."""
    gone = devices - goal + math.floor(dropout * goal + 1e-9)
    for corrected in range(math.ceil(corruption * devices), -1, -1):
        lost = max(0.0, gone + 2 * corrected - 1e-6) / devices
        if lost < 1:
            with suppress(ProtocolError):
                return against(devices, dropout=lost, corruption=corruption)
    return None


def _most(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """The most of these that fits, if less fits wherever more does; None if not even the least fits."""
    if not fits(low):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def lost_share(goal: int, places: int, dropout: float) -> float:
    """The share of `places` devices that may be lost in a round which ends with `goal` vectors."""
    return 1 - (1 - dropout) * goal / places


def fewest_devices(goal: int, most: int, *, dropout: float, corruption: float) -> int | None:
    """The fewest devices, from the goal to `most`, with which a round can end; None if there is no such number."""
    for devices in range(max(goal, 2), most + 1):
        try:
            size_for(devices, goal, dropout=dropout, corruption=corruption)
        except ProtocolError:
            continue
        return devices
    return None


def require_possible(goal: int, most: int, section: FleetSection) -> int:
    """The fewest devices that a round needs, of `most`; FleetError if no round of this recipe can ever end."""
    odds = {"dropout": section.dropout, "corruption": section.corruption}
    if (found := fewest_devices(goal, most, **odds)) is not None:
        return found
    enough = next((each for each in range(goal + 1, 64) if fewest_devices(each, 2 * each, **odds) is not None), None)
    raise FleetError(
        f"No round of secure aggregation can end with a goal of {goal} reports from at most {most} devices when "
        f"{section.dropout:.0%} of them drop out and {section.corruption:.0%} are corrupt.",
        hint=None if enough is None else f"Set privacy.cohort to {enough} or more, or lower fleet.dropout.",
    )
