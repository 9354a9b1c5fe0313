"""Select the users and examples that a generative model learns from: the tasks T1 to T6 of Debugging, Table 1.

| task | criterion         | kept                                                                                  |
|------|-------------------|---------------------------------------------------------------------------------------|
| T1   | `Everything`      | all examples                                                                          |
| T2   | `Judged`          | examples that the primary model gets wrong (or right, for contrast)                   |
| T3   | `UnknownWords`    | a view of its own: the words a vocabulary does not have, as bytes                     |
| T4   | `UserAccuracy`    | all examples of users whose accuracy is low (or high); `Classes`: of some classes     |
| T5   | `Unlabelled`      | a view of its own: all examples without their labels                                  |
| T6   | `LikelihoodRatio` | sentences likely to a model of the private data and unlikely to a model of public text |

**Membership is decided on the user's side.** A criterion reads one user's examples, public constants and released models, so
the selected examples of a user do not depend on other users. A selection is a view with as many users as before: users
outside the selection have no examples and contribute zero to a round, and nobody learns who they are. Sampling all users with
a public q *is* Poisson sampling of the subpopulation with q, so its true size is never needed. `subpopulation` counts it for
the convention of Tables 3 and 13, where N is the size of the subpopulation.

`description` goes into the ledger, so that a reviewer can see how users were selected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.data.faults import Sentences, spelled
from tacit.data.ragged import offsets_of, ranges
from tacit.data.users import Examples, Users, in_blocks
from tacit.data.views import Subset, View, example_counts
from tacit.errors import DataError
from tacit.inspection.example_scores import Judge, Likelihood
from tacit.inspection.record import SelectionRecord, Threshold
from tacit.models.char_lm import FIRST_BYTE

UNLABELLED = -1


class Criterion(Protocol):
    """Decides which examples to keep: a pure function of one user's examples, batched over users."""

    def keep(self, examples: Examples) -> NDArray[np.bool_]:
        """Whether each example is kept."""
        ...

    def describe(self) -> SelectionRecord:
        """For the ledger."""
        ...


@dataclass(frozen=True)
class Everything:
    """T1: all examples."""

    def keep(self, examples: Examples) -> NDArray[np.bool_]:
        """Whether each example is kept: always."""
        return np.ones(len(examples.example_offsets) - 1, bool)

    def describe(self) -> SelectionRecord:
        """For the ledger."""
        return SelectionRecord("T1")


@dataclass(frozen=True)
class Judged:
    """T2, by example: examples that the primary model gets wrong or, with `right`, those that it gets right."""

    judge: Judge
    right: bool = False

    def keep(self, examples: Examples) -> NDArray[np.bool_]:
        """Whether each example is kept; an example without predictions is neither right nor wrong."""
        marks = self.judge(examples)
        return (marks.asked > 0) & ((marks.right == marks.asked) == self.right)

    def describe(self) -> SelectionRecord:
        """For the ledger."""
        return SelectionRecord("T2", "example", predicted="rightly" if self.right else "wrongly")


@dataclass(frozen=True)
class UserAccuracy:
    """T4, by user: all examples of users whose accuracy is at most (``low``) or at least (``high``) the threshold."""

    judge: Judge
    threshold: Threshold
    side: Literal["low", "high"]

    def keep(self, examples: Examples) -> NDArray[np.bool_]:
        """Whether each example is kept: all of a user's examples or none. A user without predictions is on neither side."""
        accuracy = self.judge(examples).by_user(examples.user_offsets).accuracy()
        with np.errstate(invalid="ignore"):
            member = accuracy <= self.threshold.value if self.side == "low" else accuracy >= self.threshold.value
        return np.repeat(member, np.diff(examples.user_offsets))

    def describe(self) -> SelectionRecord:
        """For the ledger."""
        return SelectionRecord("T4", "user", accuracy=self.side, threshold=self.threshold)


@dataclass(frozen=True)
class Classes:
    """T4, by slice: examples of these classes, which are public constants."""

    labels: Collection[int]

    def keep(self, examples: Examples) -> NDArray[np.bool_]:
        """Whether each example is kept."""
        if examples.labels is None:
            raise DataError("A selection of classes needs users with labelled images, and these have text.")
        return np.isin(examples.labels, list(self.labels))

    def describe(self) -> SelectionRecord:
        """For the ledger."""
        return SelectionRecord("T4", "example", classes=tuple(sorted(self.labels)))


@dataclass(frozen=True)
class LikelihoodRatio:
    """T6, by example: log P_private(x) - log P_public(x), per prediction, is at least the threshold.

    `private` is the likelihood under a released model, whose cost composes with this run's; `public` that under a model of
    public text. Without `private` this is the paper's other form: log P_public(x) is at most minus the threshold.
    """

    private: Likelihood | None
    public: Likelihood
    threshold: Threshold

    def keep(self, examples: Examples) -> NDArray[np.bool_]:
        """Whether each sentence is kept."""
        surprise = -self.public(examples)
        ratio = surprise if self.private is None else surprise + self.private(examples)
        return ratio >= self.threshold.value

    def describe(self) -> SelectionRecord:
        """For the ledger."""
        measure = "public likelihood" if self.private is None else "likelihood ratio"
        return SelectionRecord("T6", "example", measure=measure, threshold=self.threshold)


class Selected(View):
    """Users with the examples that a criterion keeps; users with fewer than `minimum_examples` of them have none (C.4)."""

    def __init__(self, users: Users, criterion: Criterion, *, minimum_examples: int = 1) -> None:
        if minimum_examples < 1:
            raise DataError(f"Expected a minimum of at least 1 example per user, got {minimum_examples}.")
        super().__init__(users)
        self._criterion, self._minimum = criterion, minimum_examples
        # The examples kept never change, and scoring them costs far more than storing the result.
        self._kept: dict[int, NDArray[np.bool_]] = {}

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The kept examples of these users; users outside the selection have none."""
        full = self._users.gather(users)
        keep = self._keep(users, full)
        owner = np.repeat(np.arange(len(users)), np.diff(full.user_offsets))
        user_offsets = offsets_of(np.bincount(owner[keep], minlength=len(users)))
        if full.labels is not None:
            singles = np.arange(user_offsets[-1] + 1, dtype=np.int64)
            return Examples(full.items[keep], singles, user_offsets, full.labels[keep])
        starts, lengths = full.example_offsets[:-1][keep], np.diff(full.example_offsets)[keep]
        return Examples(full.items[ranges(starts, lengths)], offsets_of(lengths), user_offsets)

    def spelled(self, users: NDArray[np.int64]) -> list[Sentences]:
        """The kept examples of these users, as text tokens."""
        flags = iter(self._keep(users, self._users.gather(users)).tolist())
        return [[sentence for sentence in one if next(flags)] for one in spelled(self._users, users)]

    @property
    def description(self) -> SelectionRecord:
        """The selection, for the ledger."""
        return replace(self._criterion.describe(), minimum_examples=self._minimum)

    def _keep(self, users: NDArray[np.int64], full: Examples) -> NDArray[np.bool_]:
        if any(int(user) not in self._kept for user in users):
            keep = self._criterion.keep(full)
            for user, own in zip(users.tolist(), np.split(keep, full.user_offsets[1:-1]), strict=True):
                self._kept[user] = own if own.sum() >= self._minimum else np.zeros_like(own)
        return np.concatenate([np.empty(0, bool), *(self._kept[int(user)] for user in users)])


class UnknownWords(View):
    """T3: the words of each user that are not `known`, each an example of bytes for `models.char_lm`.

    Each occurrence of a word is an example. A word of more than `longest` bytes is cut after longest + 1 bytes, so that a row
    of longest + 1 predictions does not contain its end: the model must not learn that the piece is a word. The users must
    keep their texts, or be a view that can spell them (`data.faults.spelled`).
    """

    def __init__(self, users: Users, known: Iterable[str], *, longest: int = 20, minimum_examples: int = 1) -> None:
        if longest < 1 or minimum_examples < 1:
            raise DataError(
                f"Expected at least 1 byte per word and 1 example per user, got {longest} and {minimum_examples}."
            )
        super().__init__(users)
        self._known = frozenset(known)
        self._longest, self._minimum = longest, minimum_examples
        self._words: dict[int, list[bytes]] = {}

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The unknown words of these users; an item is a byte, with the character model's number."""
        new = np.array([user for user in users.tolist() if user not in self._words], np.int64)
        for user, sentences in zip(new.tolist(), spelled(self._users, new), strict=True):
            found = [word.encode()[: self._longest + 1] for one in sentences for word in one if word not in self._known]
            self._words[user] = found if len(found) >= self._minimum else []
        words = [self._words[user] for user in users.tolist()]
        flat = [word for one in words for word in one]
        items = np.frombuffer(b"".join(flat), np.uint8).astype(np.uint16) + np.uint16(FIRST_BYTE)
        return Examples(items, offsets_of(_sizes(flat)), offsets_of(_sizes(words)))

    @property
    def description(self) -> SelectionRecord:
        """The selection, for the ledger."""
        return SelectionRecord("T3", "example", longest=self._longest, minimum_examples=self._minimum)


class Unlabelled(View):
    """T5: all images, with every label replaced by `UNLABELLED`, so that nothing learned depends on labels."""

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The images of these users."""
        full = self._users.gather(users)
        if full.labels is None:
            raise DataError("Removing labels needs users with images, and these have text.")
        return Examples(full.items, full.example_offsets, full.user_offsets, np.full_like(full.labels, UNLABELLED))

    def example_counts(self) -> NDArray[np.int64]:
        """How many images each user has."""
        return example_counts(self._users)

    @property
    def description(self) -> SelectionRecord:
        """The selection, for the ledger."""
        return SelectionRecord("T5")


def subpopulation(selected: Users, *, at_least: int = 1) -> Subset:
    """The users who have examples; DataError if they are fewer than `at_least` (for example a cohort).

    This reads every user, and the number of users found is not public: use it only in simulations by the paper's convention.
    """
    counts = [np.empty(0, np.int64)]
    for block in in_blocks(len(selected)):
        counts.append(np.diff(selected.gather(block).user_offsets))
    members = np.flatnonzero(np.concatenate(counts)).astype(np.int64)
    if not len(members):
        raise DataError("No user meets the selection: the subpopulation is empty.")
    if len(members) < at_least:
        raise DataError(f"Expected a subpopulation of at least {at_least} users, got {len(members)}.")
    return Subset(selected, members)


def _sizes(lists: Collection[Any]) -> NDArray[np.int64]:
    return np.array([len(each) for each in lists], np.int64)
