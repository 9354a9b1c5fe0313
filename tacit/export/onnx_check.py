"""Check an exported ONNX step (`tacit.export.onnx_step`) against its model on synthetic contexts.

No user's text is read: sentences are drawn at random, frequent words (small ids) more often. Both models read them word by
word, each with its own state, and after every word their logits and their likeliest words are compared; so a mistake in the
state shows too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.users import BOS, FIRST_WORD, OOV
from tacit.errors import RunError
from tacit.export.onnx_step import INPUTS, OUTPUTS
from tacit.learning.stepwise import Neural
from tacit.models.word_lm import WordLM

# A row is two sentences of this many tokens, so that the check also covers resetting the state.
SENTENCE = 10
# Sums in another order differ in the last bits. Probabilities may differ by this share, and words whose probabilities differ by
# less count as equally likely. A logit x may differ by this times max(1, |x|).
TOLERANCE = 1e-4
# Contexts that are compared at a time, so that memory does not grow with how many are asked for.
AT_ONCE = 2 * SENTENCE * 512


@dataclass(frozen=True)
class Agreement:
    """In how many `contexts` all shown words were the `same`, and by how much the numbers differed at most.

    `largest_difference` is relative to the probability of a shown word; `largest_logit_difference` is absolute, over the
    logits of all entries.
    """

    contexts: int
    same: int
    largest_difference: float
    largest_logit_difference: float


def session_of(onnx_file: bytes | str, threads: int = 1) -> Any:
    """Load the file into ONNX Runtime on the CPU. Needs the package onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(onnx_file, options, providers=["CPUExecutionProvider"])


def require_agreement(onnx_file: bytes, model: WordLM, words: list[str], *, contexts: int, seed: int) -> Agreement:
    """How well the file and the model agree on this many contexts; RunError if they do not.

    They agree if the file has the model's logits and shows its likeliest words with its probabilities. Words whose
    probabilities are equal up to rounding may change places.
    """
    session, ours, generator = session_of(onnx_file), Neural(model), np.random.default_rng(seed)
    parts = [
        _compared(session, ours, words, min(AT_ONCE, contexts - seen), generator)
        for seen in range(0, contexts, AT_ONCE)
    ]
    return Agreement(
        contexts,
        sum(part.same for part in parts),
        max(part.largest_difference for part in parts),
        max(part.largest_logit_difference for part in parts),
    )


def _compared(session: Any, ours: Neural, words: list[str], contexts: int, generator: np.random.Generator) -> Agreement:
    rows = -(-contexts // (2 * SENTENCE))
    tokens = synthetic_contexts(rows, len(words), generator)
    state = {each.name: np.zeros((rows, each.shape[1]), np.float32) for each in session.get_inputs()[1:]}
    our_state = ours.begin(rows)
    seen, same, largest, largest_logit = 0, 0, 0.0, 0.0
    for column in tokens.T:
        counted = min(rows, contexts - seen)
        if counted == 0:
            break
        shown, ids, probabilities, logits, *after = session.run(list(OUTPUTS), {INPUTS[0]: column, **state})
        state = dict(zip(INPUTS[1:], after, strict=True))
        our_state = ours.read(our_state, column)
        ours_now = np.exp(ours.log_probabilities(our_state))
        best = likeliest(ours_now, ids.shape[1])
        difference = np.maximum(
            relative(probabilities, _at(ours_now, ids)), relative(_at(ours_now, ids), _at(ours_now, best))
        )[:counted]
        our_logits = ours.logits(our_state)[:counted]
        logit_difference = np.abs(logits[:counted].astype(np.float64) - our_logits)
        misspelt = (np.array(words, object)[ids] != shown)[:counted]
        # Written so that nan counts as a disagreement.
        scores_differ = ~(logit_difference <= TOLERANCE * np.maximum(1, np.abs(our_logits))).all(axis=1)
        disagree = scores_differ | (~(difference <= TOLERANCE) | misspelt).any(axis=1)
        if disagree.any():
            wrong = int(disagree.sum())
            raise RunError(
                f"ONNX Runtime and the model disagree on {wrong} of {counted} contexts by more than rounding: nothing was "
                "written."
            )
        seen, same = seen + counted, same + int((ids == best)[:counted].all(axis=1).sum())
        largest = max(largest, float(difference.max()))
        largest_logit = max(largest_logit, float(logit_difference.max()))
    return Agreement(seen, same, largest, largest_logit)


def synthetic_contexts(rows: int, vocabulary: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Token ids [rows, 2 sentences]: each sentence begins with a bos; an id is drawn about as often as 1 / id."""
    drawn = np.exp(generator.uniform(np.log(OOV), np.log(vocabulary), (rows, 2 * SENTENCE)))
    tokens = np.minimum(drawn.astype(np.int64), vocabulary - 1)
    tokens[:, ::SENTENCE] = BOS
    return tokens


def likeliest(probabilities: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """The ids of the likeliest words [rows, count], none of them reserved; among equals the smaller id first."""
    order = np.argsort(-probabilities[:, FIRST_WORD:], axis=1, kind="stable")
    return order[:, :count] + FIRST_WORD


def relative(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
    """The difference relative to `other`."""
    return np.abs(one.astype(np.float64) - other) / np.maximum(other.astype(np.float64), 1e-9)


def _at(probabilities: NDArray[np.float32], ids: NDArray[np.int64]) -> NDArray[np.float32]:
    return np.take_along_axis(probabilities, ids, axis=1)
