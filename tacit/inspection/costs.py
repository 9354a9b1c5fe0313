"""The privacy cost of models, in sentences: one model, several together, and the same noise at a larger scale."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tacit.errors import PrivacyError
from tacit.numbers import finite_or_none
from tacit.privacy.accounting.several_runs import together
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.reasons import Reason, Why, reasons_as_json
from tacit.privacy.statement.wording import round_up


def cost_together(ledgers: Sequence[Ledger]) -> dict[str, Any]:
    """The cost of these runs, each counted once, for users who were in all of them; for JSON.

    An infinite epsilon is null, with the reasons. Runs that are stated for different adjacencies have an infinite epsilon.
    """
    unique = {ledger.opened.run_id: ledger for ledger in ledgers}
    try:
        cost = together(list(unique.values()))
    except PrivacyError as error:
        return {"epsilon": None, **reasons_as_json([Reason(Why.NOT_COMPARABLE, error.sentence.rstrip("."))])}
    return {
        **dataclasses.asdict(cost),
        **reasons_as_json(cost.reasons_not_private),
        "assumptions": list(cost.assumptions),
        "epsilon": finite_or_none(cost.epsilon),
        "models": len(unique),
    }


def price(privacy: Mapping[str, Any]) -> str:
    """The cost of one model, as a sentence."""
    return (
        f"The words are functions of a model released with ε = {round_up(privacy['epsilon'])} at δ = {privacy['delta']:g}, for "
        f"all the data of any one {privacy['unit']}; querying the model costs nothing more."
    )


def price_together(cost: Mapping[str, Any]) -> str:
    """The result of `cost_together` as a sentence: the cost, or why none can be claimed."""
    if cost["epsilon"] is None:
        return f"No privacy can be claimed for all models together: {'; '.join(cost['reasons_not_private'])}."
    return (
        f"All {cost['models']} models together: ε = {round_up(cost['epsilon'])} at δ = {cost['delta']:g}, for all the data of "
        f"any one {cost['unit']} ({cost['adjacency']}), over {cost['releases']} releases."
    )


def price_at_scale(scale: Mapping[str, Any]) -> str:
    """The cost of the large run that a small one stands for (`tacit.privacy.planning.scaling`), as a sentence."""
    privacy = scale["privacy"]
    cost = (
        "no privacy"
        if privacy["epsilon"] is None
        else f"ε = {round_up(privacy['epsilon'])} at δ = {privacy['delta']:g}"
    )
    return (
        f"At scale, an estimate and not this run: {scale['cohort']:,.0f} of {scale['population']:,} users a round with the "
        f"same noise on their mean (noise multiplier {scale['noise_multiplier']:.3g}) would cost {cost}, if more users train "
        "as well."
    )
