from __future__ import annotations

import math
import re
import stat
from collections import Counter
from pathlib import Path

import pytest
from scipy import stats

from tacit.audit.plans import device_plan, mixed_plan, sharer_plan
from tacit.data.canaries.plan import (
    Canary,
    CanaryDevices,
    CanaryPlan,
    Sharers,
    choices,
    digit_phrases,
    encode,
    load_plan,
    word_phrases,
)
from tacit.errors import AuditError, RunError

WORDS = ("<pad>", "<bos>", "<eos>", "<oov>", *(f"w{i}" for i in range(50)))
STORE = {"store": "one"}
TEMPLATE = "my number is ###-##-####"
SHARED = Sharers(user_probability=0.1, example_probability=0.5)


def phrases(count: int, seed: int = 1) -> list[tuple[str, ...]]:
    return word_phrases(WORDS, length=5, count=count, seed=seed)


def test_canaries_are_uniform_over_the_real_words() -> None:
    drawn = Counter(word for phrase in phrases(2000) for word in phrase)
    assert set(drawn) <= set(WORDS[4:])
    counts = [drawn[word] for word in WORDS[4:]]
    assert stats.chisquare(counts).pvalue > 1e-7


def test_canaries_differ_from_each_other_and_from_seed_to_seed() -> None:
    assert len(set(phrases(100))) == 100
    assert phrases(100) == phrases(100)
    assert not set(phrases(100)) & set(phrases(100, seed=2))
    assert len(set(word_phrases(WORDS[:6], length=2, count=4, seed=1))) == 4  # every one there is
    with pytest.raises(AuditError, match=r"5 distinct canaries, got a length of 2 words out of 2"):
        word_phrases(WORDS[:6], length=2, count=5, seed=1)


def test_a_template_is_filled_with_digits() -> None:
    filled = ["".join(phrase) for phrase in digit_phrases(TEMPLATE, count=500, seed=3)]
    assert all(re.fullmatch(r"my number is \d{3}-\d{2}-\d{4}", text) for text in filled)
    digits = Counter("".join(filled).replace("-", "").replace("my number is ", ""))
    assert stats.chisquare([digits[digit] for digit in "0123456789"]).pvalue > 1e-7
    with pytest.raises(AuditError, match="0 blanks"):
        digit_phrases("my number", count=1, seed=3)


def test_the_plan_of_production_has_27_canaries_on_189_devices() -> None:
    plan = device_plan(phrases(27), STORE, seed=1)
    settings = Counter(str(canary.sharing) for canary in plan.canaries)
    assert settings["n_u = 4, n_e = 14"] == 3
    assert len(settings) == 9
    assert len(plan.device_canaries()) == 189
    assert Counter(plan.device_canaries().tolist())[26] == 16


def test_the_plan_of_memorization_keeps_the_expected_number_of_sharers() -> None:
    plan = sharer_plan(phrases(90), STORE, population=10_000, seed=1)
    chances = {canary.sharing.user_probability for canary in plan.canaries if isinstance(canary.sharing, Sharers)}
    assert sorted(chance * 10_000 for chance in chances) == pytest.approx([7.84, 23.52, 78.4])
    full = sharer_plan(phrases(90), STORE, population=392_000, seed=1).canaries[0].sharing
    assert isinstance(full, Sharers)
    assert full.user_probability == pytest.approx(1 / 50_000)
    assert full.example_probability == 0.01


def test_a_plan_comes_back_from_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    plan = device_plan(phrases(27), STORE, seed=2**64 - 1, device_rate=0.5)
    path = tmp_path / "canaries.json"
    plan.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_plan(path) == plan
    path.chmod(0o644)
    with pytest.raises(RunError, match="chmod 600"):
        load_plan(path)


def test_a_file_that_is_no_plan_is_refused_without_showing_it(tmp_path: Path) -> None:
    path = tmp_path / "canaries.json"
    with pytest.raises(AuditError, match="no canary plan"):
        load_plan(path)
    device_plan(phrases(27), STORE, seed=1).save(path)
    path.write_text(path.read_text().replace('"devices": 4', '"devices": 0'))
    with pytest.raises(AuditError, match=r"it is damaged: canaries\.9\.sharing\.devices\.devices\.") as refused:
        load_plan(path)
    said = refused.value.sentence.replace(str(path), "")  # a folder's name may hold anything
    assert not any(word in said for word in plan_words(phrases(27)))


def plan_words(drawn: list[tuple[str, ...]]) -> set[str]:
    return {word for phrase in drawn for word in phrase}


def test_a_plan_for_other_data_is_refused() -> None:
    plan = sharer_plan(phrases(9), STORE, population=1000, seed=1)
    plan.require({"store": "one"})
    with pytest.raises(AuditError, match=r"^Expected a canary plan for store two, got one for store one\.$"):
        plan.require({"store": "two"})
    with pytest.raises(AuditError, match=r"for world keyboard, seed 7, got one for store one\.$"):
        plan.require({"world": "keyboard", "seed": 7})


def test_a_word_outside_the_vocabulary_is_refused_without_naming_it() -> None:
    canary = Canary(units=("w1", "secret", "w2"), sharing=SHARED)
    with pytest.raises(AuditError, match=r"50 words, but word 2 of canary 2 is not among them\.$") as refused:
        encode([Canary(units=("w1",), sharing=SHARED), canary], WORDS)
    assert "secret" not in refused.value.sentence
    with pytest.raises(AuditError, match="word 1 of canary 1"):
        encode([Canary(units=("<oov>",), sharing=SHARED)], WORDS)
    assert [ids.tolist() for ids in encode([Canary(units=("w1", "w0"), sharing=SHARED)], WORDS)] == [[5, 4]]


def test_what_could_stand_at_each_place() -> None:
    of_words = choices(Canary(units=("w1", "w2", "w3"), sharing=SHARED), WORDS, 1)
    assert [units.tolist() for units in of_words] == [list(range(4, 54))] * 2
    characters = ("<pad>", "<bos>", "<eos>", "<oov>", *"abn -0123456789")
    canary = Canary(units=tuple("nab 12-3"), template="nab ##-#", sharing=SHARED)
    assert canary.known_prefix == 4
    assert canary.text == "nab 12-3"
    digits, dash = list(range(9, 19)), [8]
    assert [u.tolist() for u in choices(canary, characters, 4)] == [digits, digits, dash, digits]
    with pytest.raises(AuditError, match="lacks a digit"):
        choices(canary, characters[:-1], 4)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"expected_sharers": (2, 2000)},
            r"more than 0 and at most 1000 sharers of a canary \(the population\), got 2000\.$",
        ),
        ({"expected_sharers": (0, 5)}, "got 0"),
        ({"expected_sharers": (5, math.nan)}, "got nan"),
        ({"example_probabilities": (0.5, 1.5)}, r"above 0 and at most 1, got 1\.5"),
        ({"example_probabilities": (0.5, math.nan)}, "got nan"),
        ({"example_probabilities": (0.5, 1.0)}, "a multiple of 6 canaries"),
    ],
)
def test_an_impossible_plan_of_sharers_is_refused(change: dict[str, tuple[float, ...]], sentence: str) -> None:
    with pytest.raises(AuditError, match=sentence):
        sharer_plan(phrases(9), STORE, population=1000, seed=1, **change)


def test_more_copies_than_a_device_has_examples_are_refused() -> None:
    with pytest.raises(AuditError, match="at most 100 copies on a device, got 200"):
        device_plan(phrases(27), STORE, seed=1, examples_per_device=100)


def test_one_some_and_all_examples_of_a_device_must_differ() -> None:
    assert len({str(each.sharing) for each in mixed(3).canaries}) == 9
    with pytest.raises(
        AuditError, match="at least 3 examples a device, so that one, some and all of them differ, got 2"
    ):
        mixed(2)


def mixed(examples_per_device: int) -> CanaryPlan:
    return mixed_plan(WORDS, STORE, population=10, seed=1, devices=1, examples_per_device=examples_per_device)


def test_a_plan_of_both_kinds_counts_devices_only_where_there_are_any() -> None:
    mixed = CanaryPlan(
        data={"store": "one"},
        seed=1,
        canaries=(
            Canary(units=("w1",), sharing=SHARED),
            Canary(units=("w2",), sharing=CanaryDevices(devices=2, copies=1)),
        ),
    )
    assert mixed.device_canaries().tolist() == [1, 1]
