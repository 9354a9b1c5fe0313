"""The outcome of an audit: bounds are rounded to the safe side, and canaries appear in the owner's section alone."""

from __future__ import annotations

import dataclasses
import json
import math

from tacit.audit.exposures import SettingExposure
from tacit.audit.lower_bound import LowerBound, strongest
from tacit.audit.outcome import BROKEN, BY_LOSS, BY_TRAJECTORY, Attacked, AuditOutcome, Proven
from tacit.privacy.record.reasons import Reason
from tests.support.first_record import NO_NOISE

SECRET = "extranjera conciertos mercadeo"


def bound(epsilon: float, *, best: float = 4.129) -> LowerBound:
    return LowerBound(epsilon, confidence=0.9995, canaries=300, guesses=300, right=210, strongest=best)


def outcome(
    proven: float, *epsilons: float, best: float = 4.129, reasons: tuple[Reason, ...] = (), canaries: int = 2
) -> AuditOutcome:
    attacked = [
        Attacked(i, SECRET, "n_u = 1, n_e = 14", 3 + i, 2001, 9.4 + i, 2 if i else None) for i in range(canaries)
    ]
    seen = [SettingExposure("n_u = 1, n_e = 14", 2, 1.0, 14.0, 3_680_000.0, 14.5)]
    bounds = {name: bound(each, best=best) for name, each in zip((BY_LOSS, BY_TRAJECTORY), epsilons, strict=False)}
    return AuditOutcome(2, 2000, 5, attacked, seen, bounds, Proven(proven, 1e-6, reasons))


def test_what_is_proven_is_rounded_up_and_what_is_refuted_down() -> None:
    said = " ".join(outcome(1.5001, 0.4999, 0.1).words())
    assert "at most 1.51 at delta 1e-06" in said
    assert "at least 0.49, with 99.95% confidence" in said
    assert "hold together with 99.90% confidence" in said
    assert "could have shown epsilon 4.12." in said


def test_one_bound_above_what_is_proven_is_enough() -> None:
    assert not outcome(1.5, 1.5, 0.0).broken
    assert outcome(1.5, 1.5, 0.0).words()[-1] == "No lower bound exceeds the proven epsilon."
    broken = outcome(1.5, 0.0, 1.5000001)
    assert broken.broken
    assert broken.words()[-1] == BROKEN
    assert broken.as_dict()["broken"] is True
    assert [block.text for block in broken.section().blocks if getattr(block, "note", False)] == [BROKEN]


def test_an_audit_that_could_not_have_failed_says_so() -> None:
    """Noise multiplier 3, 30 rounds, all users, 300 coins: they can show 3.44 at most, where 4.77 is proven."""
    best = strongest(300, delta=1e-6, confidence=0.9995)
    assert 3.44 < best < 3.45
    found = outcome(4.7601, 0.3, 0.2, best=best)
    assert found.verdict == "could_not_fail"
    assert found.as_dict()["verdict"] == "could_not_fail"
    assert not found.broken
    said = found.words()[-1]
    assert said.startswith("This audit could not have failed: ")
    assert f"{math.floor(best * 100) / 100:.2f}" in said
    assert "4.77" in said
    assert "more canary users" in said
    assert "No lower bound exceeds" not in " ".join(found.words())
    assert [block.text for block in found.section().blocks if getattr(block, "note", False)] == [said]
    assert outcome(1.5, 0.3, 0.2).as_dict()["verdict"] == "passed"
    assert outcome(1.5, 1.6, 0.2).as_dict()["verdict"] == "broken"
    assert outcome(1.5).verdict == "no_bound"


def test_nothing_proven_is_never_refuted_and_says_why() -> None:
    found = outcome(math.inf, 3.0, 0.0, reasons=(NO_NOISE,))
    assert not found.broken
    assert "own participation: nothing, because no noise is added." in " ".join(found.words())
    assert found.verdict == "could_not_fail"
    assert "nothing is proven" in found.words()[-1]
    assert outcome(math.inf, reasons=(NO_NOISE,)).as_dict()["lower_bounds"] == {}
    assert found.as_dict()["proven"]["epsilon"] is None
    json.dumps(found.as_dict(), allow_nan=False)


def test_canary_users_who_cannot_show_anything_are_said_to_be_too_few() -> None:
    best = strongest(40, delta=1e-4, confidence=0.9995)
    assert best == 0
    said = " ".join(outcome(1.5, 0.0, 0.0, best=best).words())
    assert "no attack can show anything at this delta" in said
    assert "always right" not in said


def test_the_table_has_a_row_a_setting_and_fits_a_terminal() -> None:
    heads, rows = outcome(1.5).table()
    assert rows == [["n_u = 1, n_e = 14", "2", "3,680,000", "14.5", "4", "3", "9.9", "1"]]
    widest = [max(map(len, column)) for column in zip(heads, ["p_u = 0.005, p_e = 0.01", *rows[0][1:]], strict=True)]
    assert sum(widest) + len(heads) - 1 <= 80


def test_secrets_are_in_the_owners_section_and_nowhere_else() -> None:
    found = outcome(1.5, 0.2, 0.1)
    section = found.section()
    assert section.private
    assert section.model_dump_json().count(SECRET) == 2
    assert SECRET not in json.dumps(found.as_dict()) + " ".join(found.words()) + str(found.table())


def test_without_canaries_to_rank_or_without_coins_only_the_rest_is_said() -> None:
    alone = outcome(1.5)  # devices and no coins: what they rank at, and what is proven of them
    assert alone.words()[-2].startswith("Found:")
    assert alone.bound_words() == [
        "Proven for any one synthetic user, from their own participation: epsilon at most 1.50 at delta 1e-06."
    ]
    sharers = dataclasses.replace(alone, proven=None)
    assert sharers.bound_words() == []
    assert not sharers.broken
    assert not alone.broken
    assert outcome(1.5, 0.2, canaries=0).words()[0].startswith("Membership by loss")
    assert outcome(1.5, 0.2, canaries=0).table()[1] == []
