"""Whether a run's ledger agrees with everything else in the run's folder: its recipe, its checkpoints, its own records.

The ledger's chain shows that no line was changed after it was written, unless the whole chain was written again. Somebody who
edits a field and hashes the chain again must also make all of these agree, which `objection_to` compares:

    recipe.toml     its SHA-256 is in the first record; its [privacy] is the plan there; no round beyond [run] rounds, or
                    beyond those of the last extension; a seed in it is in the first record, with the reason why nothing may
                    be claimed; so is what a discovery of words in its [vocabulary] cost
    first record    mechanism, population, neighbours and unit are those of the plan; correlated noise is described
    intents         sampling, noise, bounds, denominator and restarts are those of the plan (`privacy.departures`)
    checkpoints     each names the first record's digest in its metadata, and the ledger names each by its own digest

A disagreement is a LedgerError wherever an epsilon would be stated, because nobody can tell which side is true.

**What this cannot find.** Nothing here is signed, so a forger who rewrites all of it is believed: every edit of the plan,
if recipe.toml is edited in the same way and the checkpoints are written again or removed. Where the checkpoints are gone,
these edits of the first record need nothing else: `outside`, `strategy` (other coefficients of the same kind), the facts
beside `recipe` (`release`, `data`, `secure_sum`, `planted`, `pretraining`, `fleet`, `notes` and the like), `tacit_version`, and
the `reasons_not_private` that do not follow from the recipe (a vocabulary counted on the users, a model that was trained
without privacy). Intents that were cut off the end are found by a later checkpoint, or by the participation record where it
may be read. Bounds under adaptive clipping are not computed again. The store's odometer, where its owner has it at hand,
finds every one of these: it holds digests of the ledger that was really written (`runs.odometer`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tacit.privacy.noise.kinds.correlated import undescribed
from tacit.privacy.plan import PrivacyPlan, with_rounds
from tacit.privacy.record.departures import departures_from_plan
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.reasons import Why
from tacit.privacy.record.records import UNIT, Committed, Opened
from tacit.runs.checkpoints import Header

# In a checkpoint's metadata: the digest of the first record of the ledger it was saved under.
OPENED = "opened"


def objection_to(ledger: Ledger, recipe_text: bytes, recipe: Mapping[str, Any], kept: Sequence[Header]) -> str | None:
    """The first disagreement of a ledger with the run's recipe and checkpoints, without a full stop; None if they agree."""
    opened = ledger.opened
    if opened.recipe != hashlib.sha256(recipe_text).hexdigest():
        return "its recipe.toml is not the one that the ledger names"
    rounds = _section(recipe, "run").get("rounds")
    if type(rounds) is not int:
        return "its recipe.toml does not say how many rounds were planned"
    try:
        plan = PrivacyPlan.model_validate(with_rounds(dict(_section(recipe, "privacy")), rounds))
    except ValidationError:
        return "its recipe.toml has no [privacy] that this version of Tacit can read"
    return (
        _plan_objection(plan, opened)
        or _first_record_objection(plan, rounds, recipe, opened)
        or next((reason.sentence for reason in departures_from_plan(opened, ledger.intents)), None)
        or _rounds_objection(ledger)
        or _checkpoint_objection(ledger, kept)
    )


def _section(recipe: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = recipe.get(name)
    return found if isinstance(found, Mapping) else {}


def _plan_objection(plan: PrivacyPlan, opened: Opened) -> str | None:
    wanted = plan.model_dump(mode="json")
    for name in sorted(wanted.keys() | opened.plan.keys()):
        if wanted.get(name) != opened.plan.get(name):
            return f"privacy.{name} is {wanted.get(name)!r} in recipe.toml and {opened.plan.get(name)!r} in the ledger's plan"
    return None


def _first_record_objection(plan: PrivacyPlan, rounds: int, recipe: Mapping[str, Any], opened: Opened) -> str | None:
    """The fields beside the plan that follow from it, and the reasons that follow from the recipe."""
    seeded = _section(recipe, "run").get("seed") is not None
    wanted = {
        "mechanism": plan.mechanism,
        "population": plan.population,
        "adjacency": plan.adjacency,
        "unit": UNIT,
        "seeded": seeded,
    }
    for name, value in wanted.items():
        if getattr(opened, name) != value:
            return f"{name} is {value!r} by recipe.toml and {getattr(opened, name)!r} in the ledger's first record"
    if (first := (*opened.extended_from, opened.rounds)[0]) != rounds:
        return f"rounds is {rounds!r} by recipe.toml and {first!r} in the ledger's first record"
    if (objection := _words_objection(recipe, opened)) is not None:
        return objection
    if plan.kind.known and opened.strategy.get("strategy") != (plan.mechanism if plan.kind.correlated else None):
        return undescribed(plan.mechanism)
    forbids = {
        "run.seed": (seeded, Why.SEEDED),
        "data.iid": (_section(recipe, "data").get("iid") is True, Why.MIXED_USERS),
        "privacy.mechanism": (not plan.claims, Why.NO_NOISE),
    }
    named = {reason.code for reason in opened.reasons_not_private}
    for name, (holds, why) in forbids.items():
        if holds and why not in named:
            return f"{name} in recipe.toml forbids to claim privacy, and the ledger does not name it as a reason"
    return None


_OF_LETTERS = ("alphabet", "longest", "coordinates", "words_per_user", "shown_delta")


def _words_objection(recipe: Mapping[str, Any], opened: Opened) -> str | None:
    """The recipe of a discovery says how; that of a run that uses its words must be charged for it, or claim nothing."""
    section, letters = _section(recipe, "vocabulary"), _section(recipe, "letters")
    if bool(letters) != (opened.letters is not None):
        return "[letters] is in one of recipe.toml and the ledger's first record, and not in the other"
    for name in _OF_LETTERS if opened.letters is not None else ():
        recorded = getattr(opened.letters, name)
        if (wanted := letters.get(name, recorded)) != recorded:
            return f"letters.{name} is {wanted!r} in recipe.toml and {recorded!r} in the ledger's first record"
    if opened.discovery is not None:
        for name in ("words_per_user", "largest_share", "threshold_delta"):
            recorded = getattr(opened.discovery, name)
            if (wanted := section.get(name, recorded)) != recorded:
                return f"vocabulary.{name} is {wanted!r} in recipe.toml and {recorded!r} in the ledger's first record"
    elif section and opened.vocabulary is None and not opened.reasons_not_private:
        return "recipe.toml names a discovery of words, and the ledger does not say what that cost"
    elif opened.vocabulary is not None and not section:
        return "the ledger names a discovery of words, and recipe.toml does not"
    return None


def _rounds_objection(ledger: Ledger) -> str | None:
    rounds, asks = ledger.opened.rounds, "the ledger plans" if ledger.opened.extended_from else "recipe.toml asks for"
    most = max((intent.round + 1 for intent in ledger.intents), default=0)
    if most > rounds:
        return f"{asks} {rounds} rounds, and the ledger has {most}"
    if ledger.closed is not None and ledger.closed.outcome == "finished" and ledger.next_round != rounds:
        return f"{asks} {rounds} rounds, and the ledger finished after {ledger.next_round}"
    return None


def _checkpoint_objection(ledger: Ledger, kept: Sequence[Header]) -> str | None:
    """A checkpoint may be newer than the last one in the ledger: the run is going on, or was killed between the two writes."""
    opened = ledger.digests()[0]
    named = {record.checkpoint for record in ledger.records if isinstance(record, Committed)}
    for checkpoint in kept:
        if checkpoint.metadata.get(OPENED) != opened:
            return f"the checkpoint after {checkpoint.round} rounds was not saved under the ledger's first record"
        new = ledger.closed is None and checkpoint.round > ledger.rounds_committed
        if checkpoint.digest not in named and not new:
            return f"the checkpoint after {checkpoint.round} rounds is not one that the ledger names"
    return None
