"""Every population of users, real, made up or a view, keeps the contract of users (`tacit.testing.UsersContract`)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.audit.plans import coin_plan, device_plan, sharer_plan
from tacit.audit.run_audit import AsTrained
from tacit.data.canaries.plan import word_phrases
from tacit.data.canaries.planting import SecretSharers
from tacit.data.canaries.synthetic_users import WithCoinUsers, WithDevices
from tacit.data.encoding import Encoded, word_counts
from tacit.data.faults import CaseKept, Concatenated, Inverted, Relabelled, Rotated
from tacit.data.memory import MemoryUsers, users
from tacit.data.sharded import ShardedStore
from tacit.data.sharding import cut_into_shards
from tacit.data.spelling import SpelledUsers, Spelling
from tacit.data.store import Store, open_store
from tacit.data.users import Examples, Users, names_of_numbers
from tacit.data.views import Capped, Reshuffled, Subset
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.data.worlds import HandwritingWorld, KeyboardWorld
from tacit.inspection.example_scores import Marks
from tacit.inspection.selection import Classes, Selected, Threshold, UnknownWords, Unlabelled, UserAccuracy
from tacit.learning.batches import TextBatches
from tacit.learning.pretrain import Reworded
from tacit.testing.users import UsersContract
from tests.support.chats import write_chat
from tests.support.implementations import covered, implementations
from tests.support.store_keys import KEY

WORDS = [f"w{number}" for number in range(9)]
CHATS = {f"user {u}": [" ".join(WORDS[: 1 + (u + s) % 7]) for s in range(u % 4)] for u in range(9)}
generator = np.random.default_rng(0)
PICTURES = {f"user {u}": (generator.integers(0, 255, (u % 3, 28, 28), np.uint8), np.arange(u % 3)) for u in range(7)}


def chatting(without: int | None = None, **more: Any) -> MemoryUsers:
    return users(_less(CHATS, without), vocabulary=WORDS, held_out=0.4, key=KEY, **more)


def drawing(without: int | None = None) -> MemoryUsers:
    return users(_less(PICTURES, without), held_out=0.4, key=KEY)


def _less(source: dict[str, Any], without: int | None) -> dict[str, Any]:
    return {name: each for number, (name, each) in enumerate(source.items()) if number != without}


def phrases_of(people: MemoryUsers) -> Any:
    return word_phrases(people.words, length=3, count=4, seed=5)


class TestMemoryText(UsersContract):
    implementation = MemoryUsers

    def users(self) -> Users:
        return chatting()

    def without(self, number: int) -> Users:
        return chatting(number)


class TestMemoryImages(UsersContract):
    implementation = MemoryUsers

    def users(self) -> Users:
        return drawing()

    def without(self, number: int) -> Users:
        return drawing(number)


class TestMemoryRows(UsersContract):
    """Rows in any order, where a user's number depends on who came first."""

    implementation = MemoryUsers

    def users(self) -> Users:
        return self.without(-1)

    def without(self, number: int) -> Users:
        rows = [{"u": turn % 4, "t": WORDS[turn % 9]} for turn in range(13) if turn % 4 != number]
        return users(rows, user="u", text="t", vocabulary=WORDS, held_out=0.4, key=KEY)


class TestStore(UsersContract):
    implementation = Store

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folders = (tmp_path / str(number) for number in itertools.count())

    def stored(self, people: MemoryUsers) -> Users:
        people.save(folder := next(self.folders))
        return open_store(folder)

    def users(self) -> Users:
        return self.stored(chatting())

    def without(self, number: int) -> Users:
        return self.stored(chatting(number))


class TestImageStore(TestStore):
    def users(self) -> Users:
        return self.stored(drawing())

    def without(self, number: int) -> Users:
        return self.stored(drawing(number))


class TestShardedStore(TestStore):
    implementation = ShardedStore

    def stored(self, people: MemoryUsers) -> Users:
        whole = super().stored(people)
        assert isinstance(whole, Store)
        return cut_into_shards(whole, next(self.folders), 3)


class TestShardedImageStore(TestShardedStore):
    def users(self) -> Users:
        return self.stored(drawing())

    def without(self, number: int) -> Users:
        return self.stored(drawing(number))


class TestEncoded(UsersContract):
    """A store of texts that is read with other words."""

    implementation = Encoded

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folders = (tmp_path / str(number) for number in itertools.count())

    def users(self) -> Users:
        return self.without(-1)

    def without(self, number: int) -> Users:
        wrote = {name: texts for name, texts in CHATS.items() if texts}  # an import leaves out who wrote nothing
        store = write_chat(next(self.folders), _less(wrote, number), words=WORDS[:2], held_out=0.4)
        return Encoded(store, Vocabulary(tuple(WORDS[1:5]), word_list("other")))


class TestSpelledUsers(TestEncoded):
    """The same texts, read letter by letter."""

    implementation = SpelledUsers

    def without(self, number: int) -> Users:
        wrote = {name: texts for name, texts in CHATS.items() if texts}
        store = write_chat(next(self.folders), _less(wrote, number), words=WORDS[:2], held_out=0.4)
        spelling = Spelling("w0123", longest=2, most_words=3, known=frozenset({"w0"}))
        return SpelledUsers(store, lambda chosen: word_counts(store, chosen), spelling)


class TestKeyboardWorld(UsersContract):
    """A made-up user's name is their number, so only the last can go."""

    implementation = KeyboardWorld

    def users(self) -> Users:
        return KeyboardWorld(3, 6, vocabulary_size=500)

    def without(self, number: int) -> Users | None:
        return KeyboardWorld(3, 5, vocabulary_size=500) if number == 5 else None


class TestHandwritingWorld(UsersContract):
    implementation = HandwritingWorld

    def users(self) -> Users:
        return HandwritingWorld(3, 4, glyphs_per_writer=3)

    def without(self, number: int) -> Users | None:
        return HandwritingWorld(3, 3, glyphs_per_writer=3) if number == 3 else None


class TestSubset(UsersContract):
    implementation = Subset
    members = np.array([7, 0, 3, 5])

    def users(self) -> Users:
        return Subset(chatting(), self.members)

    def without(self, number: int) -> Users:
        return Subset(chatting(), np.delete(self.members, number))


class TestReshuffled(UsersContract):
    """Synthetic users are nobody in particular, and none of them can be removed."""

    implementation = Reshuffled

    def users(self) -> Users:
        return Reshuffled(chatting(), 4, seed=1)


class _ViewContract(UsersContract):
    """A view over users in memory: without a user beneath it is a view without them."""

    def view(self, people: MemoryUsers) -> Users:
        raise NotImplementedError

    def beneath(self, without: int | None = None) -> MemoryUsers:
        return chatting(without)

    def users(self) -> Users:
        return self.view(self.beneath())

    def without(self, number: int) -> Users:
        return self.view(self.beneath(number))


class TestCapped(_ViewContract):
    implementation = Capped

    def view(self, people: MemoryUsers) -> Users:
        return Capped(people, tokens=4, examples=2)


class TestSecretSharers(_ViewContract):
    implementation = SecretSharers

    def view(self, people: MemoryUsers) -> Users:
        phrases = phrases_of(people)
        settings: Any = {"expected_sharers": (4.0, 6.0), "example_probabilities": (0.5, 1.0)}
        return SecretSharers(
            people, sharer_plan(phrases, {"store": "s"}, population=9, seed=6, **settings), people.words
        )


class TestConcatenated(_ViewContract):
    implementation = Concatenated

    def view(self, people: MemoryUsers) -> Users:
        return Concatenated(people, 0.5, seed=2)


class TestCaseKept(UsersContract):
    """It needs texts, which users in memory do not keep."""

    implementation = CaseKept

    def users(self) -> Users:
        world = KeyboardWorld(3, 6, vocabulary_size=500)
        return CaseKept(world, world.words, 0.5, seed=2)


class TestInverted(_ViewContract):
    implementation = Inverted

    def beneath(self, without: int | None = None) -> MemoryUsers:
        return drawing(without)

    def view(self, people: MemoryUsers) -> Users:
        return Inverted(people, 0.5, seed=2)


class TestRotated(TestInverted):
    implementation = Rotated

    def view(self, people: MemoryUsers) -> Users:
        return Rotated(people, 0.5, seed=2)


class TestRelabelled(TestInverted):
    implementation = Relabelled

    def view(self, people: MemoryUsers) -> Users:
        return Relabelled(people, 0.5, 3, seed=2)


class TestWithDevices(_ViewContract):
    """People, then made-up devices, none of whom can be removed."""

    implementation = WithDevices

    def view(self, people: MemoryUsers) -> Users:
        shape: Any = {"devices": (1,), "copies": (1, 2), "examples_per_device": 3}
        plan = device_plan(phrases_of(people), {"store": "s"}, seed=6, **shape)
        return WithDevices(people, plan, people.words, chatting().gather(np.arange(4, 8)))

    def without(self, number: int) -> Users | None:
        return super().without(number) if number < len(CHATS) else None


class TestWithCoinUsers(TestWithDevices):
    implementation = WithCoinUsers

    def view(self, people: MemoryUsers) -> Users:
        return WithCoinUsers(people, coin_plan(phrases_of(people), {"store": "s"}, seed=6, copies=2), people.words)


class TestReworded(_ViewContract):
    implementation = Reworded

    def view(self, people: MemoryUsers) -> Users:
        return Reworded(people, people.words, people.words[:-3])


class TestAsTrained(_ViewContract):
    implementation = AsTrained

    def view(self, people: MemoryUsers) -> Users:
        return AsTrained(people, TextBatches("windows", length=4, batch_size=2, steps=1))


class TestAsTrainedOnSentences(TestAsTrained):
    def view(self, people: MemoryUsers) -> Users:
        return AsTrained(people, TextBatches("sentences", length=4, batch_size=2, steps=1))


class TestSelected(_ViewContract):
    """By their accuracy, so that a user is chosen whole; what was found is kept for the next call."""

    implementation = Selected

    def view(self, people: MemoryUsers) -> Users:
        return Selected(people, UserAccuracy(_mark_short_words, Threshold(0.9), "low"), minimum_examples=2)


class TestSelectedImages(TestInverted):
    implementation = Selected

    def view(self, people: MemoryUsers) -> Users:
        return Selected(people, Classes({1}))


class TestUnlabelled(TestInverted):
    implementation = Unlabelled

    def view(self, people: MemoryUsers) -> Users:
        return Unlabelled(people)


class TestUnknownWords(TestCaseKept):
    implementation = UnknownWords

    def users(self) -> Users:
        world = KeyboardWorld(3, 6, vocabulary_size=500)
        return UnknownWords(world, world.words, longest=5)


def _mark_short_words(examples: Examples) -> Marks:
    """A judge who finds the first four words right."""
    lengths = np.diff(examples.example_offsets)
    return Marks(np.minimum(lengths, 4), lengths)


def test_no_population_of_users_is_forgotten() -> None:
    bases = {"FlatUsers", "_Devices"}  # others are built on these, and tested
    assert covered(globals(), UsersContract) == implementations(Users, other_than=bases)


class _NamedByNumber(Capped):
    def names(self, users: Any) -> Any:
        return names_of_numbers(users)


class _HeldOutByNumber(Capped):
    def held_out_users(self, most: int | None = None) -> Any:
        return np.arange(len(self) // 2)


class _SizedByCompany(Capped):
    def gather(self, users: Any) -> Examples:
        return Capped(self._users, examples=len(users)).gather(users)


class _Shared(Capped):
    """Gives the same arrays to everybody who asks for the same users."""

    def gather(self, users: Any) -> Examples:
        self.given = getattr(self, "given", {})
        return self.given.setdefault(users.tobytes(), super().gather(users))


@pytest.mark.parametrize(
    ("view", "check"),
    [
        (_NamedByNumber, "test_removing_a_user_changes_nothing_about_any_other"),
        (_HeldOutByNumber, "test_removing_a_user_changes_nothing_about_any_other"),
        (_SizedByCompany, "test_users_gathered_together_have_the_examples_that_each_has_alone"),
        (_Shared, "test_what_a_caller_writes_into_examples_does_not_come_back"),
    ],
)
def test_the_contract_notices_users_who_break_it(view: type, check: str) -> None:
    class Broken(TestCapped):
        def view(self, people: MemoryUsers) -> Users:
            return view(people, examples=9)

    with pytest.raises(AssertionError):
        getattr(Broken(), check)()
