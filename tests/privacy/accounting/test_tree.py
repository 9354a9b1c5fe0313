"""The tree's sensitivity: the definition on every small case, Gboard's rows, the gap's two readings, and speed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.tree import _ways, sensitivity_squared
from tacit.privacy.participation.limits import Gap, most_participations
from tests.support.tree_nodes import nodes, patterns


def by_definition(rounds: int, between: int, most: int, restarts: tuple[int, ...] = ()) -> int:
    """The largest sum of squares over all patterns of participation, one by one."""
    tree = list(nodes(rounds, restarts))
    return max(
        sum(sum(each in node for each in pattern) ** 2 for node in tree) for pattern in patterns(rounds, between, most)
    )


@pytest.mark.parametrize("rounds", range(1, 11))
def test_equals_the_definition_on_every_small_case(rounds: int) -> None:
    for between in range(rounds):
        for most in range(1, rounds // (between + 1) + 2):
            for restarts in {(), (rounds // 2,), (1,), (rounds // 3, rounds // 2 + 1)}:
                inside = tuple(sorted({each for each in restarts if 0 < each < rounds}))
                found = sensitivity_squared(rounds, Gap(between), most, inside)
                assert found == by_definition(rounds, between, most, inside), (between, most, inside)


def test_equals_the_definition_on_larger_trees_with_room_for_few() -> None:
    choose = random.Random(5)
    for _ in range(60):
        rounds = choose.randint(11, 40)
        between, most = choose.randint(rounds // 8, rounds // 2), choose.randint(1, 5)
        restarts = tuple(sorted(choose.sample(range(1, rounds), choose.randint(0, 2))))
        found = sensitivity_squared(rounds, Gap(between), most, restarts)
        assert found == by_definition(rounds, between, most, restarts), (rounds, between, most, restarts)


def test_one_participation_costs_the_path_to_the_root() -> None:
    for height in range(12):
        assert sensitivity_squared(1 << height, Gap(0), 1) == height + 1


def test_not_completed_means_only_nodes_that_ended_count() -> None:
    """Seven rounds are trees of four, two and one: nobody pays for the root of eight."""
    assert sensitivity_squared(7, Gap(0), 1) == 3
    assert sensitivity_squared(8, Gap(0), 1) == 4


def test_the_gap_holds_across_a_restart() -> None:
    """With six rounds between, a user in the first tree of eight is in the second one once at most."""
    assert sensitivity_squared(16, Gap(6), 2, restarts=[8]) == by_definition(16, 6, 2, (8,)) == 10
    assert sensitivity_squared(9, Gap(8), 2, restarts=[8]) == 4
    assert sensitivity_squared(9, Gap(7), 2, restarts=[8]) == 5


def test_a_restart_at_round_zero_is_none() -> None:
    assert sensitivity_squared(20, Gap(3), 4, restarts=[0]) == sensitivity_squared(20, Gap(3), 4)
    with pytest.raises(ValueError, match="restarts within"):
        sensitivity_squared(20, Gap(3), 4, restarts=[21])


def test_min_separation_counts_the_rounds_strictly_between() -> None:
    """The off-by-one between Gboard's MinS and the difference of round numbers.

    A user in rounds 0 and 4 has three rounds between. Five rounds have room for both with MinS 3, not with MinS 4.
    """
    assert Gap(3).index_difference == 4
    assert Gap.of_index_difference(4) == Gap(3)
    assert sensitivity_squared(5, Gap(3), 2) == 4
    assert sensitivity_squared(5, Gap(4), 2) == 3
    assert gaussian.sensitivity_squared(5, Gap(3), 9) == 2
    assert gaussian.sensitivity_squared(5, Gap(4), 9) == 1
    assert most_participations(9, Gap(3), 9) == 3
    assert (sensitivity_squared(1290, Gap(170), 6), sensitivity_squared(1290, Gap(169), 6)) == (
        112,
        116,
    )  # Gboard's en-IN
    with pytest.raises(ValueError, match="at least 0"):
        Gap(-1)


@pytest.mark.parametrize(("between", "most"), [(0, 4_000), (4, 4_000), (20, 4_000), (99, 40), (370, 7), (1_500, 3)])
def test_four_thousand_rounds_are_within_reach(between: int, most: int) -> None:
    """benchmarks/cold_start.py has the seconds; a search that is not pruned would not come to an end."""
    paths = most_participations(4_000, Gap(between), most)
    assert paths * 12 <= sensitivity_squared(4_000, Gap(between), most) <= paths**2 * 12


def test_a_sparse_table_and_a_dense_one_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    dense = sensitivity_squared(700, Gap(30), 9)
    monkeypatch.setattr("tacit.privacy.accounting.tree._MOST_CELLS", 0)
    monkeypatch.setattr("tacit.privacy.accounting.tree._PAIRS_AT_ONCE", 7)
    assert sensitivity_squared(700, Gap(30), 9) == dense


@pytest.mark.parametrize("height", range(1, 5))
def test_the_ways_through_a_block_are_all_there_and_none_is_invented(height: int) -> None:
    """For every bound on the first participation and on the last one: the best value there is, pattern by pattern."""
    size = 1 << height
    tree = list(nodes(size, ()))
    for d in range(1, size):
        best: dict[tuple[int, int, int], int] = {}
        for pattern in patterns(size, d - 1, size):
            if pattern:
                key = (len(pattern), min(pattern[0], d - 1), max(pattern[-1], size - d))
                best[key] = max(best.get(key, 0), sum(sum(each in node for each in pattern) ** 2 for node in tree))
        ways = _ways(height, d, size)[height]
        for count in range(1, -(-size // d) + 1):
            of_count = ways[ways.count == count]
            for start in range(d):
                ends = np.maximum(start + (count - 1) * d, of_count.end)
                for last in range(size - d, size):
                    fitting = [value for (n, s, e), value in best.items() if n == count and s >= start and e <= last]
                    found = of_count.value[(of_count.latest >= start) & (ends <= last)]
                    assert found.max(initial=0) == max(fitting, default=0), (d, count, start, last)
