"""Compares a ledger that was published with what the public log said of the rounds that this device took part in.

The log has, for each committed try, the digest of the run's last ledger record at that moment. Each digest in a ledger covers
all records before it, so a ledger that has this one has every record that it had then. A ledger that lacks it had a round left
out, was rewritten, or is another one than the devices were in: epsilon computed from it is not that of what happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tacit.errors import FleetError
from tacit.fleet.device.account import Contributed
from tacit.privacy.record.ledger import read_ledger


def found_in_ledger(contributions: Sequence[Contributed], path: Path) -> int:
    """How many of this device's committed rounds the ledger has.

    FleetError if it lacks one, or if there is none to compare.
    """
    ledger = read_ledger(path)
    run, known = ledger.opened.run_id, frozenset(ledger.digests())
    mine = [each for each in contributions if each.sent.run == run and each.committed_digest is not None]
    for each in mine:
        if each.committed_digest not in known:
            raise FleetError(
                f"The ledger {path} is not the one of round {each.sent.round} of {each.sent.name!r}, in which this device took "
                "part: it lacks the record that the server's log names, so rounds were left out or changed."
            )
    if not mine:
        raise FleetError(
            f"This device knows of no committed round of the run {run}.",
            hint="Let it look into the server's log first: tacit device receipts --check",
        )
    return len(mine)
