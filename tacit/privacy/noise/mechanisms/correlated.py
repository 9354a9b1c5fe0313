"""Correlated noise (DP-FTRL): each round emits its sum plus the difference of noise between prefixes (Gboard, appendix B).

Block j's releases over all rounds are x + y, y = C⁻¹ Z, Z independent with standard deviation z_j · bound_j, C the strategy's
matrix. (A tree's C has a row for each node; y is then the noise of the Honaker estimates' differences.)

**Why this is private.** x + C⁻¹ Z and C x + Z determine each other, because C is lower triangular with ones on its
diagonal. C x + Z is one Gaussian mechanism on all rounds. Later sums depend on earlier releases, but row t of C x + Z
needs no later sum, and with Gaussian noise nobody gains by adapting (Denisov et al. 2022). A tree's releases are a
linear function of its noisy nodes, so they cost no more than those.

**Floating point.** Write the noise y_t, given y_0 .. y_(t-1), as L_t(y_0, …, y_(t-1)) + a_t σ G_t, L_t linear and G_t
a new N(0, 1). In a round we compute, in steps of the grid, k_t ≈ L_t from the state, then the integer n_t = ⌊x̂_t +
k_t + (a_t σ/step) G_t⌉, *exactly* for the numbers x̂_t and k_t that we have (`noise.rounded_gaussian`), x̂_t being
x_t rounded to 2⁻²⁶ steps. We release n_t, and y_t = n_t - x̂_t, rounding included, goes into the state. So the state
is a function of the earlier n and x, and given the earlier releases, n_t is the ideal Gaussian mechanism with the
mean x̂_t + k_t(n_0 - x̂_0, …, n_(t-1) - x̂_(t-1)), rounded. Were k_t = L_t and x̂_t = x_t, two neighbouring data
sets' means would differ as the rows of C x do, since L_t is linear and the earlier n are the same. They differ from
that by at most 2 ‖err_t‖, err_t = (x̂_t - x_t) + (k_t - L_t). A sequence of Gaussian mechanisms, each chosen by what
the others released, whose squared distances sum to at most Δ² on every path, costs no more than one with distance Δ
(Smith and Thakurta 2022). So err costs *sensitivity*, not probability: `rounding.py` bounds it by a share of what
every contribution is shrunk by, and `init` refuses sizes for which it would not be enough.

**What would break the proof is refused.** The same draw on two sums: the state is passed on from round to round, and every
draw has its own place in the key stream. A bound or multiplier that changes while earlier noise is still to be subtracted: both
may change only at a restart. More rounds than were accounted for.
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
from tacit.privacy.accounting.sampled_gaussian import combined_noise_multiplier
from tacit.privacy.gate.rounding import NOISE_SHARE, correlated_noise_error
from tacit.privacy.gate.sums import BoundedSum
from tacit.privacy.noise.gaussian import grid_step, rounded_gaussian
from tacit.privacy.noise.mechanisms.base import Release
from tacit.privacy.noise.mechanisms.recurrences import Recurrence
from tacit.privacy.noise.randomness import NoiseKey
from tacit.privacy.noise.strategies import Strategy

# Sums are rounded to this share of a step. A sum of noise below 2²⁷ steps, which is 64 σ or more, is then exact in float64.
FINE = 2.0**-26


@dataclass(frozen=True)
class Correlated:
    """The matrix mechanism of a strategy over `rounds` rounds; before each round in `restarts` all noise is forgotten.

    State, all of it arrays: `round`, the number of releases made; `scales`, for each block the bound and the
    multiplier of the current stretch; `noise`, the recurrences' states in float64.
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
    def recurrence(self) -> Recurrence:
        return self.strategy.recurrence(max(self.strategy.stretches(self.rounds, self.restarts)))

    def init(self, template: Mapping[str, Any]) -> dict[str, Any]:
        self._refuse_too_large(template)
        with jax.enable_x64(True):
            return {
                "round": np.zeros((), np.int32),
                "scales": {name: np.zeros(2) for name in sorted(template)},
                "noise": {name: self.recurrence.init(template[name]) for name in sorted(template)},
            }

    def release(self, bounded: BoundedSum, state: Any, *, key: NoiseKey) -> tuple[Release, dict[str, Any]]:
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
                total, deviation, before = (
                    bounded.blocks[name].total,
                    float(np.prod(scales[name])),
                    state["noise"][name],
                )
                if deviation == 0:  # without noise there is no grid: the plain sum is released
                    release[name], noise[name] = _released(total, 1.0), before
                    continue
                step = grid_step(deviation)
                known, spread = self.recurrence.ahead(before, round - began)
                fine, centre = _centre(total, known, step)
                steps = rounded_gaussian(centre, spread * (deviation / step), key.stream(index))
                release[name] = _released(steps, step)
                noise[name] = self.recurrence.after(before, _difference(steps, fine), round - began)
        return release, {"round": np.asarray(round + 1, np.int32), "scales": scales, "noise": noise}

    def _refuse_too_large(self, template: Mapping[str, Any]) -> None:
        """PrivacyError if float64 errors in the recurrence could move releases by more than `NOISE_SHARE` of the bound."""
        multipliers = [self.noise_multipliers[name] for name in template]
        if not all(each > 0 for each in multipliers):
            return  # no noise: nothing is claimed
        coordinates = sum(int(np.prod(np.shape(leaf))) for leaf in jax.tree.leaves(dict(template)))
        error = correlated_noise_error(
            self.strategy.recurrence_error(max(self.strategy.stretches(self.rounds, self.restarts))),
            rounds=self.rounds,
            coordinates=coordinates,
            blocks=len(template),
            noise_multiplier=combined_noise_multiplier(multipliers),
        )
        if not error <= NOISE_SHARE:
            raise PrivacyError(
                f"Expected float64 errors in {self.name} noise to move {self.rounds} rounds of {coordinates} coordinates by at"
                f" most {NOISE_SHARE:.3g} of the bound, got up to {error:.3g}.",
                hint="Use fewer rounds, a smaller noise multiplier or a narrower band, or restart the noise more often.",
            )

    def _scales(self, bounded: BoundedSum, state: Any, round: int, began: int) -> dict[str, np.ndarray]:
        """Bound and multiplier of each block; PrivacyError if they changed since the last restart."""
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


@jax.jit
def _centre(total: Any, known: Any, step: float) -> tuple[Any, Any]:
    """The sum in steps, so fine that differences to whole numbers are exact; and where this round's noise is centred."""
    fine = jax.tree.map(lambda leaf: jnp.round(leaf / (step * FINE)) * FINE, total)
    return fine, jax.tree.map(jnp.add, fine, known)


@jax.jit
def _difference(steps: Any, fine: Any) -> Any:
    return jax.tree.map(jnp.subtract, steps, fine)


@jax.jit
def _released(steps: Any, step: float) -> Any:
    return jax.tree.map(lambda leaf: (leaf * step).astype(jnp.float32), steps)
