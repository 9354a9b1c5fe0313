from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from tacit.audit.plans import device_plan, sharer_plan
from tacit.data.build import save_users
from tacit.data.canaries.plan import IS_REPLACED, IS_SHARER, CanaryPlan, Sharers, encode, word_phrases
from tacit.data.canaries.planting import count_copies, holders, plant
from tacit.data.store import open_store, split_texts
from tacit.data.users import Examples, Users
from tacit.data.views import Reshuffled, Subset
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.data.worlds.randomness import uniform
from tacit.errors import AuditError
from tests.support.canary_words import DATA, WORDS, public
from tests.support.list_users import ListUsers, listed

PEOPLE = 80


def population(users: int = PEOPLE) -> list[list[list[int]]]:
    """Sentences of one to four words: never a canary, which has five."""
    rng = np.random.default_rng(0)
    return [
        [rng.integers(4, 100, rng.integers(1, 5)).tolist() for _ in range(rng.integers(0, 30))] for _ in range(users)
    ]


def shared(users: int = PEOPLE, **changes: object) -> CanaryPlan:
    settings = {"expected_sharers": (2.0, 8.0, 16.0), "example_probabilities": (0.1, 0.5, 1.0), **changes}
    return sharer_plan(word_phrases(WORDS, length=5, count=18, seed=5), DATA, population=users, seed=6, **settings)  # type: ignore[arg-type]


def on_devices() -> CanaryPlan:
    return device_plan(word_phrases(WORDS, length=5, count=27, seed=5), DATA, seed=6)


def everyone(users: Users) -> NDArray[np.int64]:
    return np.arange(len(users), dtype=np.int64)


def expected_with_sharers(people: list[list[list[int]]], plan: CanaryPlan) -> list[list[list[int]]]:
    """The federated secret sharer as in its paper, one example at a time."""
    ids = [canary.tolist() for canary in encode(plan.canaries, WORDS)]
    planted = [[list(sentence) for sentence in user] for user in people]
    for user, sentences in enumerate(planted):
        for number in reversed(range(len(plan.canaries))):
            how = plan.canaries[number].sharing
            assert isinstance(how, Sharers)
            if uniform(plan.seed, IS_SHARER, number, 0, user) < how.user_probability:
                for example in range(len(sentences)):
                    if uniform(plan.seed, IS_REPLACED, number, 0, user, example) < how.example_probability:
                        sentences[example] = ids[number]
    return planted


def test_sharers_are_those_of_the_slow_reference() -> None:
    people, plan = population(), shared()
    planted = plant(ListUsers(people), plan, WORDS, DATA)
    wanted = expected_with_sharers(people, plan)
    assert listed(planted) == wanted
    assert wanted != people
    assert listed(planted, [7, 3, 3, 79]) == [wanted[7], wanted[3], wanted[3], wanted[79]]
    assert listed(planted, []) == []


def test_who_shares_nothing_is_left_alone() -> None:
    people, plan = population(), shared()
    planted = listed(plant(ListUsers(people), plan, WORDS, DATA))
    sharers = set(np.concatenate(holders(plan, ListUsers(people))).tolist())
    assert 0 < len(sharers) < PEOPLE
    assert [planted[u] for u in range(PEOPLE) if u not in sharers] == [
        people[u] for u in range(PEOPLE) if u not in sharers
    ]
    assert [len(user) for user in planted] == [len(user) for user in people]


def test_without_one_user_the_same_others_share_the_same_canaries() -> None:
    everybody, plan = ListUsers(population()), shared()
    rest = np.delete(np.arange(PEOPLE), 11)
    planted = listed(plant(everybody, plan, WORDS, DATA))
    assert listed(plant(Subset(everybody, rest), plan, WORDS, DATA)) == [planted[user] for user in rest]


def test_single_examples_are_those_of_whole_users() -> None:
    people, plan = population(), shared()
    planted = plant(ListUsers(people), plan, WORDS, DATA)
    wanted = expected_with_sharers(people, plan)
    rng = np.random.default_rng(1)
    owners = rng.choice([u for u in range(PEOPLE) if people[u]], 200)
    positions = np.array([rng.integers(len(people[u])) for u in owners])
    picked = planted.pick(owners, positions)  # type: ignore[attr-defined]
    found = [
        picked.items[a:b].tolist() for a, b in zip(picked.example_offsets, picked.example_offsets[1:], strict=False)
    ]
    assert found == [wanted[u][p] for u, p in zip(owners, positions, strict=True)]


def test_shuffled_users_hold_the_same_canaries() -> None:
    people, plan = population(), shared()
    shuffled = Reshuffled(plant(ListUsers(people), plan, WORDS, DATA), PEOPLE, seed=3)
    before, after = (
        Counter(tuple(sentence) for user in users for sentence in user)
        for users in (expected_with_sharers(people, plan), listed(shuffled))
    )
    assert before == after


def test_sharers_and_replacements_are_as_frequent_as_planned() -> None:
    """Both counts are binomial; each test raises a false alarm once in ten million plans."""
    plan = shared(users=20_000)
    one_user = ListUsers([[[4]] * 50] * 20_000)
    who = holders(plan, one_user)
    for setting in (0, 2):
        how = plan.canaries[2 * setting].sharing
        assert isinstance(how, Sharers)
        for number in (2 * setting, 2 * setting + 1):
            assert stats.binomtest(len(who[number]), 20_000, how.user_probability).pvalue > 1e-7
    planted, ids = plant(one_user, plan, WORDS, DATA), encode(plan.canaries, WORDS)
    for number in (14, 15):  # 16 expected sharers, p_e = 0.5
        copies = sum(int(counts.sum()) for _, counts in count_copies(planted, who[number], [ids[number]]))
        assert stats.binomtest(copies, 50 * len(who[number]), 0.5).pvalue > 1e-7


def test_a_store_stays_as_it_is_byte_by_byte(tmp_path: Path) -> None:
    save_users(ListUsers(population()), tmp_path / "s", source="test", vocabulary=Vocabulary(WORDS[4:], word_list("w")))
    files = {path: path.read_bytes() for path in sorted((tmp_path / "s").iterdir())}
    store = open_store(tmp_path / "s")
    for plan in (shared(), on_devices()):
        planted = plant(store, plan, WORDS, DATA, public())
        assert any(counts.any() for _, counts in count_copies(planted, everyone(planted), encode(plan.canaries, WORDS)))
    assert {path: path.read_bytes() for path in sorted((tmp_path / "s").iterdir())} == files
    assert listed(store) == population()


def test_texts_hold_the_canaries_where_the_words_do() -> None:
    class WithTexts(ListUsers):
        def texts(self, users: NDArray[np.int64]) -> Examples:
            written = [[list(_text(sentence).encode()) for sentence in user] for user in self.users]
            return ListUsers(written).gather(users)

    plan = shared()
    planted = plant(WithTexts(population()), plan, WORDS, DATA)
    texts = split_texts(_bytes(planted.texts(everyone(planted))))  # type: ignore[attr-defined]
    assert texts == [_text(sentence) for user in listed(planted) for sentence in user]
    with pytest.raises(AuditError, match="not their texts"):
        plant(ListUsers(population()), plan, WORDS, DATA).texts(everyone(planted))  # type: ignore[attr-defined]


def _text(sentence: list[int]) -> str:
    return " ".join(WORDS[word] for word in sentence)


def _bytes(examples: Examples) -> Examples:
    return Examples(examples.items.astype(np.uint8), examples.example_offsets, examples.user_offsets)


def test_devices_come_after_the_people_and_hold_their_copies() -> None:
    people, plan = population(), on_devices()
    planted = plant(ListUsers(people), plan, WORDS, DATA, public())
    assert len(planted) == PEOPLE + 189
    found = listed(planted)
    assert found[:PEOPLE] == people
    ids = [canary.tolist() for canary in encode(plan.canaries, WORDS)]
    for device, number in zip(found[PEOPLE:], plan.device_canaries(), strict=True):
        counts = Counter(map(tuple, device))
        assert len(device) == 200
        assert f"n_e = {counts.pop(tuple(ids[number]))}" == str(plan.canaries[number].sharing).split(", ")[1]
        assert set(counts) <= {(4, 5), (6,), (7, 8, 9)}
    order = [PEOPLE + 100, 3, PEOPLE, 79, 3]
    assert listed(planted, order) == [found[user] for user in order]
    assert planted.example_counts().tolist() == [len(user) for user in found]  # type: ignore[attr-defined]


def test_copies_and_public_sentences_are_scattered() -> None:
    """Copies lie in other slots from device to device, and every public sentence is as likely (false alarms: 1e-7)."""
    plan = on_devices()
    planted = plant(ListUsers(population()), plan, WORDS, DATA, public())
    once = [
        user for user in range(189) if str(plan.canaries[plan.device_canaries()[user]].sharing).endswith("n_e = 14")
    ]
    ids = encode(plan.canaries, WORDS)
    slots, sentences = [], Counter()
    for device in once:
        canary = ids[plan.device_canaries()[device]].tolist()
        held = listed(planted, [PEOPLE + device])[0]
        slots += [slot for slot, sentence in enumerate(held) if sentence == canary]
        sentences.update(tuple(sentence) for sentence in held if sentence != canary)
    assert stats.kstest(np.array(slots) / 200, "uniform").pvalue > 1e-7
    assert stats.chisquare([sentences[4, 5], sentences[(6,)], sentences[7, 8, 9]]).pvalue > 1e-7


def test_what_does_not_fit_is_refused() -> None:
    people = ListUsers(population())
    with pytest.raises(AuditError, match="for store two, got one for store one"):
        plant(people, shared(), WORDS, {"store": "two"})
    with pytest.raises(AuditError, match="sentences of a public corpus"):
        plant(people, on_devices(), WORDS, DATA)
    with pytest.raises(AuditError, match=r"vocabulary's 46 words, but word \d of canary"):
        plant(people, shared(), WORDS[:50], DATA)
    with pytest.raises(AuditError, match="not among images"):
        plant(ListUsers(population(), images=True), shared(), WORDS, DATA).gather(np.arange(3))
