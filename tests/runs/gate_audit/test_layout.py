"""Channels cover every coordinate once, and what the gate must add for a canary is what equation 1 says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.privacy.gate.rounding import HEADROOM
from tacit.runs.gate_audit.layout import MOST_CANARIES, TIMES_TOO_LONG, Layout, canaries_for


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=6),
    rounds=st.sampled_from([1, 7, 130, 4000]),
    canaries=st.integers(1, MOST_CANARIES),
    per_layer=st.booleans(),
)
def test_channels_cover_every_coordinate_once(sizes, rounds, canaries, per_layer):
    layout = Layout.of(sizes, ["within", "weight"], rounds=rounds, canaries=canaries, per_layer=per_layer)
    assert [int(array.counts().sum()) for array in layout.arrays] == [*sizes, 1, 1]
    assert min(layout.counts) >= 1
    assert set(layout.owners) == set(range(layout.canaries))
    assert layout == Layout.from_dict(json.loads(json.dumps(layout.as_dict())))
    shares = layout.shares(0.5, None)
    everybody = np.ones(layout.canaries, bool)
    lengths = layout.lengths(layout.added(shares, everybody))
    # As one vector of plain numbers, clipped as the paper says.
    for canary in range(layout.canaries):
        arrays = [np.zeros(size) for size in sizes]
        channel = 0
        for values, array in zip(arrays, layout.arrays, strict=False):
            for count, place in zip(array.counts(), np.cumsum(array.counts()) - array.counts(), strict=True):
                if layout.owners[channel] == canary:
                    values[place : place + count] = shares.amplitudes[canary]
                channel += 1
        whole = np.concatenate(arrays)
        assert np.linalg.norm(whole) == pytest.approx(0.5 * TIMES_TOO_LONG, rel=1e-6)
        if per_layer:
            bound = 0.5 / np.sqrt(len(sizes))
            arrays = [each * min(1.0, bound / max(np.linalg.norm(each), 1e-30)) for each in arrays]
            whole = np.concatenate(arrays)
        else:
            whole *= 0.5 / np.linalg.norm(whole)
        assert lengths[canary] == pytest.approx(np.linalg.norm(whole) * HEADROOM, rel=1e-12)
        assert lengths[canary] <= 0.5 * (1 + 1e-15)


def test_only_canaries_who_are_in_add_anything():
    layout = Layout.of([100, 3], ["weight", "within"], rounds=10, canaries=5, per_layer=False)
    coins = np.array([True, False, False, True, False])
    shares = layout.shares(2.0, 3.0)
    added = layout.added(shares, coins)
    assert layout.lengths(added) == pytest.approx(2.0 * HEADROOM * coins)
    sides = dict(zip(layout.blocks[-2:], added[-2:], strict=True))
    assert sides == {"weight": 2 * HEADROOM, "within": -HEADROOM}
    assert shares.amplitudes.dtype == np.float32


def test_a_short_clip_and_a_high_threshold_are_both_far_exceeded():
    layout = Layout.of([64], [], rounds=10, canaries=1, per_layer=False)
    assert layout.shares(0.1, 7.0).amplitudes * 8 == pytest.approx(70.0)
    assert layout.lengths(layout.added(layout.shares(1e12, None), np.ones(1, bool)))[0] == pytest.approx(
        5e11 * HEADROOM, rel=1e-6
    )


def test_there_are_more_canaries_beside_more_users():
    assert [canaries_for(each) for each in (1, 200, 500, 1e5)] == [4, 6, 15, MOST_CANARIES]
