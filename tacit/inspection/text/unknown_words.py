"""Unknown words: how frequent they are at each place of a sentence, and how well a character model spells them.

`unknown_rates` and `symbol_scores` read held-out users without noise: their results are printed as outside the guarantee and
never feed training. `drawn_rates` reads sentences that a released model generated, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.data.users import BLOCK, OOV, Users
from tacit.models.char_lm import CharLM, log_likelihoods, prediction_mask

# Places of a sentence that are listed; words at later places count in the overall rate only.
PLACES = 10
# Rows per compiled call; the last call is padded.
CHUNK = 256


@dataclass(frozen=True)
class UnknownRates:
    """The share of words outside the vocabulary: of all words, and of the words at each place of a sentence.

    `by_place` ends with the longest sentence, or after `PLACES` places.
    """

    overall: float
    by_place: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"overall": self.overall, "by_place": list(self.by_place)}

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> UnknownRates:
        """The inverse of `as_dict`."""
        return cls(float(tree["overall"]), tuple(float(each) for each in tree["by_place"]))


def unknown_rates(users: Users, numbers: NDArray[np.int64]) -> UnknownRates:
    """The rates in these users' sentences; give it held-out users (Debugging, Figure 4 and Table 6)."""
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
    """The rates in sentences that a model generated, given as padded rows of word ids."""
    words, unknown = (sentences >= OOV).sum(axis=0), (sentences == OOV).sum(axis=0)
    return _rates(words[:PLACES], unknown[:PLACES], np.array([words.sum(), unknown.sum()]))


def _rates(words: NDArray[Any], unknown: NDArray[Any], in_all: NDArray[Any]) -> UnknownRates:
    reached = int((words > 0).sum())
    shares = unknown[:reached] / words[:reached]
    return UnknownRates(float(in_all[1] / max(in_all[0], 1)), tuple(shares.tolist()))


def symbol_scores(model: CharLM, rows: NDArray[np.int32]) -> dict[str, float]:
    """How well a model spells the words in these rows: the share of symbols it predicts, and the perplexity per symbol."""
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
