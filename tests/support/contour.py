"""δ of sampled Gaussian rounds by a contour integral, to a relative error that is known: neither grid of losses nor FFT.

With M(s) = E[e^{s L}] of one round's loss L under the first of two laws, n rounds have, for every c > 0,

    δ(ε) = E[(1 − e^{ε − L})₊] = 1/(2π) ∫ M(s)^n e^{−s ε} / (s (s + 1)) dt,   s = c + i t.

M is a quadrature over the outcome x. The sum over t = ±Δ/2, ±3Δ/2, ... takes the place of the integral: its error falls
exponentially with 1/Δ, and Δ is halved until two sums agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

Array = NDArray[np.float64]
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_MOST_POINTS = 1 << 11


@dataclass(frozen=True)
class Sampled:
    """`rounds` Gaussian rounds that draw each user with probability q, and beside them a Gaussian of this ρ.

    `order` as in the checker: 0 with the user against without, 1 the other way round, 2 one of a fixed number replaced.
    """

    order: int
    q: float
    z: float
    rounds: int
    rho: float = 0.0

    def law(self, c: float) -> tuple[Array, Array]:
        """Losses of one round at the nodes of a quadrature, and the logarithms of their masses."""
        mu = (2 if self.order == 2 else 1) / self.z
        first = mu / 2 if self.order == 2 else -14.0
        last = (1 + (self.order != 1) * c) * mu + 14
        edges = np.linspace(first, last, int((last - first) * 2 * max(1.0, mu)) + 2)
        half = np.diff(edges)[:, None] / 2
        x = ((edges[:-1] + edges[1:])[:, None] / 2 + half * _NODES).ravel()
        absent = -x * x / 2 + np.log((half * _WEIGHTS).ravel() / math.sqrt(2 * math.pi))
        loss = np.logaddexp(np.log1p(-self.q), math.log(self.q) + mu * (x - mu / 2))
        if self.order == 0:
            return loss, absent + loss
        if self.order == 1:
            return -loss, absent
        atom = (1 - self.q) * (1 - 2 * special.ndtr(-mu / 2))
        return np.concatenate([loss, -loss, [0.0]]), np.concatenate([absent + loss, absent, [math.log(atom)]])

    def delta(self, epsilon: float) -> tuple[float, float]:
        """δ at this ε, and a bound on the relative error of the sum over t."""

        def height(exponent: float) -> float:
            c = math.exp(exponent)
            loss, mass = self.law(c)
            moment = self.rounds * float(special.logsumexp(mass + c * loss)) + self.rho * c * (c + 1)
            return moment - c * epsilon - exponent - math.log1p(c)

        c = math.exp(optimize.minimize_scalar(height, bounds=(-6.0, 7.0), method="bounded").x)
        loss, mass = self.law(c)
        scale = float(special.logsumexp(mass + c * loss))
        weight = np.exp(mass + c * loss - scale)
        mean = float(weight @ loss)
        spread = math.sqrt(self.rounds * float(weight @ (loss - mean) ** 2) + 2 * self.rho + 1 / c**2)

        def integrand(t: Array) -> NDArray[np.complex128]:
            moment = np.exp(1j * t[:, None] * (loss - mean)) @ weight
            s = c + 1j * t
            shift = 1j * t * (self.rounds * mean - epsilon) + self.rho * (s * (s + 1) - c * (c + 1))
            return np.asarray(moment**self.rounds * np.exp(shift) / (s * (s + 1)))

        step, before = min(c / 5, 0.5 / spread), math.inf
        found, tail = _sum(integrand, step)
        while abs(found - before) > 1e-9 * abs(found) and tail < 1e-3 * abs(found):
            step /= 2
            before, (found, tail) = found, _sum(integrand, step)
        size = self.rounds * scale + self.rho * c * (c + 1) - c * epsilon
        return found / math.pi * math.exp(size), (abs(found - before) + tail) / abs(found)


def _sum(integrand: Callable[[Array], NDArray[np.complex128]], step: float) -> tuple[float, float]:
    """step · Σ of the real parts at step/2, 3 step/2, ..., and a bound on what is left out, which falls with 1/t² or faster."""
    total, done = 0.0, 0
    while True:
        t = step * (np.arange(done, done + 64) + 0.5)
        values = integrand(t)
        total += step * float(values.real.sum())
        done += 64
        tail = float(np.abs(values[-16:]).max() * t[-1])
        if tail < 1e-10 * abs(total) or done >= _MOST_POINTS:
            return total, tail
