"""What a guarantee rests on when users are on real devices, each line marked.

The ledger's first record says how the fleet was run (`Opened.data["fleet"]`). What the server looks at itself is enforced.
Under secure aggregation it sees no update and no norm, so what it could enforce without, it then has to assume of the devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.privacy.discretisation import DISCRETE
from tacit.privacy.records import Opened
from tacit.privacy.statement import Line, Mark


def fleet_of(opened: Opened) -> Mapping[str, Any] | None:
    """How the fleet was run; None for a simulation."""
    found = opened.data.get("fleet")
    return found if isinstance(found, Mapping) else None


def devices_are_trusted(opened: Opened) -> bool:
    """Whether the bound on one device's share is the device's own word."""
    fleet = fleet_of(opened)
    return fleet is not None and "norm" not in fleet.get("server_checks", ())


def device_lines(opened: Opened) -> list[Line]:
    """The lines that a run on devices adds."""
    fleet = fleet_of(opened)
    if fleet is None:
        return []
    found = [
        Line(
            "nobody takes part more often or sooner than the plan allows: checked by pseudonymous number before a place is "
            "given, and by every device for itself",
            Mark.ENFORCED,
        ),
        Line(
            "a round holds exactly as many reports as the plan says, each counted once; a round that falls short releases "
            "nothing",
            Mark.ENFORCED,
        ),
        Line(
            "sums without noise travel between the server's processes encrypted and authenticated, and are never in a "
            "database or on a disk",
            Mark.ENFORCED,
        ),
        Line("nothing is claimed from the secrecy of who takes part", Mark.ENFORCED),
        Line("one person enrols one device, and a device holds the data of one person", Mark.ASSUMED),
        Line("whether and when a device comes does not depend on what its user has written", Mark.ASSUMED),
    ]
    if fleet.get("transport") != "https":
        found.append(Line("devices and server are one machine: updates travel without encryption", Mark.ASSUMED))
    return found + (_secure(opened, fleet) if devices_are_trusted(opened) else _plain())


def _plain() -> list[Line]:
    return [
        Line(
            "devices clip, and the server computes the norm of every update again and refuses one that is longer",
            Mark.ENFORCED,
        ),
        Line(
            "the server's processes see single updates in their memory: they run this code, and keep updates to themselves",
            Mark.ASSUMED,
        ),
    ]


def _secure(opened: Opened, fleet: Mapping[str, Any]) -> list[Line]:
    noise = " and adds its share of noise, drawn exactly" if opened.mechanism == DISCRETE else ""
    return [
        Line("the server sees sums of at least the report goal, and no device's update", Mark.ENFORCED),
        Line(
            f"every device clips and encodes as the task says{noise}: under secure aggregation the server cannot look, and a "
            "device that does not moves the sum by more than the bound, or makes it wrap",
            Mark.ASSUMED,
        ),
        Line(
            "the server follows the protocol of secure aggregation and only looks (curious): its own enrolment vouches for "
            "the devices' identities",
            Mark.ASSUMED,
        ),
        Line(
            f"at most {float(fleet.get('corruption', 0)):.0%} of a round's devices work for the server, and at most "
            f"{float(fleet.get('dropout', 0)):.0%} are lost",
            Mark.ASSUMED,
        ),
    ]
