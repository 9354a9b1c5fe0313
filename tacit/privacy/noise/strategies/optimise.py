"""The coefficients with the least noise on prefix sums at a given privacy cost.

Minimised is sensitivity² × the mean over rounds of the variance on the prefix sum, for T rounds, a gap and at most k
participations. At equal ρ the noise multiplier is proportional to the sensitivity, so this is a run's squared prefix error.

For Toeplitz strategies both factors are functions of the first column c alone, and so are their derivatives:

    sensitivity² = ‖Σ_(p<k) shift(c, p·gap)‖²                                  (non-negative, non-increasing c)
    error²       = Σ_s (T - s) b_s²,   b = prefix sums of the inverse column y,   ∂b/∂c_j = -shift(b * y, j)

(* is convolution). A value and its gradient cost a few Fourier transforms of length 2T: milliseconds for thousands of rounds.
A quasi-Newton search does the rest, over the decays and weights of a BLT or the coefficients of a band.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.privacy.noise.strategies.base import Floats
from tacit.privacy.noise.strategies.toeplitz import BandedToeplitz, BufferedToeplitz
from tacit.privacy.participation.limits import Gap, most_participations

Progress = Callable[[str], None]
# A buffer more must take this part of the error away to be worth a vector of memory.
_WORTHWHILE = 1e-3
MOST_BUFFERS = 4
# Numbers beyond this make no difference: θ or 1 - θ is already 1e-7, and so is ω beside the others.
_FARTHEST = 16.0


def optimise_buffered(
    rounds: int, gap: Gap, max_participation: int, *, most_buffers: int = MOST_BUFFERS, progress: Progress | None = None
) -> BufferedToeplitz:
    """The best BLT found: of 1 to `most_buffers` buffers, the fewest within a thousandth of the best error."""
    loss = _Loss(rounds, gap, max_participation)
    found: list[tuple[float, BufferedToeplitz]] = []
    for buffers in range(1, most_buffers + 1):
        candidates = [_buffered_from(loss, start) for start in _buffered_starts(rounds, gap, buffers)]
        found.append(min(candidates, key=lambda each: each[0]))
        if progress is not None:
            progress(f"blt, buffers: {buffers}, prefix error: {np.exp(found[-1][0] / 2):.4g}")
    best = min(value for value, _ in found)
    return next(strategy for value, strategy in found if value <= best + 2 * _WORTHWHILE)


def optimise_banded(
    rounds: int, gap: Gap, max_participation: int, *, most_bands: int | None = None, progress: Progress | None = None
) -> BandedToeplitz:
    """The best band found of `widest_band` bands.

    A mechanism keeps one vector less than there are bands. A cap saves that memory and costs accuracy: 64 bands where the
    gap allows 91, 213 or 910 leave 1.07, 1.2 or 1.8 times the error, where a BLT leaves 1.04 or less with 2 or 3
    vectors (`benchmarks/prefix_error.py`).
    """
    from scipy.optimize import minimize

    loss = _Loss(rounds, gap, max_participation)
    bands = widest_band(rounds, gap, max_participation, most_bands)

    def value(free: Floats) -> tuple[float, Floats]:
        strategy = BandedToeplitz((1.0, *free.tolist()), rounds)
        with np.errstate(over="ignore", invalid="ignore"):
            found, gradient = loss(strategy.column(rounds), strategy.inverse_column(rounds))
        if not np.isfinite(found):  # outside the region where C⁻¹ stays small; the line search steps back
            return 1e10, np.zeros_like(free)
        return found, gradient[1:bands]

    if bands == 1:
        return BandedToeplitz((1.0,), rounds)
    # The best strategy for a single participation and endless rounds: the coefficients of (1 - x)^(-1/2).
    start = np.asarray(np.cumprod(1 - 0.5 / np.arange(1, bands)), np.float64)
    result = minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "maxcor": 20, "ftol": 1e-10})
    if progress is not None:
        progress(f"banded, bands: {bands}, prefix error: {np.exp(result.fun / 2):.4g}")
    free = result.x if result.fun <= value(start)[0] else start
    return BandedToeplitz((1.0, *(float(each) for each in free)), rounds)


def widest_band(rounds: int, gap: Gap, max_participation: int, most_bands: int | None = None) -> int:
    """As many bands as the gap has rounds, or the run where nobody comes twice; never more than `most_bands`."""
    several = most_participations(rounds, gap, max_participation) > 1
    widest = min(rounds, gap.index_difference) if several else rounds
    return widest if most_bands is None else min(widest, most_bands)


class _Loss:
    """log(sensitivity² × mean squared prefix error) of a Toeplitz column and its inverse, and the gradient by the column."""

    def __init__(self, rounds: int, gap: Gap, max_participation: int) -> None:
        self.rounds = rounds
        self.distance = gap.index_difference
        self.participations = most_participations(rounds, gap, max_participation)
        self.weights = np.arange(rounds, 0, -1) / rounds
        self.size = 1 << (2 * rounds - 1).bit_length()

    def __call__(self, column: Floats, inverse: Floats) -> tuple[float, Floats]:
        moved = self._shifted_sum(column)
        sensitivity = moved @ moved
        by_sensitivity = 2 * self._shifted_sum(moved[::-1])[::-1]
        left = np.cumsum(inverse)
        error = self.weights @ left**2
        by_left = 2 * self.weights * left
        by_error = -self._convolved(by_left[::-1], self._convolved(left, inverse))[::-1]
        return float(np.log(sensitivity) + np.log(error)), by_sensitivity / sensitivity + by_error / error

    def _shifted_sum(self, column: Floats) -> Floats:
        """Σ over participations p of the column, p gaps later."""
        distance, times = self.distance, self.participations
        rows = -(-self.rounds // distance)
        padded = np.zeros(rows * distance)
        padded[: self.rounds] = column
        running = np.cumsum(padded.reshape(rows, distance), axis=0)
        running[times:] -= running[:-times].copy()
        return running.reshape(-1)[: self.rounds]

    def _convolved(self, a: Floats, b: Floats) -> Floats:
        product = np.fft.rfft(a, self.size) * np.fft.rfft(b, self.size)
        return np.fft.irfft(product, self.size)[: self.rounds]


def _buffered_starts(rounds: int, gap: Gap, buffers: int) -> list[Floats]:
    """Where to begin: decay times from a round to the gap or to the whole run, all weights alike."""
    starts = []
    for longest in sorted({min(rounds, gap.index_difference), rounds}):
        times = np.geomspace(1.5, max(2.0, longest), buffers + 2)[1:-1] if buffers > 1 else np.array([longest**0.5 + 1])
        starts.append(np.concatenate([np.log(times), np.full(buffers, -np.log(buffers))]))
    return starts


def _buffered_from(loss: _Loss, start: Floats) -> tuple[float, BufferedToeplitz]:
    """The loss at the minimum near a start, and the strategy there."""
    from scipy.optimize import minimize

    # Not L-BFGS: for eight numbers its matrices are tiny, but BLAS wakes all cores for them and waits on a busy machine.
    result = minimize(
        lambda free: _buffered_loss(loss, free), start, jac=True, method="BFGS", options={"maxiter": 400, "gtol": 1e-6}
    )
    return float(result.fun), _buffered(result.x, loss.rounds)


def _buffered(free: Floats, rounds: int) -> BufferedToeplitz:
    """The BLT of free numbers: logit θ, then the logarithms of ω up to the factor that keeps their sum below 1."""
    logits, logarithms = np.split(np.clip(free, -_FARTHEST, _FARTHEST), 2)
    raised = np.exp(logarithms)
    theta, omega = 1 / (1 + np.exp(-logits)), raised / (1 + raised.sum())
    return BufferedToeplitz(tuple(theta.tolist()), tuple(omega.tolist()), rounds)


def _buffered_loss(loss: _Loss, free: Floats) -> tuple[float, Floats]:
    """The loss of `_buffered(free)` and its gradient by the free numbers."""
    rounds = loss.rounds
    strategy = _buffered(free, rounds)
    theta, omega = np.asarray(strategy.theta), np.asarray(strategy.omega)
    value, by_column = loss(strategy.column(rounds), strategy.inverse_column(rounds))
    lag = np.arange(rounds - 1)
    decays = theta[:, None] ** lag  # [buffers, rounds - 1]
    by_omega = np.einsum("it,t->i", decays, by_column[1:])
    by_theta = omega * np.einsum("it,t->i", decays[:, :-1], lag[1:] * by_column[2:])
    gradient = np.concatenate([theta * (1 - theta) * by_theta, omega * (by_omega - omega @ by_omega)])
    return value, np.where(np.abs(free) < _FARTHEST, gradient, 0.0)
