"""An operator changes several values of a plan at once, makes the releases fit, and signs: no epsilon is too small.

What the checker proves of such a ledger is compared with what Tacit computes from the same ledger, by other means. The checker
may refuse what Tacit accepts, and the other way round where a field is concerned on which no cost depends; but where both give
a number, the checker's is not the smaller one.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tacit.errors import TacitError
from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.noise.strategies import from_description
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import DiscoveryRecord, VocabularyRecord
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.planned import planned_intents
from tacit.privacy.statement.guarantee import Guarantee
from tests.support.checker import answer
from tests.support.first_record import secure_sum
from tests.support.made_certificates import KINDS, Made, made_certificate, rechained, signed_again

Json = dict[str, Any]
WORDS = {"mechanism": "words", "cohort": 1000, "noise_multiplier": 6.0}
MORE: dict[str, tuple[str, Json]] = {
    "secure sums": ("fixed", {"settings": {"secagg": {"bits": 20}}, "secure_sum": secure_sum()}),
    "discovery": (
        "gaussian",
        {"settings": WORDS, "rounds": 1, "discovery": DiscoveryRecord(4, 1.0, 2e-6, 0, "ab" * 32)},
    ),
    "discovered words": ("blt", {"vocabulary": VocabularyRecord("found", "ab" * 32, 20.0, 2, 1e-6)}),
    "extended": ("gaussian", {"extended": 12}),
}
OTHERS = [0, 1, 2, 3, 0.5, 1e-6, 1e6, None, True, False, [], [1], [2, 4], {}, -1, 999, 20]
OTHERS += ["poisson", "fixed", "check_in", "cyclic_poisson", "gaussian", "tree", "blt", "banded", "words"]
ADJACENCY = {"fixed": "replace one user", "check_in": "zero out one user"}


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return ([path] if path else []) + [each for key, inner in inside for each in _places(inner, (*path, key))]


def _change(value: Any, dice: random.Random) -> None:
    """Put another number, or anything else, into some place of it."""
    *above, last = dice.choice(_places(value))
    for key in above:
        value = value[key]
    known = value[last]
    if type(known) in (int, float) and dice.random() < 0.6:
        value[last] = type(known)(known * dice.choice([0.1, 0.5, 0.9, 1.1, 2, 10]))
    else:
        value[last] = dice.choice(OTHERS)


def _made_to_fit(records: list[Json]) -> None:
    """First record and releases say what the plan says, as far as it is a plan."""
    opened, plan = records[0], records[0]["plan"]
    opened |= {"mechanism": plan["mechanism"], "population": plan["population"]}
    opened["adjacency"] = ADJACENCY.get(str(plan["sampling"]), "add or remove one user")
    valid = PrivacyPlan.model_validate(plan)
    for each in records:
        if each["kind"] == "intent":
            (fits,) = planned_intents(valid, each["round"] + 1, start=each["round"])
            each |= {name: getattr(fits, name) for name in ("sampling", "blocks", "denominator", "restart")}


def _signed(made: Made, records: list[Json]) -> tuple[bytes, list[str]]:
    """The certificate with these records, and a statement that claims nearly nothing, so that only the proof decides."""
    opened, lines = records[0], rechained(records)
    rounds = [each["round"] for each in records if each["kind"] == "intent"]
    planned = [opened["rounds"], *(each["rounds"] for each in records if each["kind"] == "extended")][-1]
    stated = made.content["statement"] | {"epsilon": 1e9, "rho": 1e9, "ledger_head": json.loads(lines[-1])["digest"]}
    stated |= {name: opened[name] for name in ("run_id", "mechanism", "unit", "adjacency")}
    stated |= {"rounds_planned": planned, "rounds_run": len(set(rounds)), "releases": len(rounds)}
    stated |= {name: opened["plan"][name] for name in ("sampling", "delta")}
    column = made.content["strategy"]
    if column is not None:
        longest = max(stop - start for start, stop in pairwise([0, *opened["plan"]["restarts"], planned]))
        column = {"coefficients": from_description(opened["strategy"]).column(longest).tolist()}  # type: ignore[attr-defined]
    return signed_again(made.content | {"statement": stated, "strategy": column}, lines), lines


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    place = tmp_path_factory.mktemp("runs")
    found = [made_certificate(place / kind, kind, seed=number) for number, kind in enumerate(KINDS)]
    return found + [made_certificate(place / name, kind, seed=9, **more) for name, (kind, more) in MORE.items()]


@pytest.mark.parametrize("many", [45, pytest.param(400, marks=pytest.mark.slow)])
def test_what_is_proved_of_a_forged_plan_is_no_less_than_tacit_computes(many: int, runs: list[Made], tmp_path: Path):
    dice, seen = random.Random(many), Counter[str]()
    for number in range(many):
        made = runs[number % len(runs)]
        records = [json.loads(line) for line in made.content["ledger"]]
        for _ in range(dice.randint(1, 3)):
            _change(dice.choice([records[0]["plan"], records[0]["plan"], records[0], dice.choice(records)]), dice)
        try:
            if dice.random() < 0.85:
                _made_to_fit(records)
            data, lines = _signed(made, records)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, TacitError):
            continue  # no plan, or no ledger can be written from it
        (tmp_path / "certificate.json").write_bytes(data)
        code, said = answer(tmp_path / "certificate.json", "--key", made.key)
        assert said.startswith("Proved: " if code == 0 else "Not proved, because "), said
        seen[said[:6]] += 1
        if code == 0 and (stated := _stated(tmp_path / "ledger.jsonl", lines)) is not None:
            seen["both"] += 1
            # Tacit's own grids round up, too: by a hundredth where Rényi divergences are all that answers soon.
            assert float(said.partition("ε ≤ ")[2].partition(" ")[0]) >= stated * (1 - 2e-2) - 2e-3, (number, said)
    assert min(seen["Proved"], seen["Not pr"], seen["both"]) > many / 20, seen


def _stated(path: Path, lines: list[str]) -> float | None:
    """Epsilon as Tacit states it from this ledger; None if it refuses it."""
    path.write_text("".join(f"{line}\n" for line in lines))
    try:
        ledger = read_ledger(path)
        found = Guarantee.of(ledger, spent_by(ledger.opened, ledger.intents, start=ledger.next_round))
    except TacitError:
        return None
    return found.epsilon if math.isfinite(found.epsilon) else None
