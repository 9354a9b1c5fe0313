"""Neighbours and thresholds: exact tails, their meaning on real rings, and how they grow."""

from __future__ import annotations

import math
import random
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import hypergeom

from tacit.errors import ProtocolError
from tacit.secagg.parameters import (
    MOST_NEIGHBOURS,
    against_curious,
    against_malicious,
    check,
    choose,
    exposed_probability,
    split_probability,
    tail,
)
from tests.support.secagg_round import session


def test_the_tail_is_the_count_of_subsets():
    subsets = list(combinations(range(8), 3))
    for marked in range(9):
        for at_least in range(5):
            counted = sum(sum(item < marked for item in subset) >= at_least for subset in subsets)
            assert tail(8, marked, 3, at_least) * len(subsets) == counted


@pytest.mark.parametrize("server", ["curious", "malicious"])
def test_a_device_accepts_what_was_chosen_and_refuses_weaker_constants(server):
    found = choose(1000, dropout=0.05, corruption=0.05, server=server, one_set=True)
    constants = {"devices": 1000, "neighbours": found.neighbours, "minimum": 900}
    assumed = {"dropout": 0.05, "corruption": 0.05, "server": server}
    check(session(**constants, threshold=found.threshold), **assumed, minimum=900)
    weakest = next(
        t
        for t in range(1, found.threshold + 1)
        if exposed_probability(1000, found.neighbours, t, corrupt=50, lost=50, server=server) <= 2.0**-40
    )
    for threshold in (1, weakest - 1):
        with pytest.raises(ProtocolError, match=f"or less to a {server} server, got {found.neighbours}"):
            check(session(**constants, threshold=threshold), **assumed)
    with pytest.raises(ProtocolError, match="at least 901 devices, got a minimum of 900"):
        check(session(**constants, threshold=found.threshold), **assumed, minimum=901)


def test_holding_a_malicious_server_to_the_minimum_takes_more_neighbours():
    assumed = {"dropout": 0.05, "corruption": 0.05}
    loose, strict = (choose(1000, **assumed, server="malicious", one_set=each) for each in (False, True))
    assert strict.neighbours > loose.neighbours
    # The most corrupt neighbours with 3t > 2(k + c), whose tail it is.
    most = max(c for c in range(1000) if 3 * strict.threshold > 2 * (strict.neighbours + c))
    expected = 1000 * hypergeom.sf(most, 999, 50, strict.neighbours)
    found = split_probability(1000, strict.neighbours, strict.threshold, corrupt=50)
    assert float(found) == pytest.approx(expected, rel=1e-5)
    assert found <= 2.0**-40
    constants = {"devices": 1000, "minimum": 900}
    weaker = session(**constants, neighbours=loose.neighbours, threshold=loose.threshold)
    check(weaker, **assumed, server="malicious")  # one sum, whatever it is over
    with pytest.raises(ProtocolError, match="a malicious server breaks the minimum"):
        check(weaker, **assumed, server="malicious", minimum=900)
    assert choose(1000, **assumed, server="curious", one_set=True) == choose(1000, **assumed, server="curious")


def test_the_tail_agrees_with_scipy_at_size():
    for marked, draws, at_least in ((650, 106, 43), (1950, 106, 64), (325, 116, 33)):
        expected = hypergeom.sf(at_least - 1, 6499, marked, draws)
        assert float(tail(6499, marked, draws, at_least)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("server", ["curious", "malicious"])
@pytest.mark.parametrize(
    ("devices", "dropout", "corruption"), [(100, 0.05, 0.05), (1000, 0.3, 0.05), (6500, 0.05, 0.1)]
)
def test_both_failures_stay_below_what_was_asked(server, devices, dropout, corruption):
    found = choose(devices, dropout=dropout, corruption=corruption, server=server)
    corrupt, lost = math.ceil(corruption * devices), math.ceil(dropout * devices)
    k, t = found.neighbours, found.threshold
    stuck = devices * hypergeom.sf(k - t, devices - 1, lost, k)
    assert stuck <= 2.0**-20 * (1 + 1e-6)
    assert found.interruption == pytest.approx(stuck, rel=1e-5, abs=1e-15)
    worst = t if server == "curious" else t - k // 2
    seen = devices * hypergeom.sf(worst - 1, devices - 1, corrupt, k)
    run = (
        math.exp(sum(math.log((corrupt + lost - j) / (devices - j)) for j in range(k // 2)))
        if corrupt + lost > k // 2
        else 0
    )
    cut = devices * run if server == "curious" else 0
    assert seen + cut <= 2.0**-40 * (1 + 1e-6)
    assert found.exposure == pytest.approx(seen + cut, rel=1e-5, abs=1e-15)
    # It is not wastefully many: a third fewer would not do.
    fewer = 2 * (k // 3)
    missing = next(m for m in range(fewer + 1) if devices * tail(devices - 1, lost, fewer, m + 1) <= 2.0**-20)
    assert (
        fewer == missing
        or exposed_probability(devices, fewer, fewer - missing, corrupt=corrupt, lost=lost, server=server) > 2.0**-40
    )


def test_sixty_five_times_the_devices_cost_a_device_about_the_same():
    few = choose(100, dropout=0.05, corruption=0.05, server="curious").neighbours
    many = choose(6500, dropout=0.05, corruption=0.05, server="curious").neighbours
    assert few < many < 2 * few


def test_the_bounds_hold_on_rings_that_are_drawn():
    """With failures asked to be common, count them: interruptions of drawn rings stay below their bound, and near it."""
    devices, lost = 60, 18
    found = choose(devices, dropout=0.3, corruption=0.05, server="curious", interruption=0.2, exposure=0.2)
    k, t, rng = found.neighbours, found.threshold, random.Random(0)
    stuck = 0
    for _ in range(4000):
        gone = [True] * lost + [False] * (devices - lost)
        rng.shuffle(gone)
        counts = [
            sum(gone[(i + step) % devices] for step in range(-(k // 2), k // 2 + 1) if step) for i in range(devices)
        ]
        stuck += max(counts) > k - t
    assert found.interruption / 8 < stuck / 4000 <= found.interruption


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"devices": 1}, "Expected devices ≥ 2, got 1"),
        ({"dropout": 1.0}, "Expected dropout to be"),
        ({"corruption": -0.1}, "Expected corruption to be"),
        ({"dropout": 0.3, "corruption": 0.45}, "tolerate against a malicious server"),
        ({"server": "curious", "dropout": 0.6, "corruption": 0.5}, "tolerate against a curious server"),
    ],
)
def test_what_cannot_be_is_refused(changes, sentence):
    asked = {"devices": 100, "dropout": 0.1, "corruption": 0.1, "server": "malicious", **changes}
    with pytest.raises(ProtocolError, match=sentence):
        choose(asked.pop("devices"), **asked)


def test_two_groups_cannot_both_hold_more_than_half_of_their_members_neighbours():
    """The theorem behind the malicious threshold, for every pair of disjoint groups on a ring of eleven; half is not enough."""
    devices, half = 11, 2
    digits = np.arange(3**devices)[:, None] // 3 ** np.arange(devices) % 3
    both = {}
    for least in (half, half + 1):
        good = np.ones(len(digits), bool)
        for group in (1, 2):
            member = digits == group
            near = sum(np.roll(member, step, axis=1).astype(int) for step in (-2, -1, 1, 2))
            good &= member.any(axis=1) & np.where(member, near >= least, True).all(axis=1)
        both[least] = int(good.sum())
    assert both[half + 1] == 0
    assert both[half] > 0


def test_where_everybody_hears_everybody_two_sets_never_both_have_enough_signatures():
    """The theorem behind a complete graph's threshold: a of the honest devices are told one set, b the other."""
    for devices in range(3, 9):
        for corrupt in range(devices - 1):
            for threshold in range(1, devices):
                splits = [(a, b) for a in range(1, devices) for b in range(1, devices - corrupt - a + 1)]
                both = any(min(a, b) - 1 + corrupt >= threshold for a, b in splits)
                found = split_probability(devices, devices - 1, threshold, corrupt=corrupt)
                assert found == exposed_probability(
                    devices, devices - 1, threshold, corrupt=corrupt, lost=0, server="malicious"
                )
                assert not (both and found == 0)
                assert both or 2 * threshold >= devices - 1 + corrupt
                assert (found == 0) == (2 * threshold > devices - 1 + corrupt)


def test_a_server_that_steers_the_ring_puts_all_corrupt_devices_around_one():
    luck = choose(1000, dropout=0.05, corruption=0.05, server="malicious", one_set=True)
    assert split_probability(1000, luck.neighbours, luck.threshold, corrupt=50, steered=True) == 1
    steered = choose(1000, dropout=0.05, corruption=0.05, server="malicious", one_set=True, steered=True)
    assert luck.neighbours < steered.neighbours < 999
    assert 3 * steered.threshold > 2 * (steered.neighbours + 50)
    constants = {"devices": 1000, "minimum": 900}
    assumed = {"dropout": 0.05, "corruption": 0.05, "server": "malicious", "minimum": 900}
    check(session(**constants, neighbours=steered.neighbours, threshold=steered.threshold), **assumed, steered=True)
    lucky = session(**constants, neighbours=luck.neighbours, threshold=luck.threshold)
    check(lucky, **assumed)
    with pytest.raises(ProtocolError, match="to a malicious server"):
        check(lucky, **assumed, steered=True)


@pytest.mark.parametrize(
    ("devices", "dropout", "against"),
    [
        (130, 0.3, "malicious"),
        (26, 0.3, "malicious"),
        (6, 0.4, "curious"),
        (130, 0.46, "curious"),
        (6500, 0.3, "curious"),
    ],
)
def test_parameters_are_against_a_malicious_server_where_the_devices_allow_it(devices, dropout, against):
    if against == "malicious":
        found = against_malicious(devices, dropout=dropout, corruption=0.1)
        assert found.neighbours <= MOST_NEIGHBOURS
    else:
        with pytest.raises(ProtocolError):
            against_malicious(devices, dropout=dropout, corruption=0.1)
        found = against_curious(devices, dropout=dropout, corruption=0.1)
    assert found.exposure <= 2.0**-40
