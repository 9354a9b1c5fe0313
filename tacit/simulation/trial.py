"""How long a round takes on this machine: a trial on made-up users, so that the answer says nothing about anybody.

Every made-up user has as much text as the recipe's cap allows, so a real round takes at most about as long. Where the cap is
more than `LEAST_STEPS` batches, they have so many, and the time is extrapolated: a cap that nobody reaches must take neither
time nor memory. Two short rounds of different size are timed on the run's own engine. Their difference is what a chunk of users
takes, the rest is what every round takes: noise and the server's step. What is compiled for the trial serves the run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from tacit.data.users import FIRST_WORD, Examples
from tacit.learning.batches import LEAST_STEPS, TextBatches
from tacit.learning.loop import TrainingState, train
from tacit.privacy.noise.randomness import Randomness
from tacit.simulation.batched import BatchedUsers, Chunk
from tacit.simulation.program import SimulatedProgram

# How many chunks each accelerator gets in the two rounds that are timed.
_FEW, _MORE = 1, 3
_SEED = 1


@dataclass(frozen=True)
class _TrialCohort:
    """Made-up users, and a noise key that is used for them alone."""

    round: int
    attempt: int
    noise_key: Any
    chunks: list[Chunk]

    def settle(self, broadcast: Any, norms: Any) -> _TrialCohort:
        return self


class _NoJournal:
    """A trial leaves nothing behind."""

    def before(self, cohort: Any, norms: Any) -> None:
        pass

    def after(self, state: Any, diagnostics: Any) -> None:
        pass


def seconds_a_round(program: SimulatedProgram, vocabulary: int) -> float | None:
    """About how many seconds a round of this program takes if everybody has as much text as the cap allows.

    None where no trial is possible: for batches other than text, for secure sums, and where other processes train the users.
    """
    engine = program.users
    if type(engine) is not BatchedUsers or type(engine.shape) is not TextBatches or engine.secure is not None:
        return None
    # Work that may look at all batches together is padded to the cap in the run too, so it is timed there.
    steps = min(engine.shape.steps, LEAST_STEPS) if engine._trims else engine.shape.steps
    chunk = _made_up_chunk(engine, replace(engine.shape, steps=steps), vocabulary)
    devices = len(engine._devices)
    _time(program, [chunk] * devices * _FEW)  # compiles
    few, more = (_time(program, [chunk] * devices * count) for count in (_FEW, _MORE))
    # With as many chunks as there are accelerators all of them work at once, so time grows with the chunks of each.
    per_chunk = max(more - few, few / _MORE) / (_MORE - _FEW)
    chunks = program.plan.cohort / (engine.chunk * devices)
    return max(few - _FEW * per_chunk, 0.0) + chunks * per_chunk * (engine.shape.steps / steps)


def _time(program: SimulatedProgram, chunks: list[Chunk]) -> float:
    """The seconds that a round with these chunks takes."""
    key = Randomness.fresh().noise_key(round=0, attempt=0)
    began = time.monotonic()
    state: TrainingState = train(
        program.start,
        participation=_once(_TrialCohort(0, 0, key, chunks)),
        users=program.users,
        clipping=program.plan.build_clipping(),
        mechanism=program.mechanism,
        server=program.server,
        journal=_NoJournal(),
    )
    jax.block_until_ready(jax.tree.leaves((state.model, state.finite)))
    return time.monotonic() - began


def _once(cohort: _TrialCohort) -> Iterator[_TrialCohort]:
    yield cohort


def _made_up_chunk(engine: Any, shape: TextBatches, vocabulary: int) -> Chunk:
    """A chunk whose users all have as much text as the shape takes, in words chosen at random."""
    tokens = shape.steps * shape.batch_size * (shape.length + 1)  # enough for every row, however they are laid out
    sentences = -(-tokens // max(shape.length - 1, 1)) if shape.layout == "sentences" else 1
    each = tokens // sentences + 1
    words = np.random.default_rng(_SEED).integers(
        FIRST_WORD, max(vocabulary, FIRST_WORD + 1), engine.chunk * sentences * each
    )
    examples = Examples(
        words.astype(np.int32),
        np.arange(engine.chunk * sentences + 1, dtype=np.int64) * each,
        np.arange(engine.chunk + 1, dtype=np.int64) * sentences,
        None,
    )
    laid_out = shape.lay_out(examples)
    found: Chunk = engine._chunk(laid_out.batches(np.arange(engine.chunk)), laid_out.sizes, laid_out.predictions)
    return found
