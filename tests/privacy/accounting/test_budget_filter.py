"""The privacy filter: no way of choosing jobs by looking at releases spends more than the budget, as brute force shows.

The people who choose are allowed everything: after each release they see its privacy loss and take the job that suits them
best, or stop. What they reach is computed by dynamic programming over all such rules, on a fine grid of losses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.errors import PrivacyError
from tacit.privacy.accounting.adaptive import orders_for
from tacit.privacy.accounting.budget_filter import Limit, most_rho, require_limit, spending
from tacit.privacy.accounting.charges import Charge, ChargedRounds, ChargedWords
from tacit.privacy.accounting.sampled_gaussian import ADJACENCY, SampledRounds, renyi_divergences
from tacit.privacy.accounting.several_runs import THRESHOLDS

ADD, DELTA = ADJACENCY["poisson"], 1e-3
Array = NDArray[np.float64]
Counts = tuple[int, int]  # how many jobs of either kind
LOSSES = np.linspace(-8.0, 24.0, 1_601)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(160)


@dataclass(frozen=True)
class Jobs:
    """Two kinds of jobs to choose from: a plain Gaussian, and a Gaussian on sampled users, whose loss is seldom large."""

    rho: float
    rate: float
    noise: float

    def charge(self, counts: Counts) -> Charge:
        """What so many jobs of either kind are charged."""
        plain, sampled = counts
        sampling = {"kind": "poisson", "probability": self.rate}
        rounds = (ChargedRounds(sampling, self.noise, sampled),) if sampled else ()
        return Charge("user", ADD, rounds=rounds, rho=plain * self.rho)

    @cached_property
    def steps(self) -> list[Step]:
        """For either kind, the expectation of a function of the privacy loss after one more job, the user being there."""
        points = np.linspace(-8 * self.noise, 1 + 8 * self.noise, 4_001)
        absent, there = (np.exp(-(((points - mean) / self.noise) ** 2) / 2) for mean in (0.0, 1.0))
        density = (1 - self.rate) * absent + self.rate * there
        loss = np.log1p(self.rate * np.expm1((2 * points - 1) / (2 * self.noise**2)))
        plain = math.sqrt(2 * self.rho) * NODES + self.rho
        return [kernel(plain, WEIGHTS / WEIGHTS.sum()), kernel(loss, density / density.sum())]

    def most_delta(self, epsilon: float, admitted: Callable[[Counts], bool]) -> float:
        """The largest E[(1 − e^{ε − L})₊] over every rule that looks at losses and begins only admitted jobs."""

        @cache
        def value(counts: Counts) -> tuple[float, ...]:
            best = excess(epsilon)
            for job in range(2):
                after = (counts[0] + (job == 0), counts[1] + (job == 1))
                if admitted(after):
                    best = np.maximum(best, self.steps[job](np.array(value(after))))
            return tuple(best)

        return at_no_loss(np.array(value((0, 0))))

    def delta_of(self, epsilon: float, counts: Counts) -> float:
        """δ at ε of so many jobs of either kind, settled beforehand."""
        values = excess(epsilon)
        for job, count in enumerate(counts):
            for _ in range(count):
                values = self.steps[job](values)
        return at_no_loss(values)


Step = Callable[[Array], Array]


def excess(epsilon: float) -> Array:
    return np.maximum(0.0, -np.expm1(np.minimum(epsilon - LOSSES, 0.0)))


def at_no_loss(values: Array) -> float:
    return float(np.interp(0.0, LOSSES, values))


def all_admitted(admitted: Callable[[Counts], bool]) -> list[Counts]:
    """Every admitted pair of counts."""
    found, rows = [], 0
    while admitted((rows, 0)):
        columns = next(count for count in itertools.count(1) if not admitted((rows, count)))
        found += [(rows, column) for column in range(columns)]
        rows += 1
    return found


def kernel(values: Array, weights: Array) -> Step:
    """E[f(l + L)] at every l of the grid, for a job's loss L; L is rounded to the grid, up and down so that its mean stays."""
    width = LOSSES[1] - LOSSES[0]
    low = np.floor(values / width).astype(int)
    share = values / width - low
    shifts, place = np.unique(np.concatenate([low, low + 1]), return_inverse=True)
    mass = np.bincount(place, np.concatenate([weights * (1 - share), weights * share]))
    filled = np.zeros(shifts[-1] - shifts[0] + 1)
    filled[shifts - shifts[0]] = mass

    def expected(function: Array) -> Array:
        # Beyond the grid the function is constant: 0 on the left is right for a bound from below, and 1 − tiny on the right.
        padded = np.pad(function, (max(0, -shifts[0]), max(0, shifts[-1])), mode="edge")
        full = np.convolve(padded, filled[::-1], mode="valid")
        start = 0 if shifts[0] <= 0 else shifts[0]
        return full[start : start + len(LOSSES)]

    return expected


@pytest.mark.parametrize(("epsilon", "jobs"), [(2.0, Jobs(0.03, 0.1, 1.2)), (3.0, Jobs(0.1, 0.2, 1.0))])
def test_nobody_who_chooses_by_looking_spends_more_than_the_budget(epsilon: float, jobs: Jobs) -> None:
    limit = Limit(epsilon, DELTA)
    admitted = cache(lambda counts: spending({"a": jobs.charge(counts)}, limit).value <= epsilon)
    several = all_admitted(admitted)
    assert min(max(each[job] for each in several) for job in range(2)) >= 2
    reached = jobs.most_delta(epsilon, admitted)
    settled = max(jobs.delta_of(epsilon, counts) for counts in several)
    assert settled < reached <= DELTA  # choosing helps, and the budget holds all the same


def test_adding_up_afterwards_is_no_filter() -> None:
    """On every path the exact δ of the jobs that came about is at most the stated one, and the true δ is half as much again."""
    jobs, epsilon = Jobs(0.01, 0.01, 0.5), 1.0
    admitted = cache(lambda counts: jobs.delta_of(epsilon, counts) <= DELTA)
    assert max(jobs.delta_of(epsilon, counts) for counts in all_admitted(admitted)) <= DELTA
    assert jobs.most_delta(epsilon, admitted) > 1.4 * DELTA


def test_the_brute_force_notices_a_budget_that_does_not_hold() -> None:
    jobs = Jobs(0.1, 0.2, 1.0)
    admitted = cache(lambda counts: spending({"a": jobs.charge(counts)}, Limit(3.0, DELTA)).value <= 3.0)
    assert jobs.most_delta(1.5, admitted) > DELTA


def test_the_best_order_afterwards_reads_less_than_the_filter() -> None:
    """What it saves is what is not proven: that the order may be chosen after the jobs."""
    jobs = Jobs(0.05, 0.05, 1.0)
    orders, _ = orders_for(DELTA)
    rounds = SampledRounds({"kind": "poisson", "probability": 0.05}, 1.0, 2)
    divergences = renyi_divergences([rounds], orders) + orders * 2 * 0.05
    # The conversion of Canonne, Kamath and Steinke at each order by itself.
    conversions = divergences + np.log1p(-1 / orders) - np.log(DELTA * orders) / (orders - 1)
    found = spending({"a": jobs.charge((2, 2))}, Limit(9.0, DELTA)).value
    assert conversions.min() < found < conversions.min() + 1.5


PLAIN = Jobs(0.04, 0.05, 1.0)
RHO = PLAIN.rho


def charge(plain: int, sampled: int) -> Charge:
    return PLAIN.charge((plain, sampled))


def test_a_rho_is_a_sum_and_nothing_else() -> None:
    limit = Limit(None, None, 1.0)
    assert spending({"a": charge(3, 0), "b": charge(4, 0)}, limit).value == pytest.approx(7 * RHO)
    for job, why in (
        (charge(0, 1), "the users of the run b are sampled"),
        (Charge("user", ADD, rho=0.1, threshold_delta=1e-9), "the run b uses a threshold"),
        (Charge("user", ADD, rho=0.1, tail=1e-9), "leaves out too much"),
        (Charge("user", ADD, unknown="no noise is added"), "the cost of the run b is unknown: no noise is added"),
        (Charge("user", "replace one user", rho=0.1), "there is no common bound"),
    ):
        found = spending({"a": charge(1, 0), "b": job}, limit)
        assert math.isinf(found.value)
        assert why in (found.unknown or "")
    assert most_rho({"a": charge(3, 0)}, limit) == pytest.approx(1 - 3 * RHO)


def test_a_discovery_of_words_counts_once() -> None:
    limit = Limit(None, None, 1.0)
    words = ChargedWords("words", 0.2, 0.0)
    uses = Charge("user", ADD, rho=0.1, words=words)
    found = Charge("user", None, rho_of_words=0.2)
    assert spending({"a": uses}, limit).value == pytest.approx(0.3)
    assert spending({"a": uses, "b": uses}, limit).value == pytest.approx(0.4)
    assert spending({"a": uses, "words": found}, limit).value == pytest.approx(0.3)
    assert spending({"words": found}, limit).value == pytest.approx(0.2)
    replaced = Charge("user", "replace one user", rho=0.1, words=words)
    assert spending({"a": replaced}, limit).value == pytest.approx(0.5)
    assert spending({"a": replaced, "words": found}, limit).value == pytest.approx(0.5)


def test_of_two_stories_about_one_discovery_the_dearer_one_counts() -> None:
    """A run's record of its words may say less than another's, or less than the discovery itself is charged."""
    limit = Limit(None, None, 1.0)
    dear, cheap = (Charge("user", ADD, rho=0.1, words=ChargedWords("words", rho, 0.0)) for rho in (0.2, 0.01))
    for order in ({"a": dear, "b": cheap}, {"b": cheap, "a": dear}):
        assert spending(order, limit).value == pytest.approx(0.4)
    assert dear.at_least(cheap) == dear == cheap.at_least(dear)
    assert Charge("user", ADD).at_least(cheap).words == cheap.words
    discovery = Charge("user", None, rho_of_words=0.05)
    assert spending({"a": dear, "words": discovery}, limit).value == pytest.approx(0.1 + 0.2 + 0.05)


def test_words_that_everybody_was_asked_for_letter_by_letter_count_once() -> None:
    everybody = ChargedRounds({"kind": "poisson", "probability": 1.0}, 2.0, 8)
    uses = Charge("user", ADD, rho=0.1, words=ChargedWords("letters", 8 / (2 * 2.0**2), 0.0))
    letters, limit = Charge("user", ADD, rounds=(everybody,)), Limit(50.0, 1e-6)
    alone = spending({"a": Charge("user", ADD, rho=0.1), "letters": letters}, limit)
    assert spending({"a": uses, "letters": letters}, limit) == alone
    assert spending({"a": uses}, limit).value == pytest.approx(alone.value, rel=1e-3)


def test_the_tail_of_noise_is_charged_at_the_epsilon_that_may_still_be_reached() -> None:
    """A draw beyond the proof in a first, cheap job counts e^ε times when later jobs have spent the whole budget."""
    job = Charge("user", ADD, rho=0.01, tail=1e-30)
    assert math.isfinite(spending({"a": job}, Limit(20.0, 1e-6)).value)
    found = spending({"a": job}, Limit(60.0, 1e-6))
    assert math.isinf(found.value)
    assert "extremely far out" in (found.unknown or "")


@pytest.mark.parametrize(
    "wrong",
    [
        Charge("user", ADD, rho=-0.1),
        Charge("user", ADD, rho=math.nan),
        Charge("user", ADD, rho=math.inf),
        Charge("user", ADD, threshold_delta=-1e-9),
        Charge("user", ADD, tail=-1e-9),
        Charge("user", None, rho_of_words=-0.1),
        Charge("user", ADD, words=ChargedWords("w", -0.1, 0.0)),
        Charge("user", ADD, rounds=(ChargedRounds({"kind": "poisson", "probability": 0.1}, 1.0, -3),)),
        Charge("user", ADD, rounds=(ChargedRounds({"kind": "poisson", "probability": 0.1}, -1.0, 3),)),
        Charge("user", ADD, rounds=(ChargedRounds({"kind": "poisson", "probability": 0.1}, math.nan, 3),)),
    ],
)
@pytest.mark.parametrize("limit", [Limit(4.0, 1e-6), Limit(None, None, 1.0)])
def test_a_charge_that_no_job_can_have_admits_nobody(wrong: Charge, limit: Limit) -> None:
    assert math.isinf(spending({"a": charge(1, 0), "b": wrong}, limit).value)


def test_a_kind_of_sampling_that_is_not_known_admits_nobody() -> None:
    odd = Charge("user", ADD, rounds=(ChargedRounds({"kind": "lottery"}, 1.0, 3),))
    assert math.isinf(spending({"a": odd}, Limit(4.0, 1e-6)).value)


def test_thresholds_take_a_fifth_of_delta_and_no_more() -> None:
    limit = Limit(5.0, DELTA)
    few = Charge("user", None, rho_of_words=0.01, threshold_delta=0.9 * THRESHOLDS * DELTA)
    assert math.isfinite(spending({"a": few}, limit).value)
    found = spending({"a": few, "b": few}, limit)
    assert math.isinf(found.value)
    assert "thresholds" in (found.unknown or "")


def test_the_room_that_is_left_fits_and_hardly_more_does() -> None:
    limit, charges = Limit(4.0, 1e-6), {"a": charge(1, 2)}
    room = most_rho(charges, limit)
    for more, fits in ((0.0, True), (1e-6, False)):
        last = Charge("user", ADD, rho=room + more)
        assert (spending({**charges, "b": last}, limit).value <= 4.0) is fits
    assert most_rho({"a": charge(500, 2)}, limit) == 0.0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ((None, None, None), "either epsilon with delta, or rho"),
        ((1.0, 1e-6, 0.1), "either epsilon with delta, or rho"),
        ((1.0, None, None), "Expected a delta beside epsilon, such as 1e-6, got none"),
        ((1.0, 1.0, None), "Expected delta between 0 and 1"),
        ((0.0, 1e-6, None), "Expected epsilon > 0, got 0.0"),
        ((math.inf, 1e-6, None), "Expected epsilon > 0, got inf"),
        ((math.nan, 1e-6, None), "Expected epsilon > 0, got nan"),
        ((None, 1e-6, 0.1), "Expected no delta beside rho"),
        ((None, None, math.nan), "Expected rho > 0, got nan"),
    ],
)
def test_a_budget_is_a_number_that_makes_sense(wrong: tuple[float | None, ...], said: str) -> None:
    with pytest.raises(PrivacyError, match=said):
        require_limit(*wrong)


def test_a_charge_covers_what_is_less_in_every_part() -> None:
    small, large = charge(1, 2), charge(2, 5)
    assert large.covers(small)
    assert not small.covers(large)
    assert small.at_least(large) == large
    assert charge(5, 0).at_least(charge(0, 2)) == charge(5, 2)
    assert small.at_least(Charge("user", ADD, unknown="why")).unknown == "why"
