"""Correlated noise (DP-FTRL): each round emits its sum plus the difference of noise between prefixes (Gboard, appendix B).

Block j's releases over all rounds are x + C⁻¹ Z, Z independent with standard deviation z_j · bound_j, C the strategy's
matrix.

**Why this is private.** x + C⁻¹ Z and C x + Z determine each other, because C is lower triangular with ones on its
diagonal. C x + Z is one Gaussian mechanism on all rounds. Later sums depend on earlier releases, but row t of C x + Z needs
no later sum, and with Gaussian noise nobody gains by adapting (Denisov et al. 2022). A tree's C has a row for each node;
the Honaker estimate is a function of the noisy nodes, and so is its difference. Rounding to a grid and to float32 is a
function of the release, and what the noise lacks in its last bits does not depend on data.

**What would break it is refused.** The same draw on two sums: the state goes on from round to round, and every draw has a
key of its own. A bound or multiplier that changes while noise is still to be taken back: only at a restart. More
rounds than were accounted for.

The strategy's `most_draws` says how many N(0, 1) draws a coordinate takes. A tree takes up to log₂ T + 1 of them in one
round: `tail.tail_probability` is to be charged with draws, not with rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.errors import PrivacyError
from tacit.privacy.mechanisms.base import Release
from tacit.privacy.mechanisms.streams import Stream
from tacit.privacy.mechanisms.toeplitz import BandedStream, BufferedStream
from tacit.privacy.mechanisms.tree import TreeStream
from tacit.privacy.noise import grid_step
from tacit.privacy.strategies import BandedToeplitz, BufferedToeplitz, Strategy, Tree
from tacit.privacy.sums import BoundedSum


@dataclass(frozen=True)
class Correlated:
    """The matrix mechanism of a strategy over `rounds` rounds; before each round in `restarts` all noise is forgotten.

    State, all of it arrays: `round`, the number of releases made; `scales`, for each block the bound and the
    multiplier of the current stretch; `noise`, the streams' states in float64.
    """

    noise_multipliers: Mapping[str, float]
    strategy: Strategy
    rounds: int
    restarts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.strategy.stretches(self.rounds, self.restarts)

    @property
    def name(self) -> str:
        return self.strategy.name

    @cached_property
    def stream(self) -> Stream:
        return _stream(self.strategy, max(self.strategy.stretches(self.rounds, self.restarts)))

    def init(self, template: Mapping[str, Any]) -> dict[str, Any]:
        with jax.enable_x64(True):
            return {
                "round": np.zeros((), np.int32),
                "scales": {name: np.zeros(2) for name in sorted(template)},
                "noise": {name: self.stream.init(template[name]) for name in sorted(template)},
            }

    def release(self, bounded: BoundedSum, state: Any, *, key: jax.Array) -> tuple[Release, dict[str, Any]]:
        round = int(state["round"])
        if round >= self.rounds:
            raise PrivacyError(
                f"Expected at most {self.rounds} releases, which is what was accounted for, got one more."
            )
        began = max((each for each in self.restarts if each <= round), default=0)
        scales = self._scales(bounded, state, round, began)
        if round == began:
            state = self.init({name: block.total for name, block in bounded.blocks.items()})
        release, noise = {}, {}
        with jax.enable_x64(True):
            # Sorted, so that a block's share of the key does not depend on the order it was named in.
            for index, name in enumerate(sorted(bounded.blocks)):
                total, deviation = bounded.blocks[name].total, float(np.prod(scales[name]))
                difference, noise[name] = self.stream.next(
                    state["noise"][name], jax.random.fold_in(key, index), round - began
                )
                # Without noise there is no grid: the plain sum, as it is.
                release[name] = (
                    _released(total, difference, deviation, grid_step(deviation)) if deviation > 0 else _plain(total)
                )
        return release, {"round": np.asarray(round + 1, np.int32), "scales": scales, "noise": noise}

    def _scales(self, bounded: BoundedSum, state: Any, round: int, began: int) -> dict[str, np.ndarray]:
        """Bound and multiplier of each block, which are those of the stretch so far."""
        if set(bounded.blocks) != set(state["scales"]):
            raise PrivacyError(f"Expected the blocks {sorted(state['scales'])}, got {sorted(bounded.blocks)}.")
        if any(leaf.dtype != np.float64 for leaf in jax.tree.leaves((state["noise"], state["scales"]))):
            raise PrivacyError(
                "Expected the state of correlated noise in float64, got fewer bits than it was saved with."
            )
        scales = {
            name: np.array([block.bound, self.noise_multipliers[name]], np.float64)
            for name, block in sorted(bounded.blocks.items())
        }
        for name, now in scales.items():
            before = np.asarray(state["scales"][name])
            if round != began and not np.array_equal(before, now):
                raise PrivacyError(
                    f"Expected bound and noise multiplier of block {name} to stay {before[0]:g} and {before[1]:g} until a"
                    f" restart, got {now[0]:g} and {now[1]:g} at round {round}."
                )
        return scales


def _stream(strategy: Strategy, longest: int) -> Stream:
    match strategy:
        case Tree():
            return TreeStream(longest)
        case BufferedToeplitz():
            return BufferedStream(strategy)
        case BandedToeplitz():
            return BandedStream(strategy, longest)
        case _:
            raise TypeError(f"no stream of noise for {type(strategy).__name__}")


@jax.jit
def _released(total: Any, noise: Any, standard_deviation: float, step: float) -> Any:
    return jax.tree.map(
        lambda leaf, each: (jnp.round((leaf + standard_deviation * each) / step) * step).astype(jnp.float32),
        total,
        noise,
    )


@jax.jit
def _plain(total: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), total)
