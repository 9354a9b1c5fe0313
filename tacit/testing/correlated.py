"""What every mechanism with memory promises besides: noise that is correlated exactly as its strategy says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tacit.errors import PrivacyError
from tacit.privacy.gate.sums import Block, BoundedSum
from tacit.privacy.noise.mechanisms import Correlated, NoNoise, correlated
from tacit.privacy.noise.randomness import NoiseStream
from tacit.privacy.noise.strategies import Strategy
from tacit.testing.mechanism import SMALL, MechanismContract, bounded, key


class CorrelatedContract(MechanismContract):
    """What mechanisms with memory promise besides. Inherit, and say which strategy serves 40 rounds."""

    strategy: Strategy
    plan_changes: Mapping[str, Any] = {"sampling": "check_in"}
    rounds = 40
    restarts = (6, 21)
    # Rounds after which a run is stopped in the tests: at a restart, and beside powers of two.
    stops = (1, 6, 15, 29)

    @property
    def mechanism(self) -> str:  # type: ignore[override]
        return self.strategy.name

    def build(self, noise_multipliers: Mapping[str, float]) -> Correlated:
        return Correlated(noise_multipliers, self.strategy, self.rounds, self.restarts)

    def run(
        self, sums: list[BoundedSum], mechanism: Correlated, state: Any = None, first: int = 0
    ) -> tuple[list[Mapping[str, Any]], Any]:
        """All releases, and the state after them."""
        if state is None:
            state = mechanism.init({name: block.total for name, block in sums[0].blocks.items()})
        releases = []
        for round, total in enumerate(sums, first):
            release, state = mechanism.release(total, state, key=key(round))
            releases.append(release)
        return releases, state

    @pytest.fixture
    def listening(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[NoiseStream, list[np.ndarray]]]]:
        """Every draw made, with its place in the key stream; uncompiled, and by a generator that is quick when uncompiled."""
        heard: list[tuple[NoiseStream, list[np.ndarray]]] = []

        def drawn(centre: Any, scale: float, stream: NoiseStream) -> Any:
            leaves, tree = jax.tree.flatten(centre)
            generator = np.random.default_rng([*stream.key, *stream.nonce])
            heard.append((stream, [generator.standard_normal(leaf.shape) for leaf in leaves]))
            rounded = [jnp.round(leaf + scale * g) for leaf, g in zip(leaves, heard[-1][1], strict=True)]
            return jax.tree.unflatten(tree, rounded)

        monkeypatch.setattr(correlated, "rounded_gaussian", drawn)
        with jax.disable_jit():
            yield heard

    def test_noise_is_the_explicit_matrix_product(self, listening: list[tuple[NoiseStream, list[np.ndarray]]]) -> None:
        """With one draw a round, the only lower triangular matrix of the right covariance."""
        with jax.enable_x64(True):
            sums = [BoundedSum({"x": Block(jnp.full(SMALL, float(each)), 0.25)}) for each in range(self.rounds)]
        releases, _ = self.run(sums, self.build({"x": 2.0}))
        draws = np.array([each[0] for _, each in listening])  # [rounds, SMALL]
        matrix = self.strategy.noise_matrix(self.rounds, self.restarts)
        noise = np.linalg.cholesky(matrix @ matrix.T) @ draws
        released = np.array([np.asarray(release["x"], np.float64) for release in releases])
        # The grid is 0.5 · 2⁻²⁰, and float32 keeps 2⁻¹⁹ or better of numbers below 64.
        np.testing.assert_allclose(released, np.arange(self.rounds)[:, None] + 0.5 * noise, atol=4e-6)

    def test_no_two_draws_share_a_place_in_the_key_stream(
        self, listening: list[tuple[NoiseStream, list[np.ndarray]]]
    ) -> None:
        self.run([bounded(size=SMALL)] * 9, self.build({"update": 1.0, "weight": 1.0}))
        places = [(stream.key.tobytes(), stream.nonce.tobytes()) for stream, _ in listening]
        assert len(places) == 18  # two blocks, nine rounds
        assert len(set(places)) == len(places)

    def test_noise_over_many_rounds_has_this_law_and_five_percent_more_is_another(self) -> None:
        releases, _ = self.run(
            [bounded(0.0, 1500, bound=0.5)] * self.rounds, self.build({"update": 3.0, "weight": 1.0})
        )
        noise = np.array([np.asarray(release["update"]["a"], np.float64) for release in releases])
        matrix = self.strategy.noise_matrix(self.rounds, self.restarts)
        white = (
            np.linalg.solve(np.linalg.cholesky(matrix @ matrix.T), noise) / 1.5
        )  # independent N(0, 1), if all is well
        assert stats.kstest(white.ravel(), "norm").pvalue > 1e-3
        assert stats.kstest(1.05 * white.ravel(), "norm").pvalue < 1e-4
        assert abs(white.var() - 1) < 0.03
        correlation = white @ white.T / white.shape[1] - np.eye(self.rounds)
        assert np.abs(correlation).max() < 6 / np.sqrt(white.shape[1])

    def test_arrays_and_blocks_have_noise_of_their_own(self) -> None:
        with jax.enable_x64(True):
            zeros = jnp.zeros(2000, jnp.float64)
            total = BoundedSum({"one": Block({"a": zeros, "b": zeros}, 1.0), "two": Block(zeros, 1.0)})
        releases, _ = self.run([total] * 4, self.build({"one": 1.0, "two": 1.0}))
        rows = [each for release in releases for each in (release["one"]["a"], release["one"]["b"], release["two"])]
        correlation = np.corrcoef(np.array([np.asarray(each, np.float64) for each in rows]))
        for array in range(3):
            for other in range(array):
                assert np.abs(correlation[array::3, other::3]).max() < 0.12

    def test_without_noise_it_is_the_plain_sum_exactly(self) -> None:
        multipliers = {"update": 0.0, "weight": 0.0}
        sums = [bounded(1 / (round + 3), SMALL) for round in range(self.rounds)]
        releases, _ = self.run(sums, self.build(multipliers))
        for total, release in zip(sums, releases, strict=True):
            plain = NoNoise(multipliers).release(total, (), key=key(0))[0]
            jax.tree.map(np.testing.assert_array_equal, dict(release), dict(plain))

    def test_a_run_stopped_and_resumed_continues_the_same_noise(self) -> None:
        mechanism = self.build({"update": 1.0, "weight": 2.0})
        sums = [bounded(float(round), SMALL) for round in range(self.rounds)]
        whole, end = self.run(sums, mechanism)
        for stop in self.stops:
            _, state = self.run(sums[:stop], mechanism)
            arrays, tree = jax.tree.flatten(state)
            kept = jax.tree.unflatten(tree, [np.array(each) for each in arrays])
            resumed, again = self.run(sums[stop:], self.build({"update": 1.0, "weight": 2.0}), kept, stop)
            jax.tree.map(
                np.testing.assert_array_equal, [dict(each) for each in whole[stop:]], [dict(each) for each in resumed]
            )
            jax.tree.map(np.testing.assert_array_equal, end, again)

    def test_the_state_keeps_its_shape(self) -> None:
        mechanism = self.build({"update": 1.0, "weight": 1.0})
        total = bounded(size=SMALL)
        start = mechanism.init({name: block.total for name, block in total.blocks.items()})
        _, end = self.run([total] * self.rounds, mechanism)
        structures: list[Any] = [jax.tree.structure(each) for each in (start, end)]
        assert structures[0] == structures[1]
        assert [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(start)] == [
            (leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(end)
        ]

    def test_a_release_leaves_the_state_it_was_given_as_it_was(self) -> None:
        mechanism = self.build({"update": 1.0, "weight": 1.0})
        _, state = self.run([bounded(size=SMALL)] * 3, mechanism)
        before = [np.array(each) for each in jax.tree.leaves(state)]
        for _ in range(2):
            mechanism.release(bounded(size=SMALL), state, key=key(3))
            for kept, now in zip(before, jax.tree.leaves(state), strict=True):
                np.testing.assert_array_equal(kept, now)

    def test_a_restart_forgets_all_noise(self) -> None:
        """Whatever came before, and whatever it left, the rounds after a restart are the same."""
        mechanism = self.build({"update": 1.0, "weight": 1.0})
        first = self.restarts[0]
        sums = [bounded(0.0, SMALL)] * 3
        fresh = mechanism.init({name: block.total for name, block in sums[0].blocks.items()})
        _, used = self.run([bounded(0.0, SMALL)] * first, mechanism)
        empty = {**fresh, "round": np.asarray(first, np.int32)}
        after = [self.run(sums, mechanism, state, first) for state in (used, empty)]
        jax.tree.map(np.testing.assert_array_equal, *[[dict(each) for each in releases] for releases, _ in after])
        jax.tree.map(np.testing.assert_array_equal, *[state for _, state in after])
        # Without the restart they are not.
        endless = Correlated({"update": 1.0, "weight": 1.0}, self.strategy, self.rounds)
        continued, _ = self.run([bounded(0.0, SMALL)] * (first + 2), endless)
        assert any(
            (np.asarray(one["update"]["a"]) != np.asarray(other["update"]["a"])).all()
            for one, other in zip(continued[first:], after[0][0], strict=False)
        )

    def test_a_bound_or_a_multiplier_changes_only_at_a_restart(self) -> None:
        mechanism = self.build({"update": 1.0, "weight": 1.0})
        _, state = self.run([bounded(size=SMALL, bound=0.5)] * 3, mechanism)
        with pytest.raises(
            PrivacyError, match=r"block update to stay 0\.5 and 1 until a restart, got 0\.6 and 1 at round 3"
        ):
            mechanism.release(bounded(size=SMALL, bound=0.6), state, key=key(3))
        with pytest.raises(PrivacyError, match="block weight"):
            self.build({"update": 1.0, "weight": 2.0}).release(bounded(size=SMALL, bound=0.5), state, key=key(3))
        _, state = self.run([bounded(size=SMALL, bound=0.5)] * self.restarts[0], mechanism)
        self.run([bounded(size=SMALL, bound=0.6)] * 2, mechanism, state, self.restarts[0])

    def test_a_release_beyond_the_rounds_accounted_for_is_refused(self) -> None:
        mechanism = self.build({"update": 1.0, "weight": 1.0})
        _, state = self.run([bounded(size=SMALL)] * self.rounds, mechanism)
        with pytest.raises(PrivacyError, match="at most 40 releases"):
            mechanism.release(bounded(size=SMALL), state, key=key(99))

    def test_other_blocks_than_at_the_start_are_refused(self) -> None:
        mechanism = self.build({"update": 1.0, "weight": 1.0})
        _, state = self.run([bounded(size=SMALL)] * 2, mechanism)
        fewer = BoundedSum({"update": bounded(size=SMALL).blocks["update"]})
        with pytest.raises(PrivacyError, match="blocks"):
            mechanism.release(fewer, state, key=key(2))

    def test_a_state_that_lost_bits_is_refused(self) -> None:
        mechanism = self.build({"update": 1.0, "weight": 1.0})
        _, state = self.run([bounded(size=SMALL)] * 2, mechanism)
        rounded = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), state["noise"])
        with pytest.raises(PrivacyError, match="float64"):
            mechanism.release(bounded(size=SMALL), {**state, "noise": rounded}, key=key(2))

    def test_a_restart_beyond_the_rounds_is_refused(self) -> None:
        with pytest.raises(PrivacyError, match="within rounds 1 to 39"):
            Correlated({"update": 1.0}, self.strategy, 40, (40,))
