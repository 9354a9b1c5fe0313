"""Exact tests of what the audit of the gate saw, against the noise and the bounds that the ledger states.

In units of the stated z_j · bound_j, the release minus the users' sum and minus the canaries is the noise of a round. Along
channel c the rounds' noise is M g_c, for the strategy's noise matrix M and independent standard normal g_c (M = 1 where noise
is fresh every round). With the Cholesky factor L of M Mᵀ, w_c = L⁻¹ M g_c is independent standard normal again, over rounds t
and channels c. So, exactly:

    scale       Σ w² over all channels, over those of each array, and over those of each round, is χ²
    coordinates the same for every single coordinate of the noise, where noise is fresh every round; their largest
                value has the law of the largest of as many normals (noise without its tail)
    mean        Σ_c (Σ_t w_tc)² / T is χ² with as many degrees as channels (noise that is the same every round)
    rounds      w_s · w_t / |w_s| is N(0, 1) given w_s, for each pair of rounds (two rounds with the same noise); the same
                for all pairs of neighbouring rounds together, each round in one pair (noise not correlated as stated)
    arrays      the same for the first coordinates of each pair of arrays (two arrays with the same noise)
    shift       q = L⁻¹ (canary's series) = β L⁻¹ (stated series) + N(0, 1): the estimate of β is N(1, 1 / Σ(stated)²)
    admitted    the sum that the mechanism is given equals the gates' sum before the canaries were added, plus what the
                definition says the canaries add, up to rounding

Each gives a p-value: a sound run's is at most x with probability at most x. They are dependent; by the union bound, a sound run
has one below `level_of` with probability at most `FALSE_ALARM`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import special

from tacit.privacy.record.records import UPDATE
from tacit.runs.gate_audit.layout import Floats
from tacit.runs.gate_audit.record import Design, Seen

FALSE_ALARM = 1e-5
POWER = 0.999
CONFIDENCE = 0.999
# Correlated noise is decorrelated with a matrix over the rounds; this limits its size to what takes seconds.
MOST_ROUNDS = 4096
# What the gate adds is computed twice in float64, in different order; anything beyond rounding is a fault.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Finding:
    """One test: its name, its p-value, and a sentence about what was found."""

    name: str
    chance: float
    what: str


@dataclass(frozen=True)
class Measured:
    """All tests, and what they measured. A p-value below `level` is an alarm.

    `scale`: (lowest, estimate, highest) of the noise's standard deviation over the stated one; `shift`: the same of what one
    canary adds. Noise that is smaller by `detectable_scale`, or a share that is larger by `detectable_shift`, would have been
    detected.
    """

    rounds: int
    trials: int
    coordinates: int
    coins: int
    findings: tuple[Finding, ...]
    level: float
    scale: tuple[float, float, float]
    shift: tuple[float, float, float]
    detectable_scale: float
    detectable_shift: float

    @property
    def alarms(self) -> list[Finding]:
        """The tests that failed, the smallest p-value first."""
        return sorted((each for each in self.findings if not each.chance >= self.level), key=lambda each: each.chance)


def measure(design: Design, rounds: Sequence[Seen]) -> Measured:
    """Every test on these rounds, which are in order; there is at least one."""
    if design.strategy is not None:
        rounds = [each for each in rounds if each.round < MOST_ROUNDS]
    layout = design.layout
    added = np.array([layout.added(layout.shares(each.clip, each.threshold), each.coins) for each in rounds])
    released = np.array([each.released for each in rounds])
    sigma = _stated(design, rounds, layout.blocks)
    decorrelate = _decorrelation(design, rounds)
    noise = (released - added) / sigma
    if not np.isfinite(noise).all():
        return _unusable(len(rounds), "A release, or the sum it was made from, is not finite.")
    white = decorrelate(noise)  # [rounds, channels]
    update = white[:, layout.in_update]
    findings = [
        _admitted(design, rounds, added),
        _scale("noise, all arrays", update),
        *_by_array(design, white),
        _by_round(update),
        _mean(update),
        *_neighbours(update),
        _pairs(update),
        _arrays(design, white),
    ]
    counted, coordinates = float((update**2).sum()), update.size
    if design.strategy is None:
        energies, sizes = _energies(design, rounds)
        findings += _coordinates(design, rounds, energies, sizes)
        of_update = np.array([array.block == UPDATE for array in layout.arrays])
        counted, coordinates = float(energies[of_update].sum()), int(sizes[of_update].sum())
    shift, error, finding = _shift(design, rounds, released, sigma, decorrelate)
    findings.append(finding)
    return Measured(
        rounds=len(rounds),
        trials=update.size,
        coordinates=coordinates,
        coins=sum(len(each.coins) for each in rounds if layout.has_canaries(each.round)),
        findings=tuple(findings),
        level=level_of(design),
        scale=scale_interval(counted, coordinates),
        shift=(shift - _quantile() * error, shift, shift + _quantile() * error),
        detectable_scale=detectable_scale(coordinates, level_of(design)),
        detectable_shift=float(special.ndtri(POWER) - special.ndtri(level_of(design) / 2)) * error,
    )


def level_of(design: Design) -> float:
    """The part of `FALSE_ALARM` that one test gets: there are at most two tests for each array, and ten more."""
    return FALSE_ALARM / (2 * len(design.layout.arrays) + 10)


def planned_trials(design: Design, rounds: int) -> int:
    """How many independent values the test of the noise's scale has after `rounds` rounds."""
    layout = design.layout
    if design.strategy is None:
        return rounds * sum(array.size for array in layout.arrays if array.block == UPDATE)
    return min(rounds, MOST_ROUNDS) * int(layout.in_update.sum())


def detectable_scale(trials: int, level: float) -> float:
    """The smallest η for which noise of (1 - η) times its standard deviation fails a test of `level` with probability `POWER`.

    The test fails where Σ w² is below the quantile of χ² at level / 2, and Σ w² is (1 - η)² χ².
    """
    fails_below = _chi2_quantile(level / 2, trials)
    return 1 - math.sqrt(fails_below / _chi2_quantile(POWER, trials))


def scale_interval(squares: float, trials: int) -> tuple[float, float, float]:
    """(lowest, estimate, highest) of the noise's standard deviation in stated units, from a sum of squares."""
    half = (1 - CONFIDENCE) / 2
    low, high = (math.sqrt(squares / (2 * float(special.gammainccinv(trials / 2, each)))) for each in (half, 1 - half))
    return low, math.sqrt(squares / trials), high


def _quantile() -> float:
    return -float(special.ndtri((1 - CONFIDENCE) / 2))


def _stated(design: Design, rounds: Sequence[Seen], blocks: Sequence[str]) -> Floats:
    """[rounds, blocks] z_j · bound_j."""
    bounds = [each.bounds() for each in rounds]
    return np.array([[design.noise_multipliers[name] * each[name] for name in blocks] for each in bounds])


class _Decorrelation:
    """Multiplies by L⁻¹."""

    def __init__(self, factor: Floats | None) -> None:
        self._factor = factor

    def __call__(self, series: Floats) -> Floats:
        if self._factor is None:
            return series
        from scipy import linalg

        return np.asarray(linalg.solve_triangular(self._factor, series, lower=True))


def _decorrelation(design: Design, rounds: Sequence[Seen]) -> _Decorrelation:
    """For the rounds that were recorded, even if more are to come."""
    if design.strategy is None:
        return _Decorrelation(None)
    last = max(each.round for each in rounds) + 1
    matrix = design.strategy.noise_matrix(last, [each for each in design.restarts if each < last])
    matrix = matrix[[each.round for each in rounds]]
    return _Decorrelation(np.asarray(np.linalg.cholesky(matrix @ matrix.T), np.float64))


def _unusable(rounds: int, what: str) -> Measured:
    nothing = (math.nan, math.nan, math.nan)
    finding = Finding("finite", 0.0, what)
    return Measured(rounds, 0, 0, 0, (finding,), FALSE_ALARM, nothing, nothing, math.nan, math.nan)


def _two_sided(squares: float, trials: int) -> float:
    """The p-value of a sum of squares that is too small or too large."""
    return min(1.0, 2 * min(float(special.gammainc(trials / 2, squares / 2)), _chi2_tail(squares, trials)))


def _scale(name: str, white: Floats) -> Finding:
    squares, trials = float((white**2).sum()), white.size
    what = f"The noise has {math.sqrt(squares / trials):.3g} times the stated standard deviation ({trials:,} trials)."
    return Finding(name, _two_sided(squares, trials), what)


def _by_array(design: Design, white: Floats) -> list[Finding]:
    found = []
    for number, array in enumerate(design.layout.arrays):
        name = f"noise, array {number + 1}" if array.block == UPDATE else f"noise, block {array.block}"
        found.append(_scale(name, white[:, design.layout.array_of == number]))
    return found


def _by_round(white: Floats) -> Finding:
    """The round with the least likely noise; the p-value accounts for having picked it from all rounds."""
    squares = (white**2).sum(axis=1)
    chances = [_two_sided(float(each), white.shape[1]) for each in squares]
    worst = int(np.argmin(chances))
    deviation = math.sqrt(float(squares[worst]) / white.shape[1])
    what = f"In one round, number {worst + 1} of those seen, the noise has {deviation:.3g} times the stated deviation."
    return Finding("noise, each round", min(1.0, len(chances) * chances[worst]), what)


def _energies(design: Design, rounds: Sequence[Seen]) -> tuple[Floats, np.ndarray]:
    """[arrays] Σ x² of all coordinates and rounds in stated units, and how many they are."""
    sigma = _stated(design, rounds, [array.block for array in design.layout.arrays])
    sizes = np.array([array.size for array in design.layout.arrays]) * len(rounds)
    return (np.array([each.energy for each in rounds]) / sigma**2).sum(axis=0), sizes


def _coordinates(design: Design, rounds: Sequence[Seen], energies: Floats, sizes: np.ndarray) -> list[Finding]:
    found = []
    for number, (energy, size) in enumerate(zip(energies, sizes.tolist(), strict=True)):
        what = f"Array {number + 1} has {math.sqrt(energy / size):.4g} times the stated noise ({size:,} coordinates)."
        found.append(Finding(f"coordinates, array {number + 1}", _two_sided(float(energy), size), what))
    sigma = _stated(design, rounds, [array.block for array in design.layout.arrays])
    largest = float((np.array([each.largest for each in rounds]) / sigma).max())
    all_of_them = int(sizes.sum())
    below = math.exp(all_of_them * math.log1p(-2 * float(special.ndtr(-largest)))) if largest > 0 else 0.0
    above = -math.expm1(all_of_them * math.log1p(-2 * float(special.ndtr(-largest)))) if largest > 0 else 1.0
    what = f"The largest of {all_of_them:,} values of the noise is {largest:.3g} standard deviations."
    return [*found, Finding("largest", min(1.0, 2 * min(below, above)), what)]


def _mean(white: Floats) -> Finding:
    rounds, channels = white.shape
    squares = float((white.sum(axis=0) ** 2).sum() / rounds)
    what = (
        f"The noise has a mean that stays the same over the rounds: {squares / channels:.3g} times what chance gives."
    )
    return Finding("mean", _chi2_tail(squares, channels), what)


def _neighbours(white: Floats) -> list[Finding]:
    found = []
    for first in (0, 1):
        even, odd = white[first:-1:2], white[first + 1 :: 2]
        if not len(odd):
            continue
        score = float((even * odd).sum() / math.sqrt(float((even**2).sum())))
        what = f"The noise of neighbouring rounds is not correlated as stated ({score:.3g} standard deviations off)."
        found.append(Finding(f"neighbouring rounds, from {first + 1}", 2 * float(special.ndtr(-abs(score))), what))
    return found


def _pairs(white: Floats) -> Finding:
    white = white[:MOST_ROUNDS]
    products = white @ white.T
    lengths = np.sqrt(np.diag(products))
    scores = np.triu(np.abs(products) / np.where(lengths > 0, lengths, 1.0)[:, None], k=1)
    first, second = np.unravel_index(int(scores.argmax()), scores.shape)
    pairs = len(white) * (len(white) - 1) // 2
    chance = min(1.0, pairs * 2 * float(special.ndtr(-float(scores.max())))) if pairs else 1.0
    what = f"The noise of two rounds, number {first + 1} and {second + 1} of those seen, has a part in common."
    return Finding("pairs of rounds", chance, what)


def _arrays(design: Design, white: Floats) -> Finding:
    """The first coordinates of every two arrays, over all rounds."""
    firsts = [
        white[:, np.flatnonzero(design.layout.array_of == number)[: array.singles]]
        for number, array in enumerate(design.layout.arrays)
    ]
    worst, which, pairs = 0.0, (0, 0), 0
    for (a, one), (b, other) in combinations(enumerate(firsts), 2):
        shared = min(one.shape[1], other.shape[1])
        x, y = one[:, :shared], other[:, :shared]
        pairs += 1
        score = abs(float((x * y).sum())) / max(math.sqrt(float((x**2).sum())), 1e-300)
        if score > worst:
            worst, which = score, (a, b)
    what = f"Arrays {which[0] + 1} and {which[1] + 1} have noise in common."
    return Finding("pairs of arrays", min(1.0, pairs * 2 * float(special.ndtr(-worst))) if pairs else 1.0, what)


def _admitted(design: Design, rounds: Sequence[Seen], added: Floats) -> Finding:
    """What the canaries added to the sums, block by block, against what the definition says; there is no randomness in it."""
    layout = design.layout
    bounds = np.array([[each.bounds()[name] for name in layout.blocks] for each in rounds])
    gained = np.array([each.admitted for each in rounds])
    off = np.abs(gained - added) / bounds
    worst = float(np.nan_to_num(off, nan=np.inf).max())
    longest = max(float(layout.lengths(row).max() / each.clip) for row, each in zip(gained, rounds, strict=True))
    what = (
        f"The sum is not what the gate should make of it: a made-up contribution came out {longest:.3g} times as long as the "
        f"bound, and one number is off by {worst:.3g} bounds."
    )
    return Finding("admitted", 1.0 if worst <= ROUNDING and longest <= 1 else 0.0, what)


def _shift(
    design: Design, rounds: Sequence[Seen], released: Floats, sigma: Floats, decorrelate: _Decorrelation
) -> tuple[float, float, Finding]:
    """β by least squares after decorrelation, its standard error, and the test of β = 1."""
    layout = design.layout
    update = layout.in_update
    along, stated = [], []
    for row, deviation, each in zip(released[:, update], sigma[:, update], rounds, strict=True):
        shares = layout.shares(each.clip, each.threshold)
        share = shares.values * np.sqrt(layout.counts[update])  # along the channels, if all were in
        lengths = np.sqrt(np.bincount(layout.owners, share**2))
        matched = np.bincount(layout.owners, share * row / deviation) / lengths
        along.append(matched)
        stated.append(each.coins * lengths / deviation[0])
    expected = decorrelate(np.array(stated))
    information = float((expected**2).sum())
    if information == 0:  # no canary has been in yet
        return math.nan, math.inf, Finding("shift", 1.0, "No canary was in yet.")
    estimate = float((expected * decorrelate(np.array(along))).sum()) / information
    error = 1 / math.sqrt(information)
    what = f"A canary moves the release by {estimate:.3g} times what it should ({error:.2g} is the standard error)."
    return estimate, error, Finding("shift", 2 * float(special.ndtr(-abs(estimate - 1) / error)), what)


def _chi2_quantile(probability: float, degrees: float) -> float:
    """Where the distribution function of χ² reaches this probability."""
    return 2 * float(special.gammaincinv(degrees / 2, probability))


def _chi2_tail(value: float, degrees: float) -> float:
    """The probability that χ² exceeds this value."""
    return float(special.gammaincc(degrees / 2, value / 2))
