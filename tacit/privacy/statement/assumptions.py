"""What a run's guarantee rests on: each thing enforced by the code, observed in the ledger, or assumed.

This module also compares the ledger with its own plan: where they differ, or where this version of Tacit does not know what the
run did, nothing may be claimed (`objections`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tacit.privacy.accounting.device_noise import constants_of
from tacit.privacy.accounting.spent import Spent, rounds_of
from tacit.privacy.accounting.zcdp import gaussian_rho
from tacit.privacy.gate.discretisation import DISCRETE
from tacit.privacy.plan import ADJACENCY, CORRELATED
from tacit.privacy.record.departures import departures_from_plan
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.records import Intent, Opened
from tacit.privacy.statement.on_devices import device_lines, devices_are_trusted, fleet_of
from tacit.privacy.statement.wording import Line, Mark, plain, times

# Samplings whose secrecy the proof rests on.
SAMPLED = ("poisson", "fixed")
# The samplings a mechanism is proven under. What is not listed here is not described, and claims nothing.
PROVEN_UNDER: dict[str, tuple[str, ...]] = {
    "gaussian": ("poisson", "fixed", "check_in"),
    "none": ("poisson", "fixed", "check_in"),
    DISCRETE: ("check_in",),
    **dict.fromkeys(CORRELATED, ("check_in",)),
}


@dataclass(frozen=True)
class Observed:
    """What the participation record, which the run's owner alone can read, says about participation."""

    most_participations: int


def objections(ledger: Ledger, spent: Spent) -> list[str]:
    """Why no finite epsilon may be stated from this ledger, beyond the reasons in the ledger itself; usually none."""
    opened, sampling = ledger.opened, str(ledger.opened.plan.get("sampling"))
    found = departures(ledger)
    if sampling not in PROVEN_UNDER.get(opened.mechanism, ()):
        return found
    if spent.adjacency != opened.adjacency:
        found.append(f"the cost was computed for other neighbours ({plain(spent.adjacency)}) than the ledger's")
    if spent.releases != len(ledger.intents):
        found.append(f"{spent.releases} releases were accounted, the ledger has {len(ledger.intents)}")
    if spent.rounds_planned != opened.rounds:
        found.append(f"{spent.rounds_planned} rounds were accounted, the ledger plans {opened.rounds}")
    if sampling not in SAMPLED and opened.mechanism != "none":
        found += _doubts_about_rho(spent.rho, opened, ledger.intents)
    return found


def departures(ledger: Ledger) -> list[str]:
    """Where the ledger is not one whose cost is proven, or departs from its own plan; usually empty."""
    opened, sampling = ledger.opened, str(ledger.opened.plan.get("sampling"))
    if opened.mechanism not in PROVEN_UNDER:
        return [f"the mechanism {plain(opened.mechanism)!r} is unknown to this version of Tacit"]
    if sampling not in PROVEN_UNDER[opened.mechanism]:
        return [f"nothing is proven here for the mechanism {opened.mechanism!r} with the sampling {plain(sampling)!r}"]
    found = []
    if opened.adjacency != ADJACENCY[sampling]:
        found.append(f"the stated neighbours ({plain(opened.adjacency)}) are not those of {sampling} sampling")
    if opened.strategy.get("strategy") != (opened.mechanism if opened.mechanism in CORRELATED else None):
        found.append(f"the ledger does not describe how the noise of the mechanism {opened.mechanism!r} is correlated")
    return found + departures_from_plan(opened, ledger.intents)


def _doubts_about_rho(rho: float | None, opened: Opened, intents: Sequence[Intent]) -> list[str]:
    """Without sampling the proof is a rho, and a single participation costs at least 1/(2z²), however noise is correlated.

    With noise from devices it costs at least what the noise of a full cohort leaves: no round has more noise.
    """
    if rho is None or math.isinf(rho):
        return ["rho was not computed, and without sampling the proof needs it"]
    most_noise = max((group.noise_multiplier for group in rounds_of(intents)), default=math.inf)
    least = gaussian_rho(most_noise)
    if opened.mechanism == DISCRETE:
        noise = constants_of(opened)
        least = noise.rho(int(opened.plan["cohort"])) if noise is not None and intents else 0.0
    if rho < least * (1 - 1e-9):
        return ["the computed rho is less than a single participation costs"]
    return []


def assumptions_of(
    ledger: Ledger, spent: Spent, observed: Observed | None = None, happened: Spent | None = None
) -> tuple[Line, ...]:
    """Everything the guarantee rests on, marked. What the accountant lists without proof is always marked assumed.

    `observed` and `happened` are what the owner's participation record shows.
    """
    opened, sampling = ledger.opened, str(ledger.opened.plan.get("sampling"))
    on_devices = device_lines(opened)
    lines = [Line(text, Mark.ENFORCED) for text in _enforced(opened, ledger.intents, sampling)]
    lines += [line for line in on_devices if line.mark is Mark.ENFORCED]
    lines += [Line(text, Mark.OBSERVED) for text in _seen(ledger)]
    lines += [Line(text, Mark.OBSERVED) for text in _recorded(ledger, happened or spent, observed)]
    lines += [Line(text, Mark.ASSUMED) for text in (*spent.assumptions, *_assumed(opened))]
    lines += [line for line in on_devices if line.mark is Mark.ASSUMED]
    return tuple(replace(line, text=line.text[:1].upper() + line.text[1:]) for line in lines)


def _enforced(opened: Opened, intents: Sequence[Intent], sampling: str) -> list[str]:
    bounded = all(block["bound"] is not None for intent in intents for block in intent.blocks.values())
    before = (
        "the round read a user's data" if fleet_of(opened) is None else "anything of the round left the users' side"
    )
    found = [
        f"every release is counted: its intent was on disk before {before}, and counts even if the round was cut off"
    ]
    trusted = devices_are_trusted(opened)
    if bounded and not trusted:
        found.append(
            "one user moves a released sum by at most the stated bound: norms, clipping and sums are computed in float64, and "
            "the bound includes rounding"
        )
    # The server cannot check the noise that devices draw.
    drawn_here = opened.mechanism != DISCRETE or not trusted
    if opened.mechanism != "none" and not opened.seeded and drawn_here:
        found.append(
            "the noise has the stated scale and comes from the operating system's entropy; no key is ever on disk, so "
            + (
                "a resumed run, or a copy of it, adds fresh draws to every later sum"
                if opened.mechanism in CORRELATED  # the state they share holds the draws of before
                else "neither a resumed run nor a copy of it adds the same draws to another sum"
            )
        )
        found.append(
            "devices draw their noise exactly, in integers, and its tail is complete"
            if opened.mechanism == DISCRETE
            else "the noise is the ideal Gaussian's, rounded to a grid, to the last bit and with all of its tail; what float64 "
            "adds to correlated noise is within the room for rounding"
        )
    if "secagg" in opened.data and opened.mechanism != DISCRETE and not trusted:
        found.append(
            f"sums of {opened.data['secagg'].get('bits')}-bit integers cannot wrap around: the largest cohort times the "
            "largest entry is below half the modulus; the bound on one user's share includes what rounding adds"
        )
    if sampling in SAMPLED:
        found.append(
            "the sampler is the one that was accounted for: one plan builds both, and a cohort is never cut or filled up"
        )
    if sampling == "fixed":
        found.append("there are at least as many users as the stated population")
    return found


def _assumed(opened: Opened) -> list[str]:
    if "batching" not in opened.data:
        return []
    return [
        f"the batching {plain(opened.data['batching'])}, which was given one user's examples at a time, keeps nothing from one "
        "user to the next in variables of its module or class, in files or in a shared random generator"
    ]


def _seen(ledger: Ledger) -> list[str]:
    intents = ledger.intents
    found = ["the chain of records is unbroken from the first record to the last"]
    if not intents:
        return found
    again = len(intents) - len({intent.round for intent in intents})
    found.append(
        f"{len(intents):,} releases in {len(intents) - again:,} rounds"
        + (f"; rounds that ran again are {again:,} of them, and count too" if again else "")
    )
    for name in intents[0].blocks:
        blocks = [intent.blocks.get(name, {"bound": None, "noise_multiplier": 0.0}) for intent in intents]
        bounds, noise = (_span([block[key] for block in blocks]) for key in ("bound", "noise_multiplier"))
        found.append(f"block {plain(name)}: bound on one user's share {bounds}, noise multiplier {noise}")
    if len({(str(intent.sampling), intent.denominator) for intent in intents}) == 1:
        found.append("every release names the same sampling constants and the same public denominator")
    return found


def _recorded(ledger: Ledger, spent: Spent, observed: Observed | None) -> list[str]:
    """What the owner's participation record adds."""
    if spent.participation is not None and spent.participation.observed:
        often, apart = times(spent.participation.max_participation), spent.participation.min_separation
        found = f"nobody took part more than {often}, and there were at least {apart} rounds between two participations"
        if len(ledger.intents) > len({intent.round for intent in ledger.intents}):
            # Each way is accounted by itself: a user may have been in a round that was lost and in the one in its place.
            found = f"{found}, on each of the ways that the run took through its rounds, lost rounds included"
        return [found]
    if observed is None:
        return []
    return [
        f"the participation record matches the ledger, and nobody took part more than {times(observed.most_participations)}"
    ]


def _span(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "none"
    return f"{min(known):.4g}" if min(known) == max(known) else f"{min(known):.4g} to {max(known):.4g}"
