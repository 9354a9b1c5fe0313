"""What held-out users show: how many of their words are unknown and where, and how well a model spells these.

Whom another run was trained on is not held out for it (`require_held_out`).

What reads users crosses no gate here: it is printed as outside the guarantee, feeds no training, and is about people whom
nothing is trained on. The same rates of sentences that a model made up (`drawn_rates`) are free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.data.users import BLOCK, OOV, Users
from tacit.errors import DataError
from tacit.models.char_lm import CharLM, log_likelihoods, prediction_mask
from tacit.runs.folder import RunFolder

# Places in a sentence that are told apart; further ones are left out of the list, not of the rate.
PLACES = 10
# Rows a compiled call; the last call is padded to it.
CHUNK = 256


@dataclass(frozen=True)
class UnknownRates:
    """The share of words that the vocabulary does not have: of all, and of the first, second, … of their sentences.

    The list ends where no sentence is longer.
    """

    overall: float
    by_place: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"overall": self.overall, "by_place": list(self.by_place)}

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> UnknownRates:
        """What `as_dict` gave."""
        return cls(float(tree["overall"]), tuple(float(each) for each in tree["by_place"]))


class Split(Protocol):
    """The part of a recipe's [data] that says who is held out."""

    users: int


def require_held_out(data: Split, about: Mapping[str, Any], run: RunFolder) -> None:
    """DataError if users whom `data` holds out are among those that the finished run was trained on.

    `about` is what the ledger says of the data here. A store holds out the same people for every run, and the people of another
    store or world are others, so this can happen in one world only, whose held-out users come after `data.users`.
    """
    trained, there = run.recipe()["data"], run.ledger().opened.data
    if "world" not in about or (about["world"], about["seed"]) != (there.get("world"), there.get("seed")):
        return
    if data.users < trained["users"]:
        raise DataError(
            f"Expected held-out users whom the run {run.path} was not trained on, data.users ≥ {trained['users']}, "
            f"got {data.users}."
        )


def unknown_rates(users: Users, numbers: NDArray[np.int64]) -> UnknownRates:
    """The rates among these users, who are to be held-out ones (Debugging, Figure 4 and Table 6)."""
    words, unknown, in_all = np.zeros(PLACES), np.zeros(PLACES), np.zeros(2)
    for start in range(0, len(numbers), BLOCK):
        found = users.gather(numbers[start : start + BLOCK])
        lengths = np.diff(found.example_offsets)
        place = np.arange(len(found.items)) - np.repeat(found.example_offsets[:-1], lengths)
        is_unknown = found.items == OOV
        in_all += len(place), is_unknown.sum()
        words += np.bincount(place[place < PLACES], minlength=PLACES)
        unknown += np.bincount(place[is_unknown & (place < PLACES)], minlength=PLACES)
    return _rates(words, unknown, in_all)


def drawn_rates(sentences: NDArray[np.int32]) -> UnknownRates:
    """The rates among sentences that a model made up, padded rows of word numbers: a function of a release, free."""
    words, unknown = (sentences >= OOV).sum(axis=0), (sentences == OOV).sum(axis=0)
    return _rates(words[:PLACES], unknown[:PLACES], np.array([words.sum(), unknown.sum()]))


def _rates(words: NDArray[Any], unknown: NDArray[Any], in_all: NDArray[Any]) -> UnknownRates:
    reached = int((words > 0).sum())
    shares = unknown[:reached] / words[:reached]
    return UnknownRates(float(in_all[1] / max(in_all[0], 1)), tuple(shares.tolist()))


def symbol_scores(model: CharLM, rows: NDArray[np.int32]) -> dict[str, float]:
    """How well a model spells the words in these rows: symbols guessed right, and the perplexity of a symbol."""
    total = np.zeros(3)
    for start in range(0, len(rows), CHUNK):
        piece = rows[start : start + CHUNK]
        padded = np.pad(piece, ((0, CHUNK - len(piece)), (0, 0)))
        total += np.asarray(_score(model, padded), np.float64)
    log_likelihood, right, symbols = total
    return {
        "words": len(rows),
        "accuracy": float(right / max(symbols, 1)),
        "perplexity": float(np.exp(min(-log_likelihood / max(symbols, 1), 50.0))),
    }


@jax.jit
def _score(model: CharLM, rows: jax.Array) -> jax.Array:
    mask = prediction_mask(rows)
    best = jnp.argmax(jax.vmap(model)(rows[:, :-1]), axis=-1).astype(jnp.int32) + 1
    right = (best == rows[:, 1:]).astype(jnp.float32) * mask
    return jnp.stack([jnp.sum(log_likelihoods(model, rows)), jnp.sum(right), jnp.sum(mask)])
