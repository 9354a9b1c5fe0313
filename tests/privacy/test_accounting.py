"""Epsilon: published values, limits, and the library's trap."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.privacy.accounting import sampled_gaussian
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, combined_noise_multiplier, dp_event, epsilon
from tacit.privacy.accounting.spent import Spent, spent_by
from tacit.privacy.noise.tail import TAIL_SHARE, apart_from_tail
from tacit.privacy.record.facts import DataRecord, ReleaseSize
from tacit.privacy.record.reasons import Reason
from tacit.privacy.record.records import FORMAT, Intent, Opened
from tests.support.first_record import NO_NOISE, SEEDED


def poisson(q: float = 0.01, z: float = 1.0, count: int = 100) -> list[SampledRounds]:
    return [SampledRounds({"kind": "poisson", "probability": q}, z, count)]


def test_dp_fedavg_table_2_costs_3_90_by_privacy_loss_distributions():
    """The paper prints 4.634 by the moments accountant; the tighter bound on the same mechanism is 3.90."""
    assert epsilon(poisson(5000 / 763430, 1.0, 5000), 1e-9, "pld") == pytest.approx(3.90, abs=0.01)


def test_fixed_size_rounds_use_replace_one_and_twice_the_sensitivity():
    rounds = [SampledRounds({"kind": "fixed", "size": 20_000, "population": 4_000_000}, 0.8, 2_000)]
    assert epsilon(rounds, 1 / 4e6**1.1, "rdp") == pytest.approx(66.5, abs=0.1)
    assert epsilon(rounds, 1 / 4e6**1.1, "pld", discretization=1e-3) == pytest.approx(31.66, abs=0.01)


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_monotone_in_everything(accountant):
    base = epsilon(poisson(), 1e-6, accountant)
    assert epsilon(poisson(z=1.1), 1e-6, accountant) < base
    assert epsilon(poisson(count=200), 1e-6, accountant) > base
    assert epsilon(poisson(q=0.02), 1e-6, accountant) > base
    assert epsilon(poisson(), 1e-5, accountant) < base
    assert epsilon([], 1e-6, accountant) == 0
    assert epsilon(poisson(z=0.0), 1e-6, accountant) == math.inf
    assert epsilon(poisson() + poisson(z=0.9), 1e-6, accountant) > base


def test_a_coarser_discretisation_is_still_an_upper_bound():
    fine, coarse = (epsilon(poisson(), 1e-6, "pld", discretization=h) for h in (1e-4, 1e-3))
    assert fine <= coarse <= fine * 1.01
    assert fine <= epsilon(poisson(), 1e-6, "rdp")


@pytest.mark.parametrize("z", [1, np.float32(1), np.float64(1)])
def test_numbers_that_are_not_python_floats_reach_the_library_as_such(z):
    """dp-accounting silently fails to compose a sampled event whose noise multiplier is an int or a NumPy scalar."""
    event = dp_event(poisson(q=np.float32(0.5), z=z)[0])
    assert type(event.event.event.noise_multiplier) is float
    assert type(event.event.sampling_probability) is float


@pytest.mark.parametrize(
    "sampling", [{"kind": "poisson", "probability": 0.011}, {"kind": "fixed", "size": 11, "population": 1009}]
)
def test_what_is_kept_of_an_answer_does_not_answer_another_question(sampling):
    def fresh(z, count, delta):
        sampled_gaussian._epsilon.cache_clear()
        sampled_gaussian._of_one_round.cache_clear()
        return epsilon([SampledRounds(sampling, z, count)], delta, "pld", discretization=1e-3)

    asked = [(1.5, 20, 1e-5), (1.5, 40, 1e-5), (1.6, 20, 1e-5), (1.5, 20, 1e-6)]
    answers = [fresh(*each) for each in asked]
    assert len(set(answers)) == len(asked)
    for z, count, delta in asked * 2:
        kept = epsilon([SampledRounds(sampling, z, count)], delta, "pld", discretization=1e-3)
        assert kept == answers[asked.index((z, count, delta))]
    assert sampled_gaussian._of_one_round.cache_info().misses == 2  # a distribution for each noise multiplier, no more


def test_different_adjacencies_do_not_compose():
    fixed = [SampledRounds({"kind": "fixed", "size": 10, "population": 1000}, 1.0, 1)]
    with pytest.raises(ValueError, match="adjacencies"):
        epsilon(poisson() + fixed, 1e-6, "rdp")


def test_blocks_combine():
    assert combined_noise_multiplier([3.0, 4.0]) == pytest.approx((1 / 9 + 1 / 16) ** -0.5)
    assert combined_noise_multiplier([3.0, 0.0]) == 0
    assert combined_noise_multiplier([]) == 0


def intent(round: int, *, z: float = 1.0, bound: float | None = 0.8, attempt: int = 0) -> Intent:
    return Intent(
        round,
        attempt,
        {"kind": "poisson", "probability": 0.01},
        {"update": {"bound": bound, "noise_multiplier": z}},
        50.0,
        "00",
    )


def cost(intents: list[Intent], *, coordinates: int = 10, reasons: tuple[Reason, ...] = (), **data: str) -> Spent:
    opened = Opened(
        run_id="r",
        format=FORMAT,
        tacit_version="",
        plan={"delta": 1e-6, "sampling": "poisson"},
        mechanism="gaussian",
        strategy={},
        population=1000,
        rounds=intents[-1].round + 1 if intents else 0,
        seeded=False,
        reasons_not_private=reasons,
        recipe="",
        release=ReleaseSize(coordinates, 1),
        data=DataRecord(**data),
        unit="user",
        adjacency="add or remove one user",
    )
    return spent_by(opened, intents)


def test_cost_is_read_off_the_ledger():
    once, twice = [intent(t) for t in range(50)], [intent(t) for t in range(50)] + [intent(49, attempt=1)]
    assert cost(twice).epsilon > cost(once).epsilon  # a round that ran twice is accounted twice
    assert cost(twice).releases == 51
    assert cost([*once, intent(50, z=0.5)]).epsilon > cost([*once, intent(50)]).epsilon
    assert cost([*once, intent(50, bound=None)]).epsilon == math.inf


def test_an_infinite_epsilon_says_why():
    assert cost([intent(0)], reasons=(SEEDED,)).as_dict()["epsilon"] is None
    assert cost([intent(0)], reasons=(SEEDED,)).reasons_not_private == (SEEDED,)
    assert cost([intent(0, z=0.0)]).reasons_not_private == (NO_NOISE,)


def test_the_missing_tail_is_charged_to_delta():
    assert 0.99e-6 < apart_from_tail(1e-6) < 1e-6
    assert math.isfinite(cost([intent(0)], coordinates=10**9).epsilon)
    set_aside = epsilon(poisson(count=1), 1e-6 * (1 - TAIL_SHARE), "pld")
    assert cost([intent(0)]).epsilon == set_aside > epsilon(poisson(count=1), 1e-6, "pld")
    too_much = cost([intent(0)], coordinates=10**18 << 92)  # (1 + e^ε) τ exceeds what was set aside
    (reason,) = too_much.reasons_not_private
    assert too_much.epsilon == math.inf
    assert (
        f"at an epsilon of {set_aside:.4g} the probability of such a draw costs more than delta allows"
        in reason.sentence
    )


def test_a_guarantee_states_its_assumptions():
    assert any("other runs" in each for each in cost([intent(0)]).as_dict()["assumptions"])
    named = cost([intent(0)], vocabulary="public corpus: forum").assumptions
    assert any("without looking at these users (public corpus: forum)" in each for each in named)
