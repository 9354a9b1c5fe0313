"""The guarantee in one paragraph: every figure in it follows from ε and δ, and is rounded against the claim."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from tacit.privacy.record.facts import DataRecord, DiscoveryRecord, FleetRecord
from tacit.privacy.statement.guarantee_parts import FALSE_ALARMS, most_often_right
from tacit.privacy.statement.paragraph import paragraph
from tests.support.first_record import NO_NOISE
from tests.support.planned_ledgers import CHECK_IN, FIXED, NONE, POISSON, guarantee_of, ledger_of

LOUD = POISSON | {"noise_multiplier": 0.9}
TEXT = DataRecord(store="ab12", vocabulary="a list of words")


def test_its_figures_are_those_of_the_claim_rounded_against_it(tmp_path):
    found = guarantee_of(ledger_of(tmp_path, LOUD))
    factor = re.search(r"at most a factor of ([\d.,]+), plus one in ([\d,]+)", found.paragraph)
    assert factor is not None
    assert 0 <= float(factor[1].replace(",", "")) - math.exp(found.epsilon) < 0.011
    assert 1 / int(factor[2].replace(",", "")) >= found.delta
    right = re.search(
        r"wrongly say yes in 1 of 100 cases, they rightly say yes in at most ([\d.]+) of 100", found.paragraph
    )
    assert right is not None
    assert 0 <= float(right[1]) / 100 - most_often_right(found.epsilon, found.delta) < 0.0011


def test_what_it_compares_with_is_the_neighbour_of_the_sampling(tmp_path):
    said = {}
    for name, plan in (("poisson", LOUD), ("fixed", FIXED), ("check_in", CHECK_IN)):
        (tmp_path / name).mkdir()
        said[name] = guarantee_of(ledger_of(tmp_path / name, plan, data=TEXT)).paragraph
    assert "everything that this person wrote left out" in said["poisson"]
    assert "replaced by anything else" in said["fixed"]
    assert "nothing taken from this person whenever their turn came" in said["check_in"]
    # Where data are replaced, nobody's taking part is hidden.
    assert [name for name, each in said.items() if "whether this person took part" in each] == ["poisson", "check_in"]


def test_it_says_whose_data_they_were_and_what_was_made_of_them(tmp_path):
    fleet = FleetRecord("https", False, True, 1.3, 86400.0, None, None)
    made_up = DataRecord(world="keyboard", seed=1, users=10)
    for name, changes, begins in (
        ("text", {"data": TEXT}, "This model was trained on what people wrote. "),
        ("images", {"data": DataRecord(store="ab12")}, "This model was trained on data of people. "),
        ("world", {"data": made_up}, "This model was trained on what made-up people wrote. "),
        ("fleet", {"data": made_up, "fleet": fleet}, "This model was trained on what people wrote. "),
        ("measured", {"data": TEXT, "evaluates": "0" * 64}, "This measurement of a model was made from what people "),
    ):
        (tmp_path / name).mkdir()
        said = guarantee_of(ledger_of(tmp_path / name, LOUD, **changes)).paragraph
        assert said.startswith(begins), name


def test_what_was_measured_on_held_out_users_is_not_promised_anything(tmp_path):
    """Accuracy may be published beside the model, and has no noise."""
    assert "published" not in guarantee_of(ledger_of(tmp_path, LOUD)).paragraph.split("Suppose")[0]


def test_a_run_that_claims_nothing_promises_nothing_and_says_why(tmp_path):
    found = guarantee_of(ledger_of(tmp_path, NONE, reasons_not_private=(NO_NOISE,)))
    assert "Nothing is promised about what it gives away" in found.paragraph
    assert not re.search(r"\d", found.paragraph)


def test_an_epsilon_that_promises_very_little_is_called_so(tmp_path):
    ledger = ledger_of(tmp_path, LOUD)
    said = paragraph(replace(guarantee_of(ledger), epsilon=20.0), ledger)
    assert "more than a million, which promises very little" in said


def test_a_list_of_words_is_not_called_a_model(tmp_path):
    plan = POISSON | {"cohort": 1000}
    words = DiscoveryRecord(50, 1.0, 1e-8, 0, "0" * 64)
    said = guarantee_of(ledger_of(tmp_path, plan, rounds=1, discovery=words)).paragraph
    assert "list of words" in said
    assert "model" not in said


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 8.0, 30.0])
def test_no_test_between_neighbours_is_right_more_often(epsilon):
    """Against the exact region of (ε, δ): randomised response with a part δ that shows everything attains the bound."""
    delta, wrong = 1e-5, FALSE_ALARMS
    bound = most_often_right(epsilon, delta)
    told = delta + (1 - delta) * math.exp(epsilon) / (
        1 + math.exp(epsilon)
    )  # says yes about D when it always says what it sees
    false = (1 - delta) / (1 + math.exp(epsilon))
    share = min(1.0, wrong / false)  # saying yes at random less often, or no more often than it sees one
    reached = share * told if share < 1 else told + (1 - told) * (wrong - false) / (1 - false)
    assert reached <= bound + 1e-9
    assert bound <= min(1.0, math.exp(epsilon) * wrong + delta) + 1e-12
