"""What every clipping promises: the clip of a round is a positive number that follows from earlier releases alone."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from tacit.learning.loop import TrainingState
from tacit.learning.state import from_arrays, to_arrays
from tacit.privacy.gate.thresholds import AdaptiveClip, Clipping, FixedClip
from tests.support.implementations import implementations

IMPLEMENTATIONS: dict[str, tuple[type, Callable[[], Clipping]]] = {
    "fixed": (FixedClip, lambda: FixedClip(lambda round: 0.5)),
    "scheduled": (FixedClip, lambda: FixedClip(lambda round: 1.0 if round < 3 else 0.5)),
    "adaptive": (AdaptiveClip, lambda: AdaptiveClip(1.0, 0.5, 0.2, reports=10, changes_at=None)),
    "adaptive, at restarts": (AdaptiveClip, lambda: AdaptiveClip(1.0, 0.5, 0.2, reports=10, changes_at=(3,))),
}
ROUNDS = 6
# The noisy sum of bits in each round; far outside of what ten users can send, as noise is.
USUAL, WILD = [3.0, -2.5, 0.0, 5.0, -4.0, 1.0], [1e9, -1e9, 1e30, -1e30, 1e9, 0.0]


def rounds_of(clipping: Clipping, bits: list[float], state: Any = None, start: int = 0) -> tuple[list[Any], Any]:
    """The thresholds of each round, and the state after the last."""
    state, found = clipping.init() if state is None else state, []
    for round in range(start, ROUNDS):
        found.append(clipping.norms(state, round))
        state = clipping.learn(state, {"update": np.zeros(2), "within": np.float32(bits[round])}, round)
    return found, state


@pytest.mark.parametrize("build", [build for _, build in IMPLEMENTATIONS.values()], ids=IMPLEMENTATIONS)
class TestClippings:
    """One suite for all of them."""

    @pytest.mark.parametrize("bits", [USUAL, WILD], ids=["usual", "wild"])
    def test_the_clip_is_a_positive_number(self, build: Callable[[], Clipping], bits: list[float]) -> None:
        """Whatever the noise was: a clip of zero, or an infinite one, would end the run or its bound."""
        for norms in rounds_of(build(), bits)[0]:
            for norm in (norms.clip, norms.threshold or norms.clip):
                assert type(norm) is float
                assert 0 < norm < math.inf

    def test_asking_and_learning_change_nothing_but_what_they_return(self, build: Callable[[], Clipping]) -> None:
        clipping = build()
        state = rounds_of(clipping, USUAL)[1]
        before, release = copy.deepcopy(state), {"within": np.float32(4.0)}
        answers = [(clipping.norms(state, 2), clipping.learn(state, release, 2)) for _ in range(2)]
        assert answers[0] == answers[1]
        assert state == before
        assert release == {"within": np.float32(4.0)}

    def test_the_clip_does_not_look_ahead(self, build: Callable[[], Clipping]) -> None:
        """The clip of a round is public before the round: it depends on earlier releases alone."""
        one, _ = rounds_of(build(), USUAL)
        other, _ = rounds_of(build(), [*USUAL[:4], -5.0, -5.0])
        assert one[:5] == other[:5]

    def test_a_state_keeps_its_structure_and_goes_on_after_a_checkpoint(self, build: Callable[[], Clipping]) -> None:
        clipping = build()
        whole, end = rounds_of(clipping, USUAL)
        state = clipping.init()
        for round in range(3):
            state = clipping.learn(state, {"within": np.float32(USUAL[round])}, round)
        assert jax.tree.structure(state) == jax.tree.structure(clipping.init())
        kept, fresh = (TrainingState(3, (), (), each, ()) for each in (state, clipping.init()))
        again = from_arrays(fresh, 3, *to_arrays(kept)).clipping
        found, last = rounds_of(build(), USUAL, again, 3)
        assert found == whole[3:]
        assert [float(each) for each in jax.tree.leaves(last)] == [float(each) for each in jax.tree.leaves(end)]


def test_no_clipping_is_forgotten() -> None:
    assert {each.__name__ for each, _ in IMPLEMENTATIONS.values()} == implementations(Clipping)
