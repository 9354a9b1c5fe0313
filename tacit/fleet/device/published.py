"""Compares a ledger that was published with what the public log said of the rounds that this device took part in.

The log has, for each committed try, the digest of the run's last ledger record at that moment. Each digest in a ledger covers
all records before it, so a ledger that has this one has every record that it had then. A ledger that lacks it had a round left
out, was rewritten, or is another one than the devices were in: epsilon computed from it is not that of what happened.

A server could also tell devices one thing and write another into the ledger from the start. So the ledger's clip, noise and
strategy are compared with those that the device was asked under: less clip, more noise or a less sensitive strategy in the
ledger makes its epsilon smaller than that of what the device was told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from tacit.errors import FleetError
from tacit.fleet.device.account import Contributed, Sending
from tacit.fleet.wire.task import NoiseTerms
from tacit.privacy.noise.strategies import from_description
from tacit.privacy.participation.limits import Gap
from tacit.privacy.record.ledger import Ledger, read_ledger
from tacit.privacy.record.records import UPDATE

# The device's clip and noise went through float32 and text on their way.
_ROOM = 1e-6


def found_in_ledger(
    contributions: Sequence[Contributed], path: Path, noise: Mapping[str, NoiseTerms | None] | None = None
) -> int:
    """How many of this device's committed rounds the ledger has, under the terms that the device was told or weaker ones.

    `noise` is what each task said about its noise. FleetError if the ledger lacks a round, states better terms than the device
    was told, or if there is nothing to compare.
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
        better = _better_terms(ledger, each.sent, (noise or {}).get(each.sent.task))
        if better is not None:
            raise FleetError(
                f"The ledger {path} says of round {each.sent.round} of {each.sent.name!r} {better}: epsilon computed from it "
                "is not that of what this device was asked for."
            )
    if not mine:
        raise FleetError(
            f"This device knows of no committed round of the run {run}.",
            hint="Let it look into the server's log first: tacit device receipts --check",
        )
    return len(mine)


def _better_terms(ledger: Ledger, sent: Sending, noise: NoiseTerms | None) -> str | None:
    """What the ledger says of the round that is better than what the device was told; None if nothing is."""
    blocks = [each.blocks.get(UPDATE, {}) for each in ledger.intents if each.round == sent.round]
    clips = (math.inf if (bound := block.get("bound")) is None else bound for block in blocks)
    if (clip := max(clips, default=0.0)) < sent.clip_norm * (1 - _ROOM):
        return f"that no contribution was longer than {clip:.6g}, and the device was told {sent.clip_norm:.6g}"
    if sent.noise_from == "devices":  # it has added its share itself
        return None
    added = min((block.get("noise_multiplier") or 0.0 for block in blocks), default=math.inf)
    if added > sent.noise_multiplier * (1 + _ROOM):
        return (
            f"that noise of {added:.6g} times the clip was added, and the device was told {sent.noise_multiplier:.6g}"
        )
    if noise is None or not ledger.opened.strategy:
        return None
    return _other_strategy(ledger, noise)


def _other_strategy(ledger: Ledger, noise: NoiseTerms) -> str | None:
    """How the ledger's strategy lets participations show more than the device was told; None if it does not."""
    plan, strategy = ledger.opened.plan, from_description(ledger.opened.strategy)
    gap, restarts = Gap(int(plan["min_separation"] or 0)), list(plan["restarts"])
    for number, told in enumerate(noise.moved_squared or (1.0,), start=1):
        moved = strategy.sensitivity(ledger.opened.rounds, gap, number, restarts).squared
        if moved > told * (1 + _ROOM):
            times = (
                "1 participation of one device moves" if number == 1 else f"{number} participations of one device move"
            )
            return f"that {times} its releases by {math.sqrt(moved):.4g} clips, and the device was told {math.sqrt(told):.4g}"
    return None
