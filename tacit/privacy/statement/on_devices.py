"""What a guarantee rests on when users are on real devices, each line marked.

The ledger's first record says how the fleet was run (`Opened.fleet`). What the server checks itself is enforced. Under
secure aggregation it sees no update and no norm, so it has to assume of the devices what it could otherwise enforce.
"""

from __future__ import annotations

from tacit.privacy.noise.kinds import kind_of
from tacit.privacy.record.facts import FleetRecord
from tacit.privacy.record.records import Opened
from tacit.privacy.statement.wording import Line, Mark


def devices_are_trusted(opened: Opened) -> bool:
    """Whether the server has to take a device's word for the bound on its share."""
    return opened.fleet is not None and not opened.fleet.checks_norms


def device_lines(opened: Opened) -> list[Line]:
    """The lines that a run on devices adds."""
    fleet = opened.fleet
    if fleet is None:
        return []
    found = [
        Line(
            "no device takes part more often or sooner than the plan allows: the server checks its pseudonymous number before "
            "it gives the device a place, and every device checks for itself",
            Mark.ENFORCED,
        ),
        Line(
            "a round holds exactly as many reports as the plan says, or a record of the ledger that adjusts it, each counted "
            "once; a round with fewer reports releases nothing",
            Mark.ENFORCED,
        ),
        Line(
            "sums without noise are encrypted and authenticated between the server's processes, and are never written to a "
            "database or a disk",
            Mark.ENFORCED,
        ),
        Line("the proof does not need it to be secret who takes part", Mark.ENFORCED),
        Line("one person enrols one device, and a device holds the data of one person", Mark.ASSUMED),
        Line("whether and when a device takes part does not depend on what its user has written", Mark.ASSUMED),
    ]
    if fleet.transport != "https":
        found.append(
            Line("devices and server run on one machine, so updates are not encrypted on the way", Mark.ASSUMED)
        )
    return found + (_secure(opened, fleet) if devices_are_trusted(opened) else _plain())


def _plain() -> list[Line]:
    return [
        Line(
            "devices clip their updates, and the server computes the norm of every update and refuses one above the clip",
            Mark.ENFORCED,
        ),
        Line(
            "the server's processes, which see single updates in their memory, run this code and keep the updates secret",
            Mark.ASSUMED,
        ),
    ]


def _secure(opened: Opened, fleet: FleetRecord) -> list[Line]:
    noise = " and adds its share of the noise, drawn exactly" if kind_of(opened.mechanism).on_devices else ""
    return [
        Line(
            "the server sees sums of at least as many updates as the report goal, and no single update", Mark.ENFORCED
        ),
        Line(
            f"every device clips and encodes as the task says{noise}; the server cannot check this under secure aggregation, "
            "and a device that does otherwise can move the sum by more than the bound or make it wrap around",
            Mark.ASSUMED,
        ),
        Line(
            "the server is honest but curious: it follows the protocol of secure aggregation, and its enrolment is trusted for "
            "the identities of the devices",
            Mark.ASSUMED,
        ),
        Line(
            f"at most {fleet.corruption or 0:.0%} of a round's devices collude with the server, and "
            f"at most {fleet.dropout or 0:.0%} drop out",
            Mark.ASSUMED,
        ),
    ]
