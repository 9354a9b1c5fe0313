"""The secret sharer's random sampling on a character model: has it memorised a number that was typed in a known form?

A canary such as "my number is 281-26-5017" fills a template, "my number is ###-##-####" (`canaries.plan.digit_phrases`). An
attacker who knows the template ranks the filling among others by its log-perplexity given the text before the first blank:

    form = "my number is ###-##-####"
    canaries = [Canary(units=phrase, template=form, sharing=...) for phrase in digit_phrases(form, count=10, seed=1)]
    ...  # train a `CharLM` on rows with encode_words([canary.text for canary in canaries], 32) among them
    filling_ranks(model, canaries, seed=2)

The rank is that of `secret_sharer.py`: rank 1 means that the model prefers the number to all others it was compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.audit.secret_sharer import COMPARISONS, Rank, random_suffixes
from tacit.data.canaries.plan import BLANK, DIGITS, Canary
from tacit.errors import AuditError
from tacit.models.char_lm import FIRST_BYTE, START, CharLM
from tacit.models.layers.cells import initial_state

# Fillings per compiled call.
_CHUNK = 4096
_BLANK_SYMBOL = ord(BLANK) + FIRST_BYTE


def filling_ranks(model: CharLM, canaries: Sequence[Canary], *, seed: int, size: int = COMPARISONS) -> list[Rank]:
    """The rank of each canary among `size` random fillings of its template, or all there are if these are fewer.

    All canaries of one template are compared with the same fillings; equal log-perplexities count against the canary.
    """
    if size < 1:
        raise AuditError(f"Expected at least 1 random filling to compare with, got {size}.")
    found: dict[int, Rank] = {}
    rng = np.random.default_rng(seed)
    for template, members in _by_template(canaries).items():
        first = template.index(BLANK.encode())
        known, form = _symbols(template[:first]), _symbols(template[first:])
        possible = [
            _symbols(DIGITS.encode()) if symbol == _BLANK_SYMBOL else form[i : i + 1] for i, symbol in enumerate(form)
        ]
        secrets = np.stack([_symbols(canaries[i].text.encode())[first:] for i in members])
        fillings = random_suffixes(possible, size, rng)
        scores = _log_perplexities(model, known, np.concatenate([secrets, fillings]))
        for i, secret, score in zip(members, secrets, scores[: len(secrets)], strict=True):
            others = (fillings != secret).any(axis=1)
            better = others & (scores[len(secrets) :] <= score)
            found[i] = Rank(1 + int(better.sum()), 1 + int(others.sum()), float(score))
    return [found[i] for i in range(len(canaries))]


def _by_template(canaries: Sequence[Canary]) -> dict[bytes, list[int]]:
    members: dict[bytes, list[int]] = {}
    for number, canary in enumerate(canaries):
        if canary.template is None:
            raise AuditError(f"Expected canaries that fill a template, but canary {number + 1} consists of words.")
        members.setdefault(canary.template.encode(), []).append(number)
    return members


def _symbols(content: bytes) -> NDArray[np.int32]:
    return np.frombuffer(content, np.uint8).astype(np.int32) + FIRST_BYTE


def _log_perplexities(model: CharLM, known: NDArray[np.int32], fillings: NDArray[np.int32]) -> NDArray[np.float32]:
    """Σ -log Pr(byte | known, bytes before it) of each filling; the known bytes are read once."""
    chunk = min(_CHUNK, len(fillings))
    filled = np.concatenate([fillings, np.repeat(fillings[-1:], -len(fillings) % chunk, axis=0)])
    rows = filled.reshape(-1, chunk, fillings.shape[1])
    scores = np.asarray(_score(model, np.concatenate([[np.int32(START)], known]), rows))[: len(fillings)]
    if not np.isfinite(scores).all():
        raise AuditError("The model has diverged: its probabilities are not finite numbers.")
    return scores


@jax.jit
def _score(model: CharLM, known: Array, rows: Array) -> Array:
    """rows [chunks, fillings, length] after the known symbols."""
    alone = tuple(initial_state(cell, (1,)) for cell in model.cells)
    states, outlook = jax.lax.scan(lambda now, symbol: model.step(now, symbol[None]), alone, known)
    beginning = states, outlook[-1]

    def one_chunk(fillings: Array) -> Array:
        def read(now: tuple[Any, Array], symbols: Array) -> tuple[tuple[Any, Array], Array]:
            states, outlook = now  # log-probabilities of the next symbol, by its number less one
            losses = -jnp.take_along_axis(outlook, symbols[:, None] - 1, axis=1)[:, 0]
            return model.step(states, symbols), losses

        start = jax.tree.map(lambda a: jnp.broadcast_to(a, (len(fillings), *a.shape[1:])), beginning)
        return jnp.sum(jax.lax.scan(read, start, fillings.T)[1], axis=0)

    return jax.lax.map(one_chunk, rows).reshape(-1)
