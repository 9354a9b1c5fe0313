"""Replay held-out users' sentences, word by word, on a simulated keyboard with a given model.

Nothing is learned, and each user leaves only a row of counts. The counts are those of a live experiment (Production, III-C;
Gboard, section 3), under these assumptions about users:

next-word prediction   Before each word the strip shows the three likeliest words, those with a probability of at least
                       `least_shown`. A user looks at slot j with the probability `attention[j]` and picks a right word
                       whenever they look. Picks are expected numbers, not draws. Recall (top-1, top-3) counts how often the
                       word is among the likeliest, whether or not anybody looks. A word outside the vocabulary is never right.
Smart Compose          Before each word the likeliest word, the likeliest after it, and so on, up to `longest_phrase`, as long
                       as the phrase has a probability of at least `confidence` and does not end the sentence. Two or
                       more words are shown inline (a trigger), and right if the user goes on with all of them.
on-the-fly rescoring   The user types each word with taps that can miss, and the keyboard commits the word that `taps` decodes;
                       a wrong word must be modified. The taps are the same for every model.

The context of every word is the text that the user really wrote, whatever was shown or committed before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.users import BOS, EOS, FIRST_WORD, OOV, PAD, Users
from tacit.errors import DataError
from tacit.keyboard.taps import Candidates, Keyboard
from tacit.learning.stepwise import State, Stepwise, select

# The counts of each user.
COUNTS = ("words", "top1", "top3", "picked", "shown", "composed", "composed_right", "typed", "modified", "minutes")

# A metric is the ratio of two counts, each summed over users.
METRICS: dict[str, tuple[str, str]] = {
    "top-1 recall": ("top1", "words"),
    "top-3 recall": ("top3", "words"),
    "picked rate": ("picked", "words"),
    "click-through rate": ("picked", "shown"),
    "compose trigger rate": ("composed", "words"),
    "compose accuracy": ("composed_right", "composed"),
    "word modified ratio": ("modified", "typed"),
    "words per minute": ("typed", "minutes"),
}
LESS_IS_BETTER = ("word modified ratio",)


@dataclass(frozen=True)
class TypingHabits:
    """The assumptions about users and about the keyboard around the model."""

    attention: tuple[float, float, float] = (0.5, 0.4, 0.3)
    least_shown: float = 0.01
    confidence: float = 0.5
    longest_phrase: int = 4
    tokens_per_user: int = 400
    users_at_once: int = 256


@dataclass(frozen=True)
class ReplayCounts:
    """The counts of several users: counts[name][u] for each name of `COUNTS`."""

    counts: dict[str, NDArray[np.float64]]

    def __len__(self) -> int:
        """How many users were replayed."""
        return len(self.counts["words"])

    def metrics(self) -> dict[str, float]:
        """Each metric over all users; nan where the denominator is 0."""
        sums = {name: float(count.sum()) for name, count in self.counts.items()}
        return {name: sums[a] / sums[b] if sums[b] else float("nan") for name, (a, b) in METRICS.items()}


@dataclass(frozen=True)
class Group:
    """Users that are replayed together, the longest first: their numbers, their tokens and their taps.

    tokens [users, time] are each user's sentences as bos w₁ … wₙ; a sentence ends at the next bos. `candidates` are ordered by
    time, then by user, over the words that can be typed.
    """

    members: NDArray[np.int64]
    tokens: NDArray[np.int32]
    candidates: Candidates


@dataclass(frozen=True)
class Recording:
    """The words and taps of held-out users, to be replayed with several models."""

    groups: tuple[Group, ...]
    keyboard: Keyboard
    habits: TypingHabits
    users: int


def record(users: Users, keyboard: Keyboard, *, habits: TypingHabits | None = None, seed: int) -> Recording:
    """Record these users' typing; the seed determines the taps."""
    if len(users) == 0:
        raise DataError("There are no held-out users to replay.")
    habits = habits or TypingHabits()
    groups = []
    for number, (members, tokens) in enumerate(_streams(users, habits)):
        targets = tokens[:, 1:].T.ravel()
        typed = targets[keyboard.length[targets] > 0]
        groups.append(Group(members, tokens, keyboard.candidates(typed, np.random.default_rng((seed, number)))))
    if not any((group.tokens >= OOV).any() for group in groups):
        raise DataError(f"Expected held-out users with words to replay, got {len(users)} who wrote none.")
    return Recording(tuple(groups), keyboard, habits, len(users))


def replay(model: Stepwise, recording: Recording) -> ReplayCounts:
    """The counts of the recorded typing with this model."""
    counts = {name: np.zeros(recording.users) for name in COUNTS}
    for group in recording.groups:
        for name, found in _type(model, group, recording.keyboard, recording.habits).items():
            counts[name][group.members] = found
    return ReplayCounts(counts)


def _streams(users: Users, habits: TypingHabits) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32]]]:
    everyone = users.gather(np.arange(len(users), dtype=np.int64))
    if everyone.labels is not None:
        raise DataError("Expected users who wrote text, got users with images.")
    first = everyone.example_offsets[everyone.user_offsets] + everyone.user_offsets
    stream = np.insert(everyone.items.astype(np.int32), everyone.example_offsets[:-1], BOS)
    padded = np.append(stream, np.int32(PAD))
    lengths = np.minimum(np.diff(first), habits.tokens_per_user)
    by_length = np.argsort(-lengths, kind="stable")
    for start in range(0, len(by_length), habits.users_at_once):
        members = by_length[start : start + habits.users_at_once]
        index = first[members][:, None] + np.arange(max(int(lengths[members[0]]), 1))
        inside = index < (first[members] + lengths[members])[:, None]
        yield members, padded[np.where(inside, index, len(stream))]


def _type(model: Stepwise, group: Group, keyboard: Keyboard, habits: TypingHabits) -> dict[str, NDArray[np.float64]]:
    """The counts of one group of users."""
    tokens = group.tokens
    counts = {name: np.zeros(len(tokens)) for name in COUNTS}
    state = model.begin(len(tokens))
    typed_before = 0
    for t in range(tokens.shape[1] - 1):
        going = int((tokens[:, t + 1] != PAD).sum())
        state = model.read(select(state, slice(going)), tokens[:going, t])
        at_word = np.flatnonzero(tokens[:going, t + 1] >= OOV)
        if not len(at_word):
            continue
        here = select(state, at_word)
        ahead = tokens[at_word, t + 1 : t + 1 + habits.longest_phrase]
        guesses = model.log_probabilities(here)
        found = _strip(guesses, ahead[:, 0], habits)
        found |= _compose(model, here, guesses, ahead, habits)
        found |= _rescore(guesses, ahead[:, 0], keyboard, group.candidates, typed_before)
        typed_before += int(found["typed"].sum())
        counts["words"][at_word] += 1
        for name, each in found.items():
            counts[name][at_word] += each
    return counts


def _strip(guesses: NDArray[np.float32], targets: NDArray[np.int32], habits: TypingHabits) -> dict[str, NDArray[Any]]:
    """The suggestion strip: reserved entries are never shown, equal probabilities go to the smaller id."""
    own = np.take_along_axis(guesses, targets[:, None], axis=1)
    words = guesses[:, FIRST_WORD:]
    rank = np.count_nonzero(words > own, axis=1)
    close = np.flatnonzero(rank < len(habits.attention))
    smaller_id = np.arange(FIRST_WORD, guesses.shape[1]) < targets[close, None]
    rank[close] += np.count_nonzero((words[close] == own[close]) & smaller_id, axis=1)
    # A model with nan logits is wrong everywhere; comparisons with nan alone would not show that.
    rank[(targets < FIRST_WORD) | ~np.isfinite(own[:, 0])] = guesses.shape[1]
    shown = np.minimum((words >= np.log(habits.least_shown)).sum(axis=1), len(habits.attention))
    looked = np.append(habits.attention, 0.0)[np.minimum(rank, len(habits.attention))]
    return {"top1": rank < 1, "top3": rank < 3, "picked": np.where(rank < shown, looked, 0.0), "shown": shown}


def _compose(
    model: Stepwise, state: State, guesses: NDArray[np.float32], ahead: NDArray[np.int32], habits: TypingHabits
) -> dict[str, NDArray[Any]]:
    """Smart Compose before the words `ahead` [rows, up to longest_phrase]."""
    triggered, right = np.zeros(len(guesses), bool), np.zeros(len(guesses), bool)
    rows, still_right, so_far = np.arange(len(guesses)), np.ones(len(guesses), bool), np.zeros(len(guesses))
    for m in range(habits.longest_phrase):
        best = EOS + guesses[:, EOS:].argmax(axis=1)
        so_far = so_far + guesses[np.arange(len(best)), best]
        # The end of the sentence and an unknown word cannot be shown: the phrase ends here.
        goes_on = (best >= FIRST_WORD) & (so_far >= np.log(habits.confidence))
        matches = ahead[rows, m] == best if m < ahead.shape[1] else np.zeros(len(rows), bool)
        rows, so_far, still_right = rows[goes_on], so_far[goes_on], (still_right & matches)[goes_on]
        if not len(rows):
            break
        if m >= 1:
            triggered[rows], right[rows] = True, still_right
        if m + 1 < habits.longest_phrase:
            state = model.read(select(state, goes_on), best[goes_on])
            guesses = model.log_probabilities(state)
    return {"composed": triggered, "composed_right": right}


def _rescore(
    guesses: NDArray[np.float32],
    targets: NDArray[np.int32],
    keyboard: Keyboard,
    candidates: Candidates,
    typed_before: int,
) -> dict[str, NDArray[Any]]:
    """Type the targets that can be typed, with taps that can miss."""
    letters, typist = keyboard.length[targets], keyboard.typist
    typed = letters > 0
    modified = np.zeros(len(targets), bool)
    if typed.any():
        committed = candidates.commit(typed_before, guesses[typed], typist.language_weight)
        modified[typed] = committed != targets[typed]
    minutes = np.where(typed, typist.seconds(letters, modified) / 60, 0.0)
    return {"typed": typed, "modified": modified, "minutes": minutes}
