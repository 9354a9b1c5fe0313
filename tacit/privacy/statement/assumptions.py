"""What a run's guarantee rests on: each thing enforced by the code, observed in the ledger, or assumed.

This module also compares the ledger with its own plan: where they differ, or where this version of Tacit does not know what the
run did, nothing may be claimed (`objections`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tacit.privacy.accounting.claims import outside_objection
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.noise.kinds import KINDS, kind_of
from tacit.privacy.noise.kinds.correlated import undescribed
from tacit.privacy.outside import is_path
from tacit.privacy.participation.cyclic import CYCLIC
from tacit.privacy.plan import ADJACENCY
from tacit.privacy.record.departures import departures_from_plan
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.reasons import Reason, Why
from tacit.privacy.record.records import Intent, Opened
from tacit.privacy.statement.on_devices import device_lines, devices_are_trusted
from tacit.privacy.statement.witnessed import witness_lines
from tacit.privacy.statement.wording import Line, Mark, counted, plain, times

# Samplings whose secrecy the proof rests on.
SAMPLED = ("poisson", "fixed", CYCLIC)


@dataclass(frozen=True)
class Observed:
    """What the participation record, which the run's owner alone can read, says about participation."""

    most_participations: int


def objections(ledger: Ledger, spent: Spent) -> list[Reason]:
    """Why no finite epsilon may be stated from this ledger, beyond the reasons in the ledger itself; usually none."""
    opened, sampling = ledger.opened, str(ledger.opened.plan.get("sampling"))
    found, kind = departures(ledger), kind_of(opened.mechanism)
    if not kind.known or sampling not in kind.proven_under:
        return found
    if spent.adjacency != opened.adjacency:
        other = f"the cost was computed for other neighbours ({plain(spent.adjacency)}) than the ledger's"
        found.append(Reason(Why.WRONG_ACCOUNT, other))
    if spent.releases != len(ledger.intents):
        counts = f"{spent.releases} releases were accounted, the ledger has {len(ledger.intents)}"
        found.append(Reason(Why.WRONG_ACCOUNT, counts))
    if spent.rounds_planned != opened.rounds:
        rounds = f"{spent.rounds_planned} rounds were accounted, the ledger plans {opened.rounds}"
        found.append(Reason(Why.WRONG_ACCOUNT, rounds))
    if sampling not in SAMPLED and kind.adds_noise and not spent.reasons_not_private:
        found += _doubts_about_rho(spent.rho_of_noise if spent.rho is None else spent.rho, opened, ledger.intents)
    return found


def departures(ledger: Ledger) -> list[Reason]:
    """Where the ledger is not one whose cost is proven, or departs from its own plan; usually empty."""
    opened, sampling = ledger.opened, str(ledger.opened.plan.get("sampling"))
    kind = kind_of(opened.mechanism)
    if not kind.known:
        return [outside_objection(opened) or Reason(Why.UNPROVEN_MECHANISM, KINDS.missing(opened.mechanism))]
    if sampling not in kind.proven_under:
        unproven = (
            f"nothing is proven here for the mechanism {opened.mechanism!r} with the sampling {plain(sampling)!r}"
        )
        return [Reason(Why.UNPROVEN_MECHANISM, unproven)]
    found = []
    if opened.adjacency != ADJACENCY[sampling]:
        other = f"the stated neighbours ({plain(opened.adjacency)}) are not those of {sampling} sampling"
        found.append(Reason(Why.DEPARTS_FROM_PLAN, other))
    if opened.strategy.get("strategy") != (opened.mechanism if kind.correlated else None):
        found.append(Reason(Why.UNPROVEN_MECHANISM, undescribed(opened.mechanism)))
    if (foreign := outside_objection(opened)) is not None:
        found.append(foreign)
    return found + departures_from_plan(opened, ledger.intents)


def _doubts_about_rho(rho: float | None, opened: Opened, intents: Sequence[Intent]) -> list[Reason]:
    """Without sampling the proof is a rho, and it cannot be less than a single participation costs.

    A mechanism from outside may state its cost without a rho.
    """
    if rho is None and is_path(opened.mechanism):
        return []
    if rho is None or math.isinf(rho):
        return [Reason(Why.WRONG_ACCOUNT, "rho was not computed, and without sampling the proof needs it")]
    if rho < kind_of(opened.mechanism).least_rho(opened, intents) * (1 - 1e-9):
        return [Reason(Why.WRONG_ACCOUNT, "the computed rho is less than a single participation costs")]
    return []


def assumptions_of(
    ledger: Ledger, spent: Spent, observed: Observed | None = None, happened: Spent | None = None
) -> tuple[Line, ...]:
    """Everything the guarantee rests on, marked. What the accountant lists without proof is always marked assumed.

    `observed` and `happened` are what the owner's participation record shows.
    """
    opened, sampling = ledger.opened, str(ledger.opened.plan.get("sampling"))
    around = [*device_lines(opened), *witness_lines(opened)]
    lines = [Line(text, Mark.ENFORCED) for text in _enforced(opened, ledger.intents, sampling)]
    lines += [line for line in around if line.mark is Mark.ENFORCED]
    lines += [Line(text, Mark.OBSERVED) for text in _seen(ledger)]
    lines += [Line(text, Mark.OBSERVED) for text in _recorded(ledger, happened or spent, observed)]
    lines += [Line(text, Mark.ASSUMED) for text in (*spent.assumptions, *_assumed(opened))]
    lines += [line for line in around if line.mark is Mark.ASSUMED]
    return tuple(replace(line, text=line.text[:1].upper() + line.text[1:]) for line in lines)


def _enforced(opened: Opened, intents: Sequence[Intent], sampling: str) -> list[str]:
    bounded = all(block["bound"] is not None for intent in intents for block in intent.blocks.values())
    before = "the round read a user's data" if opened.fleet is None else "anything of the round left the users' side"
    found = [
        f"every release is counted: its intent was on disk before {before}, and counts even if the round was cut off"
    ]
    trusted, kind, outside = devices_are_trusted(opened), kind_of(opened.mechanism), is_path(opened.mechanism)
    if bounded and not trusted and opened.discovery is None:
        found.append(
            "one user moves a released sum by at most the stated bound: norms, clipping and sums are computed in float64, and "
            "the bound includes rounding"
        )
    # The server cannot check the noise that devices draw.
    if not opened.seeded and not outside and not (kind.on_devices and trusted):
        found += kind.enforced()
    if opened.secure_sum is not None and not kind.on_devices and not trusted:
        found.append(
            f"sums of {opened.secure_sum.bits}-bit integers cannot wrap around: the largest cohort times the "
            "largest entry is below half the modulus; the bound on one user's share includes what rounding adds"
        )
    if sampling in SAMPLED and opened.plan.get("participation") is None and opened.discovery is None:
        found.append(
            "the sampler is the one that was accounted for: one plan builds both, and a cohort is never cut or filled up"
        )
    if sampling == CYCLIC and opened.plan.get("participation") is None:
        found.append(
            "a user's group is a keyed hash of their own name and stays the same for the whole run; a round draws from one "
            "group alone, and noise is correlated over no more rounds than there are groups"
        )
    if sampling == "fixed":
        found.append("there are at least as many users as the stated population")
    return found


def _assumed(opened: Opened) -> list[str]:
    found = []
    if opened.data.given_by is not None:
        found.append(
            f"the users came from {plain(opened.data.given_by)}, which gives for each user the examples of that person alone, "
            "whoever else there is"
        )
    if opened.batching is not None:
        found.append(
            f"the batching {plain(opened.batching)}, which was given one user's examples at a time, keeps nothing from one "
            "user to the next in variables of its module or class, in files or in a shared random generator"
        )
    return found


def _seen(ledger: Ledger) -> list[str]:
    intents = ledger.intents
    found = ["the chain of records is unbroken from the first record to the last"]
    if not intents:
        return found
    again = len(intents) - len({intent.round for intent in intents})
    found.append(
        f"{counted(len(intents), 'release')} in {counted(len(intents) - again, 'round')}"
        + (f"; {again:,} of them are further attempts at a round, and are accounted too" if again else "")
    )
    for name in intents[0].blocks:
        blocks = [intent.blocks.get(name, {"bound": None, "noise_multiplier": 0.0}) for intent in intents]
        bounds, noise = (_span([block[key] for block in blocks]) for key in ("bound", "noise_multiplier"))
        found.append(f"block {plain(name)}: bound on one user's share {bounds}, noise multiplier {noise}")
    if len(intents) > 1 and len({(str(intent.sampling), intent.denominator) for intent in intents}) == 1:
        found.append("every release names the same sampling constants and the same public denominator")
    return found


def _recorded(ledger: Ledger, spent: Spent, observed: Observed | None) -> list[str]:
    """What the owner's participation record adds."""
    if spent.participation is not None and spent.participation.observed:
        often, apart = times(spent.participation.max_participation), spent.participation.min_separation
        found = f"nobody took part more than {often}, and there were at least {apart} rounds between two participations"
        if len(ledger.intents) > len({intent.round for intent in ledger.intents}):
            # Each branch is accounted by itself: a user may have been in a round that was lost and in the one that replaced it.
            found = f"{found}, on each branch of the run by itself, lost rounds included"
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
