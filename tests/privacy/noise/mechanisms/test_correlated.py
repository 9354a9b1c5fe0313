"""Mechanisms with memory keep the contract; and what each of them is in particular."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tacit.errors import PrivacyError
from tacit.privacy.noise.mechanisms import Correlated
from tacit.privacy.noise.strategies import BandedToeplitz, BufferedToeplitz, Tree
from tacit.testing.mechanism import SMALL, bounded, key
from tacit.testing.strategy import StrategyContract


class TestTree(StrategyContract):
    strategy = Tree()

    def test_the_state_holds_a_logarithm_of_the_longest_stretch(self):
        total = bounded(size=SMALL)
        template = {name: block.total for name, block in total.blocks.items()}
        state = Correlated({"update": 1.0, "weight": 1.0}, Tree(), 1100, (70,)).init(template)
        assert len(state["noise"]["update"]) == 11  # 1030 rounds: nodes of 1 to 1024 rounds

    def test_only_nodes_that_stand_are_remembered(self):
        mechanism = Correlated({"update": 1.0, "weight": 1.0}, Tree(), 40)
        _, state = self.run([bounded(size=SMALL)] * 12, mechanism)  # 12 = 8 + 4
        standing = [bool(np.asarray(level["a"]).any()) for level in state["noise"]["update"]]
        assert standing == [False, False, True, True, False, False]


class TestBuffered(StrategyContract):
    strategy = BufferedToeplitz((0.3, 0.9), (0.3, 0.2), 40)


class TestBanded(StrategyContract):
    strategy = BandedToeplitz((1.0, 0.5, 0.3, 0.2, 0.1), 40)


def test_a_ring_is_as_long_as_the_longest_stretch_less_one():
    wide = BandedToeplitz(tuple(1 / (1 + lag) ** 0.5 for lag in range(40)), 40)
    template = {name: block.total for name, block in bounded(size=SMALL).blocks.items()}
    state = Correlated({"update": 1.0, "weight": 1.0}, wide, 40, (6, 21)).init(template)
    assert state["noise"]["update"]["a"].shape == (18, SMALL)


@pytest.mark.parametrize("bands", [2, 5, 39, 40])
def test_multiplying_by_the_strategy_gives_independent_noise_back(bands: int):
    """The same keys make the same draws, whatever is done with them; rings go round often, once, and never."""
    band = BandedToeplitz(tuple(1 / (1 + lag) ** 0.5 for lag in range(bands)), 40)
    total = bounded(0.0, SMALL, bound=1.0)
    noise = []
    for strategy in (band, BandedToeplitz((1.0,), 40)):
        mechanism = Correlated({"update": 1.0, "weight": 1.0}, strategy, 40)
        state = mechanism.init({name: block.total for name, block in total.blocks.items()})
        rows = []
        for round in range(40):
            release, state = mechanism.release(total, state, key=key(round))
            rows.append(np.asarray(release["update"]["a"], np.float64))
        noise.append(np.array(rows))
    C = np.linalg.inv(band.noise_matrix(40))
    np.testing.assert_allclose(C @ noise[0], noise[1], atol=1e-5)


def test_one_band_is_independent_noise():
    mechanism = Correlated({"update": 1.0, "weight": 1.0}, BandedToeplitz((1.0,), 5), 5)
    total = bounded(0.0, 50_000, bound=1.0)
    state = mechanism.init({name: block.total for name, block in total.blocks.items()})
    noise = []
    for round in range(5):
        release, state = mechanism.release(total, state, key=key(round))
        noise.append(np.asarray(release["update"]["a"], np.float64))
    assert np.abs(np.corrcoef(noise) - np.eye(5)).max() < 0.03
    assert np.abs(np.std(noise, axis=1) - 1).max() < 0.03


def test_a_strategy_for_fewer_rounds_is_refused_before_the_first():
    with pytest.raises(PrivacyError, match="at most 40 rounds without a restart"):
        Correlated({"update": 1.0}, TestBuffered.strategy, 41)
    assert Correlated({"update": 1.0}, TestBuffered.strategy, 41, (20,)).name == "blt"


def test_correlated_noise_leaves_less_on_the_sum_of_all_rounds_than_independent_noise():
    """Which is what it is for: 40 independent draws would leave √40 = 6.3."""
    for strategy in (Tree(), TestBuffered.strategy, TestBanded.strategy):
        mechanism = Correlated({"update": 1.0, "weight": 1.0}, strategy, 40)
        total = bounded(0.0, 1500, bound=1.0)
        state = mechanism.init({name: block.total for name, block in total.blocks.items()})
        prefix = np.zeros(1500)
        for round in range(40):
            release, state = mechanism.release(total, state, key=key(round))
            prefix += np.asarray(release["update"]["a"], np.float64)
        left = np.cumsum(strategy.noise_matrix(40), axis=0)[-1]
        assert prefix.std() == pytest.approx(np.sqrt(left @ left), rel=0.07)
        assert prefix.std() < 4
        assert jax.tree.leaves(state)
