"""The ring, and that every constant of a session is part of its name."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import ProtocolError
from tests.support.secagg_round import session


@given(st.integers(4, 30), st.integers(1, 14), st.binary(min_size=32, max_size=32))
def test_neighbours_are_mutual_distinct_and_as_many_as_stated(devices, half, seed):
    neighbours = min(2 * half, devices - 1)
    constants = session(devices=devices, neighbours=neighbours, threshold=1, minimum=2, graph_seed=seed)
    around = {i: constants.neighbours_of(i) for i in range(devices)}
    for i, others in around.items():
        assert len(set(others)) == neighbours == len(others)
        assert list(others) == sorted(others)
        assert i not in others
        assert all(i in around[other] for other in others)


def test_a_device_meets_everybody_about_equally_often():
    """Over seeds, each other device is a neighbour with probability k / (n - 1)."""
    counts = [0] * 9
    for seed in range(3000):
        constants = session(devices=9, neighbours=2, threshold=1, graph_seed=seed.to_bytes(32, "big"))
        for other in constants.neighbours_of(0):
            counts[other] += 1
    # Mean 750, standard deviation 23.7.
    assert counts[0] == 0
    assert all(abs(count - 750) < 120 for count in counts[1:])


def test_what_is_left_of_a_ring_is_connected_unless_half_the_neighbours_in_a_row_are_gone():
    constants = session(devices=20, neighbours=6, threshold=1)
    order, _ = constants._ring
    for gone, parts in ((order[3:5] + order[9:11], 1), (order[3:6] + order[9:12], 2)):
        left, components = set(order) - set(gone), 0
        while left:
            components += 1
            reached = {left.pop()}
            while reached:
                reached = {other for i in reached for other in constants.neighbours_of(i)} & left
                left -= reached
        assert components == parts


def test_every_constant_is_part_of_the_context():
    base = session(devices=8)
    changes = {
        "session_id": b"x" * 32,
        "graph_seed": b"y" * 32,
        "devices": 9,
        "neighbours": 6,
        "threshold": 2,
        "minimum": 5,
        "dimension": 6,
        "bits": 14,
    }
    assert set(changes) == {field.name for field in fields(base)}
    contexts = {replace(base, **{name: value}).context for name, value in changes.items()}
    assert len(contexts | {base.context}) == len(changes) + 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("session_id", b"short"),
        ("graph_seed", b""),
        ("devices", 1),
        ("neighbours", 3),
        ("neighbours", 6),
        ("threshold", 0),
        ("threshold", 5),
        ("minimum", 1),
        ("minimum", 7),
        ("dimension", 0),
        ("bits", 0),
        ("bits", 33),
    ],
)
def test_constants_that_cannot_be_are_refused(field, value):
    with pytest.raises(ProtocolError, match=f"Expected {field} to be"):
        session(**{field: value})
