"""A cohort is cut into pieces of about equal cost, by what its users have and by nothing else."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit.data.views import Capped, Subset
from tacit.learning.batches import ImageBatches, TextBatches
from tacit.simulation.ray.pieces import CHUNK_COST, cut, predicted_sizes
from tests.support.list_users import ListUsers

SHAPE = TextBatches("windows", 10, 8, 20)


@given(
    sizes=st.lists(st.integers(0, 500), max_size=60),
    chunk=st.integers(1, 7),
    pieces=st.integers(1, 9),
)
def test_every_user_is_in_one_piece_and_no_index_is_given_twice(sizes: list[int], chunk: int, pieces: int) -> None:
    cohort = np.arange(1000, 1000 + len(sizes))
    found = cut(cohort, np.array(sizes, float), chunk=chunk, pieces=pieces)
    assert sorted(user for piece in found for user in piece.users) == cohort.tolist()
    assert [piece.number for piece in found] == list(range(len(found)))
    most = min(pieces, -(-len(sizes) // chunk))
    alone = most if chunk == 1 else len(sizes) % chunk == 1  # so many pieces might have one user
    assert most - alone <= len(found) <= most
    for piece, following in pairwise(found):
        # In the worst case every user is in a chunk of their own.
        assert following.first >= piece.first + len(piece.users) * chunk
        assert following.cost <= piece.cost


@given(
    users=st.lists(st.tuples(st.integers(0, 500), st.sampled_from([0, 2, 5])), max_size=60),
    chunk=st.integers(1, 7),
    pieces=st.integers(1, 9),
)
def test_a_piece_has_users_of_one_shard(users: list[tuple[int, int]], chunk: int, pieces: int) -> None:
    sizes, shards = np.array([size for size, _ in users], float), np.array([shard for _, shard in users], np.int64)
    found = cut(np.arange(len(users)), sizes, chunk=chunk, pieces=pieces, shards=shards)
    assert sorted(user for piece in found for user in piece.users) == list(range(len(users)))
    assert [piece.number for piece in found] == list(range(len(found)))
    assert len(found) < pieces + max(1, len(set(shards)))  # a shard has one, however small its share
    for piece in found:
        assert set(shards[piece.users]) == {piece.shard}
    for piece, following in pairwise(found):
        assert following.first >= piece.first + len(piece.users) * chunk
        assert following.cost <= piece.cost


@given(
    sizes=st.lists(st.integers(0, 500), min_size=2, max_size=40),
    chunk=st.integers(1, 4),
    pieces=st.integers(1, 30),
    shards=st.sampled_from([None, 1, 2]),
)
def test_no_piece_is_one_user_s_where_there_are_two(
    sizes: list[int], chunk: int, pieces: int, shards: int | None
) -> None:
    """Its sum would be that user's clipped update, and it leaves the worker."""
    in_shards = None if shards is None else np.arange(len(sizes)) // 2 % shards
    found = cut(np.arange(len(sizes)), np.array(sizes, float), chunk=chunk, pieces=pieces, shards=in_shards)
    for piece in found:
        there = len(sizes) if in_shards is None else int(np.sum(in_shards == piece.shard))
        assert len(piece.users) >= min(2, there)


def test_a_shard_gets_pieces_by_what_its_users_cost() -> None:
    shards = np.repeat([0, 1], [750, 250])
    found = cut(np.arange(1000), np.full(1000, 50.0), chunk=5, pieces=16, shards=shards)
    assert [sum(piece.shard == shard for piece in found) for shard in (0, 1)] == [12, 4]


def test_pieces_cost_about_the_same_however_ragged_the_users_are() -> None:
    sizes = np.minimum(np.random.default_rng(1).lognormal(4, 1.2, 2000), 800)  # as a cap leaves them
    costs = [piece.cost for piece in cut(np.arange(2000), sizes, chunk=8, pieces=16)]
    largest_chunk = CHUNK_COST + 8 * sizes.max()
    assert max(costs) - min(costs) <= largest_chunk
    assert max(costs) <= 1.1 * np.mean(costs)


def test_pieces_do_not_depend_on_the_order_in_which_equal_users_come() -> None:
    """Equal sizes keep the cohort's order, so the same cohort is always cut in the same way."""
    once, again = (cut(np.arange(50), np.ones(50), chunk=4, pieces=5) for _ in range(2))
    assert [piece.users.tolist() for piece in once] == [piece.users.tolist() for piece in again]


def test_sizes_are_known_without_reading_a_text(tmp_path: Path) -> None:
    people = tacit.users({"ann": ["see you", "soon"], "bob": [], "cyd": ["you"]}, vocabulary=["see", "you", "soon"])
    people.save(tmp_path / "store")
    for users in (people, tacit.open_store(tmp_path / "store"), Capped(people, tokens=100)):
        assert predicted_sizes(users, np.array([2, 0, 1]), SHAPE).tolist() == [1, 3, 0]
    assert predicted_sizes(Subset(people, np.array([2, 0])), np.array([1]), SHAPE).tolist() == [3]


def test_a_made_up_world_knows_its_sizes() -> None:
    world = tacit.KeyboardWorld(seed=1, users=50)
    numbers = np.array([7, 3])
    counts = np.diff(world.gather(numbers).user_offsets)
    np.testing.assert_array_equal(predicted_sizes(world, numbers, TextBatches("windows", 10, 8, 10_000)), counts)


def test_sizes_end_at_the_cap_and_are_alike_where_nothing_is_known() -> None:
    people = tacit.users({"ann": ["you " * 5000]}, vocabulary=["you"])
    assert predicted_sizes(people, np.array([0]), SHAPE).tolist() == [20 * 8 * 10]
    assert predicted_sizes(ListUsers([[], [[4]]]), np.arange(2), SHAPE).tolist() == [1, 1]
    assert predicted_sizes(ListUsers([[]], images=True), np.arange(1), ImageBatches(2, 2)).tolist() == [1]
