from __future__ import annotations

import numpy as np
import pytest

from tacit.audit.exposures import by_setting, exposures
from tacit.audit.plans import device_plan, sharer_plan
from tacit.data.canaries.plan import word_phrases
from tacit.data.canaries.planting import plant
from tacit.data.views import Capped, Reshuffled
from tacit.errors import AuditError
from tests.support.canary_words import DATA, WORDS, public
from tests.support.list_users import ListUsers, listed

PHRASES = word_phrases(WORDS, length=5, count=27, seed=9)


def test_the_table_of_production() -> None:
    """Table 3: devices that take part 1,150 times in 2,000 rounds."""
    people = ListUsers([[[4, 5]]] * 10)
    plan = device_plan(PHRASES, DATA, seed=2, device_rate=1150 / 2000)
    planted = plant(people, plan, WORDS, DATA, public())
    rows = exposures(plan, planted, WORDS, np.full(199, 1150), rounds=2000, rate=0.1)
    table = {row.setting: row for row in by_setting(rows)}
    assert [round(row.expected) for row in table.values()] == [
        1_150, 16_100, 230_000, 4_600, 64_400, 920_000, 18_400, 257_600, 3_680_000
    ]  # fmt: skip
    assert [row.seen for row in table.values()] == pytest.approx([row.expected for row in table.values()])
    assert (table["n_u = 16, n_e = 14"].holders, table["n_u = 16, n_e = 14"].copies) == (16, 224)
    assert {row.canaries for row in table.values()} == {3}


@pytest.mark.parametrize("dealt_anew", [False, True])
def test_seen_counts_every_copy_of_everybody_who_took_part(dealt_anew: bool) -> None:
    people = [[[4 + user % 90, 5]] * (user % 7) for user in range(300)]
    plan = sharer_plan(PHRASES, DATA, population=300, seed=2, expected_sharers=(3, 10, 30))
    planted = plant(ListUsers(people), plan, WORDS, DATA)
    if dealt_anew:
        planted = Reshuffled(planted, 300, seed=1)
    took_part = np.random.default_rng(0).integers(0, 4, 300)
    found = listed(planted)
    rows = exposures(plan, planted, WORDS, took_part, rounds=40, rate=0.05, dealt_anew=dealt_anew)
    for row, phrase in zip(rows, PHRASES, strict=True):
        canary = [WORDS.index(word) for word in phrase]
        copies = np.array([user.count(canary) for user in found])
        assert (row.holders, row.copies) == ((copies > 0).sum(), copies.sum())
        assert row.seen == (copies * took_part).sum()
    assert max(row.seen for row in rows) > 0
    mean = np.mean([len(user) for user in people])
    assert rows[-1].expected == pytest.approx(30 * mean * 40 * 0.05)


def test_as_many_copies_as_expected_on_average() -> None:
    """Without clashes the copies of a canary are 40 expected sharers times 5; 8 standard errors are allowed."""
    plan = sharer_plan(PHRASES, DATA, population=4000, seed=4, expected_sharers=(40,), example_probabilities=(0.5,))
    planted = plant(ListUsers([[[4, 5]] * 10] * 4000), plan, WORDS, DATA)
    rows = exposures(plan, planted, WORDS, np.ones(4000, np.int64), rounds=1, rate=1.0)
    assert rows[0].expected == pytest.approx(200)
    error = (40 * (25 + 2.5) / len(rows)) ** 0.5
    assert abs(np.mean([row.seen for row in rows]) - 200) < 8 * error


def test_a_cut_hides_the_copies_behind_it() -> None:
    plan = device_plan(PHRASES, DATA, seed=2)
    planted = Capped(plant(ListUsers([[[4, 5]]] * 10), plan, WORDS, DATA, public()), examples=20)
    rows = exposures(plan, planted, WORDS, np.ones(199, np.int64), rounds=10, rate=0.1)
    full = [row for row in rows if row.setting == "n_u = 1, n_e = 200"]
    assert [row.copies for row in full] == [20, 20, 20]
    assert [row.expected for row in full] == [
        20,
        20,
        20,
    ]  # a device is in one of ten rounds: what lies behind is never read
    assert sum(row.expected for row in rows) == sum(row.seen for row in rows) > 0


def test_every_local_epoch_reads_a_copy_again() -> None:
    plans = (
        device_plan(PHRASES, DATA, seed=2),
        sharer_plan(PHRASES, DATA, population=10, seed=2, expected_sharers=(1, 2, 4)),
    )
    for plan in plans:
        planted = plant(ListUsers([[[4, 5]]] * 10), plan, WORDS, DATA, public())
        once, thrice = (
            exposures(plan, planted, WORDS, np.ones(len(planted), np.int64), rounds=10, rate=0.1, epochs=epochs)
            for epochs in (1, 3)
        )
        assert [row.seen for row in thrice] == [3 * row.seen for row in once]
        assert [row.expected for row in thrice] == pytest.approx([3 * row.expected for row in once])
        assert [row.copies for row in thrice] == [row.copies for row in once]


def test_participations_of_another_population_are_refused() -> None:
    plan = sharer_plan(PHRASES, DATA, population=300, seed=2, expected_sharers=(3, 10, 30))
    planted = plant(ListUsers([[[4]]] * 300), plan, WORDS, DATA)
    with pytest.raises(AuditError, match="of 300 users and devices, got 299"):
        exposures(plan, planted, WORDS, np.ones(299, np.int64), rounds=1, rate=1.0)
