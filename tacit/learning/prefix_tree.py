"""Words letter by letter, as a choice of work and server step for the one training loop.

    work           `PrefixWork`: which extensions of the live prefixes do a user's words have? (1/√n for each of n)
    server step    `PrefixServer`: keep what reaches the threshold, collect the words that have ended, and choose how many
                   letters the next round asks for

`tacit.privacy.discovery.prefix_threshold` has the proofs. What users get is a `PrefixTree`; what they send is one vector of
`coordinates` numbers, the same in every round, so that sums, secure sums and compiled plans have one shape.

Coordinate slot · Aᵏ + code stands for the live prefix number `slot` and the k symbols whose code it is, in base A; A is the
number of letters plus one, and symbol 0 is the end of the word. After the end come only ends. Symbol s of a row is the letter
with the number FIRST_WORD + s − 1 (`tacit.data.spelling`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray

from tacit.data.users import BOS, FIRST_WORD
from tacit.learning.server import Server, is_finite
from tacit.privacy.noise.mechanisms import Release
from tacit.privacy.record.records import UPDATE


@dataclass(frozen=True)
class TreeShape:
    """The public constants of a tree: its letters, the longest word, the coordinates of a round, and the words it has room for.

    >>> shape = TreeShape(letters=37, longest=13, coordinates=65_536, places=100)
    >>> shape.symbols, shape.most_prefixes, shape.most_letters
    (38, 1724, 3)
    """

    letters: int
    longest: int
    coordinates: int
    places: int

    @property
    def symbols(self) -> int:
        """A: the letters, and the end of a word."""
        return self.letters + 1

    @property
    def most_prefixes(self) -> int:
        """How many prefixes can live if the next round asks for one letter."""
        return self.coordinates // self.symbols

    @property
    def most_letters(self) -> int:
        """How many letters a round can ask for if one prefix lives."""
        k = 1
        while self.symbols ** (k + 1) <= self.coordinates:
            k += 1
        return k

    def least_letters(self, depth: int, rounds: int) -> int:
        """How many letters each of so many rounds must ask for at least, to reach the end of the longest words."""
        return -(-(self.longest + 1 - depth) // max(rounds, 1))

    def step(self, prefixes: int, depth: int, rounds: int) -> tuple[int, int]:
        """(how many of these prefixes live on, how many letters the next round asks for), with so many rounds left.

        As many prefixes live as leave room for the letters that a round must ask for; where there is more room, it asks for
        more letters. (0, 0) where nothing is left to ask.
        """
        left = self.longest + 1 - depth
        k = self.least_letters(depth, rounds)
        kept = min(prefixes, self.coordinates // self.symbols**k) if left > 0 and rounds > 0 else 0
        if kept == 0:
            return 0, 0
        while k < left and kept * self.symbols ** (k + 1) <= self.coordinates:
            k += 1
        return kept, k


class PrefixTree(eqx.Module):
    """What users get: the live prefixes as rows of symbols, sorted, with zeros behind; all numbers are whole."""

    prefixes: Array  # float32 [most_prefixes, longest]
    live: Array  # float32, how many of the rows are prefixes
    depth: Array  # float32, how many symbols each has
    letters: Array  # float32, how many symbols the round asks for


class PrefixState(eqx.Module):
    """What the rounds have made: the tree for the next one, the last release, and the words that have ended with their totals.

    A row of `words` whose total is 0 is none.
    """

    tree: PrefixTree
    totals: Array  # float32 [coordinates]
    words: Array  # float32 [places, longest]
    word_totals: Array  # float32 [places]


def seedling(shape: TreeShape, rounds: int) -> PrefixState:
    """The empty prefix alone, before the first of so many rounds."""
    _, letters = shape.step(1, 0, rounds)
    nothing = np.zeros((0, shape.longest), np.int32)
    tree = _tree(shape, np.zeros((1, shape.longest), np.int32), 0, letters)
    return _found(shape, tree, np.zeros(shape.coordinates, np.float32), nothing, np.zeros(0, np.float32))


@dataclass(frozen=True)
class PrefixWork:
    """What one user computes: a vector of norm at most 1 that says which extensions of the live prefixes their words have.

    Batches are rows of letters [steps, rows, longest + 2], each as bos, letters, eos, padding.
    """

    shape: TreeShape

    @property
    def ignores_padding(self) -> bool:
        """A row of padding is no word."""
        return True

    def learned(self, model: PrefixState) -> Array:
        """The subtree that users' vectors have the shape of."""
        return model.totals

    def __call__(self, model: PrefixState, batches: Any, steps: Array, clip_norm: Array) -> Array:
        """The user's vector."""
        return self.of_tree(model.tree, batches)

    def of_tree(self, tree: PrefixTree, batches: Array) -> Array:
        """The user's vector, from the tree alone."""
        shape = self.shape
        rows = batches.reshape(-1, shape.longest + 2)
        symbols = jnp.where(rows[:, 1:] >= FIRST_WORD, rows[:, 1:] - (FIRST_WORD - 1), 0)  # [words, longest + 1]
        is_word = (rows[:, 0] == BOS) & (rows[:, 1] >= FIRST_WORD) & jnp.all(symbols <= shape.letters, axis=1)
        depth, letters = tree.depth.astype(jnp.int32), tree.letters.astype(jnp.int32)
        begins = jnp.where(jnp.arange(shape.longest) < depth, symbols[:, :-1], 0)
        slots, lives = _slots(tree.prefixes.astype(jnp.int32), tree.live.astype(jnp.int32), begins)
        padded = jnp.pad(symbols, ((0, 0), (0, shape.most_letters)))
        coordinates = slots
        for place in range(shape.most_letters):
            further = coordinates * shape.symbols + jnp.take(padded, depth + place, axis=1, mode="clip")
            coordinates = jnp.where(place < letters, further, coordinates)
        counts = is_word & lives & (letters > 0)
        outside = jnp.int32(shape.coordinates)
        has = jnp.zeros(shape.coordinates, jnp.float32)
        has = has.at[jnp.where(counts, coordinates, outside)].max(1.0, mode="drop")
        return has / jnp.sqrt(jnp.maximum(jnp.sum(has), 1.0))


def _slots(prefixes: Array, live: Array, begins: Array) -> tuple[Array, Array]:
    """Where each row of `begins` [words, longest] is among the sorted prefixes, and whether it is there: a binary search."""
    most = len(prefixes)

    def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = (low + high) // 2
        row = prefixes[jnp.minimum(middle, most - 1)]
        place = jnp.argmax(row != begins, axis=1, keepdims=True)
        at, sought = (jnp.take_along_axis(each, place, axis=1)[:, 0] for each in (row, begins))
        above = (at < sought) & (low < high)
        return jnp.where(above, middle + 1, low), jnp.where(above, high, middle)

    start = jnp.zeros(len(begins), jnp.int32)
    slots, _ = jax.lax.fori_loop(0, most.bit_length() + 1, halve, (start, start + live))
    slots = jnp.minimum(slots, most - 1)
    return slots, (slots < live) & jnp.all(prefixes[slots] == begins, axis=1)


@dataclass(frozen=True)
class PrefixServer(Server):
    """Turns a release into the next tree. It reads the release, public constants and what earlier releases made."""

    shape: TreeShape
    threshold: float
    rounds: int

    @classmethod
    def of(cls, shape: TreeShape, *, threshold: float, rounds: int, denominator: float) -> PrefixServer:
        """The server that shows what reaches the threshold, over so many rounds."""
        return cls(optax.identity(), denominator, _no_step, shape=shape, threshold=threshold, rounds=rounds)

    def init(self, model: PrefixState) -> Any:
        """How many rounds are done."""
        return {"rounds_done": jnp.zeros((), jnp.int32)}

    def step(self, model: PrefixState, state: Any, release: Release) -> tuple[PrefixState, Any, Array]:
        """(the next tree and the words so far, how many rounds are done, whether the release is finite)."""
        done = int(state["rounds_done"]) + 1
        after = grown(self.shape, model, np.asarray(release[UPDATE]), self.threshold, self.rounds - done)
        return after, {"rounds_done": jnp.asarray(done, jnp.int32)}, is_finite(after.totals)


def _no_step(*parts: Any) -> Any:
    raise NotImplementedError("A prefix tree has a step of its own.")


def grown(
    shape: TreeShape, model: PrefixState, totals: NDArray[np.float32], threshold: float, rounds_left: int
) -> PrefixState:
    """The next tree: of all extensions that reach the threshold, those that have ended are words, the others live on.

    Where there is no room for all, the largest totals have it.
    """
    tree = model.tree
    depth, k, live = int(tree.depth), int(tree.letters), int(tree.live)
    reached = np.flatnonzero(totals[: live * shape.symbols**k] >= threshold) if k else np.zeros(0, np.int64)
    slots, codes = np.divmod(reached, shape.symbols**k)
    rows = np.asarray(tree.prefixes)[slots].astype(np.int32)
    rows = np.concatenate([rows, np.zeros((len(rows), 1), np.int32)], axis=1)  # [reached, longest + 1]
    for place in range(k):
        rows[:, depth + place] = codes // shape.symbols ** (k - 1 - place) % shape.symbols
    used, ended = rows != 0, ~(rows[:, : depth + k] != 0).all(axis=1)
    # Nobody can have a letter after the end, a letter behind the longest word, or the empty word.
    possible = (used[:, 1:] <= used[:, :-1]).all(axis=1) & ~used[:, -1] & used[:, 0]
    values, rows = totals[reached], rows[:, :-1]
    is_word, is_prefix = possible & ended, possible & ~ended
    before = np.asarray(model.word_totals) > 0
    words = np.concatenate([np.asarray(model.words)[before].astype(np.int32), rows[is_word]])
    word_totals = np.concatenate([np.asarray(model.word_totals)[before], values[is_word]])
    kept, letters = shape.step(int(is_prefix.sum()), depth + k, rounds_left)
    best = np.argsort(-values[is_prefix], kind="stable")[:kept]
    next_tree = _tree(shape, rows[is_prefix][best], depth + k, letters)
    return _found(shape, next_tree, totals, words, word_totals)


def words_of(model: PrefixState, alphabet: str) -> dict[str, float]:
    """The words that were found with their noised totals, the largest first."""
    rows, totals = np.asarray(model.words).astype(np.int32), np.asarray(model.word_totals).tolist()
    found = {_spelled(row, alphabet): total for row, total in zip(rows.tolist(), totals, strict=True) if total > 0}
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def prefixes_of(model: PrefixState, alphabet: str) -> list[str]:
    """The prefixes that live, in the order of the alphabet."""
    rows = np.asarray(model.tree.prefixes).astype(np.int32)[: int(model.tree.live)]
    return [_spelled(row, alphabet) for row in rows.tolist()]


def _spelled(row: list[int], alphabet: str) -> str:
    return "".join(alphabet[symbol - 1] for symbol in row if symbol)


def _tree(shape: TreeShape, rows: NDArray[np.int32], depth: int, letters: int) -> PrefixTree:
    """The tree of these prefixes, sorted."""
    rows = rows[np.lexsort(rows.T[::-1])]
    prefixes = np.zeros((shape.most_prefixes, shape.longest), np.float32)
    prefixes[: len(rows)] = rows
    live, depth_, letters_ = (jnp.asarray(number, jnp.float32) for number in (len(rows), depth, letters))
    return PrefixTree(jnp.asarray(prefixes), live, depth_, letters_)


def _found(
    shape: TreeShape,
    tree: PrefixTree,
    totals: NDArray[np.float32],
    words: NDArray[np.int32],
    word_totals: NDArray[np.float32],
) -> PrefixState:
    best = np.argsort(-word_totals, kind="stable")[: shape.places]
    rows, values = np.zeros((shape.places, shape.longest), np.float32), np.zeros(shape.places, np.float32)
    rows[: len(best)], values[: len(best)] = words[best], word_totals[best]
    return PrefixState(tree, jnp.asarray(totals, jnp.float32), jnp.asarray(rows), jnp.asarray(values))
