"""Privacy loss of rounds of fixed size: m of n users drawn without replacement, neighbours replace one user.

**The curve of one round.** D and D′ differ in the data of one user; q = m/n. The released sum is a mixture over the cohorts:

    M(D) = (1 − q) R + q A        M(D′) = (1 − q) R + q A′

R is its law when the user is not drawn, A and A′ when they are. A and A′ couple cohort by cohort: the sums differ in one
clipped contribution, so by at most 2S. A and R couple too: swap the user for a uniformly chosen member of a cohort without
them, and the result is uniform over the cohorts with them; again the sums differ by at most 2S. By joint convexity every
ordered pair out of R, A and A′ is dominated by P = N(d, 1) against Q = N(0, 1), where d = 2S/σ = 2/z. The hockey-stick
divergence is H_α(M‖N) = ∫ (dM − α dN)₊. For α ≥ 1 advanced joint convexity (Balle, Barthe and Gaboardi 2018), with
α′ = 1 + (α − 1)/q and β = α′/α, gives

    H_α(M(D)‖M(D′)) = q H_α′(A ‖ (1 − β) R + β A′) ≤ q H_α′(P‖Q) = H_α((1 − q) Q + q P ‖ Q) =: f(α).

For α < 1, H_α(M‖N) = 1 − α + α H_{1/α}(N‖M); D and D′ may change places, so H_α(M(D)‖M(D′)) ≤ 1 − α + α f(1/α) =: f(α).
These are the two branches of Zhu, Dong and Wang 2022 (sampling without replacement). Each is attained: all other users at
−S, or all at +S, and the one at the opposite end.

**Why both branches count under composition.** A composition of T rounds at α ≥ 1 depends on the rounds' curves at all α, below
1 too. Composing the pair ((1 − q) Q + q P, Q) alone is not a bound that anybody has proven: it has the upper branch, but
its own curve below 1 is smaller than f. No pair of data sets is the worst one under composition (Lebeda, Regehr, Kamath and
Steinke 2024), but dominating pairs compose, also adaptively (Zhu, Dong and Wang 2022, Theorem 10), if *one* pair
has a curve that is at least f everywhere.

**One pair with the curve f.** f is convex: both branches are, and at α = 1 the slope is −((1 − q)(1 − t) + q t) on the left and
−t on the right, t = Φ(−d/2) ≤ 1/2. f falls from f(0) = 1 and is at least (1 − α)₊. So f is the curve of a pair (P*, Q*):
where P > Q it has the densities ((1 − q) Q + q P, Q), where P < Q it has (P, (1 − q) P + q Q), and both have an atom of mass
(1 − q)(1 − 2t). The pair is its own mirror image, so one loss distribution serves both directions.

**Discretisation** (Doroshenko et al. 2022). The pair whose curve joins the points (e^{ih}, f(e^{ih})), |i| ≤ k, by
straight lines in α lies above f, by convexity. Beyond e^{kh} it stays at f(e^{kh}), the mass of an infinite loss. Straight
lines stay straight under f(α) = 1 − α + α f(1/α), so the discrete pair is its own mirror image as well: the mass at loss
−ih is e^{−ih} times the one at ih. Only second differences of f at α ≥ 1 are computed, where f is small, and the atom is
what is left over.

**Rényi divergences.** A pair that dominates has the larger f-divergences, Rényi's among them: D_α(M(D)‖M(D′)) ≤ D_α(P*‖Q*).
With u = P*/Q*, e^{(α−1) D_α} − 1 = ∫ Q* (u^α − 1 − α (u − 1)). The integrand is nowhere negative and vanishes on the atom,
so small divergences keep their digits. At low orders this is two to four times less than the bound of Wang et al. 2019.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.accounting.library import dp_accounting

# The outcome's deviations from the mean of P, beyond which the loss counts as infinite: P's mass there is below 1e-25.
_REACH = 10.5
_ROUGH = 1e-2
# Gauss-Legendre panels of this width, and what is added for their error, by far: they agree with other rules to 1e-10.
_PANEL, _NODES, _QUADRATURE = 0.25, np.polynomial.legendre.leggauss(8), 1e-8


def curve(epsilon: NDArray[np.float64], share: float, noise_multiplier: float) -> NDArray[np.float64]:
    """f(e^ε), the least δ at which one round is (ε, δ)-private, for any ε; `share` is q, of users drawn."""
    size = np.abs(epsilon)
    above = _upper_branch(size, share, 2 / noise_multiplier)
    return np.where(epsilon >= 0, above, -np.expm1(-size) + np.exp(-size) * above)


def loss_distribution(share: float, noise_multiplier: float, discretization: float) -> Any:
    """Of one round, as a `PrivacyLossDistribution` of dp-accounting: an upper bound, for neighbours in either order."""
    pld = dp_accounting().pld
    masses, infinite = _masses(share, noise_multiplier, discretization)
    lowest = -(masses.size // 2)
    pmf = pld.pld_pmf.DensePLDPmf(discretization, lowest, masses, infinite, True)
    return pld.privacy_loss_distribution.PrivacyLossDistribution(pmf)


def renyi_divergences(share: float, noise_multiplier: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """D_α(P*‖Q*) of one round at each of these orders, rounded up."""
    return np.array([_renyi_divergence(share, 2 / noise_multiplier, float(order)) for order in orders])


def _renyi_divergence(share: float, distance: float, order: float) -> float:
    from scipy import special  # slow to import, and few commands need it

    # Both halves of the pair as integrals over x > d/2: the one below, mirrored, has Q* = φ(x) e^ℓ and u = e^−ℓ.
    edges = np.arange(distance / 2, distance * max(order, 1.0) + _REACH + _PANEL, _PANEL)
    x = (edges[:, None] + _PANEL / 2 * (_NODES[0] + 1)).ravel()
    log_density = np.tile(np.log(_PANEL / 2 * _NODES[1]), edges.size) - x * x / 2 - math.log(2 * math.pi) / 2
    loss = np.logaddexp(math.log1p(-share) if share < 1 else -math.inf, math.log(share) + distance * (x - distance / 2))
    loss = np.maximum(loss, 0.0)
    above, below = _log_bregman(loss, order), loss + _log_bregman(-loss, order)
    excess = special.logsumexp(np.concatenate([log_density + above, log_density + below]))
    return float(np.logaddexp(0.0, excess)) / (order - 1) * (1 + _QUADRATURE)


def _log_bregman(loss: NDArray[np.float64], order: float) -> NDArray[np.float64]:
    """The logarithm of u^α − 1 − α (u − 1) at u = e^loss."""
    small, large = np.minimum(loss, 30 / order), np.maximum(loss, 30 / order)
    with np.errstate(divide="ignore"):
        near = np.log(np.maximum(np.expm1(order * small) - order * np.expm1(small), 0.0))
    far = order * large + np.log1p(-order * np.exp((1 - order) * large) - (1 - order) * np.exp(-order * large))
    return np.where(loss < 30 / order, near, far)


def expected_loss(share: float, noise_multiplier: float) -> float:
    """The mean of one round's finite losses, roughly and quickly: times the rounds, about where their composition lies."""
    masses, _ = _masses(share, noise_multiplier, _ROUGH)
    return float(masses @ (_ROUGH * (np.arange(masses.size) - masses.size // 2)))


def _masses(share: float, noise_multiplier: float, step: float) -> tuple[NDArray[np.float64], float]:
    """Of the losses −k h .. k h, and of an infinite loss."""
    distance = 2 / noise_multiplier
    unsampled = distance * (distance / 2 + _REACH)  # the largest loss that stays finite, if everybody were drawn
    largest = unsampled + math.log(share + (1 - share) * math.exp(-unsampled))
    count = max(1, math.ceil(largest / step))
    losses = step * np.arange(count + 1, dtype=np.float64)
    deltas = np.minimum.accumulate(_upper_branch(losses, share, distance))
    falls = -np.diff(deltas)
    masses = np.empty(count + 1)
    masses[1:-1] = np.maximum(falls[:-1] * math.exp(step) - falls[1:], 0.0) / math.expm1(step)
    masses[-1] = falls[-1] / -math.expm1(-step)
    mirrored = masses[:0:-1] * np.exp(-losses[:0:-1])
    infinite = float(deltas[-1])
    masses[0] = max(1 - infinite - math.fsum(masses[1:]) - math.fsum(mirrored), 0.0)
    return np.concatenate([mirrored, masses]), infinite


def _upper_branch(epsilon: NDArray[np.float64], share: float, distance: float) -> NDArray[np.float64]:
    """H_α((1 − q) Q + q P ‖ Q) for α = e^ε ≥ 1, as q H_α′(P‖Q), with a small relative error however small it is."""
    from scipy import special

    log_order = np.log1p(np.expm1(epsilon) / share)
    u = distance / 2 - log_order / distance
    # H_α′(P‖Q) = Φ(u) − α′ Φ(u − d), and φ(u) = α′ φ(u − d): where Φ(u) is small, a difference of Mills' ratios.
    density = np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    tail = density * (_mills(np.maximum(-u, 0.0)) - _mills(np.maximum(-u, 0.0) + distance))
    bulk = special.ndtr(u) - np.exp(np.minimum(log_order + special.log_ndtr(u - distance), 0.0))
    return np.asarray(share * np.clip(np.where(u < 0, tail, bulk), 0.0, 1.0))


def _mills(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """(1 − Φ(x)) / φ(x) for x ≥ 0."""
    from scipy import special

    return np.asarray(math.sqrt(math.pi / 2) * special.erfcx(x / math.sqrt(2)))
