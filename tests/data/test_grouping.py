from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.data.build import new_key
from tacit.data.grouping import Grouping

ROWS = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", "cat", "dan"]), st.binary(max_size=5)), min_size=1, max_size=30
)


def grouped(
    folder: Path, rows: list[tuple[str, bytes]], *, partitions: int = 4, most: int | None = None, **options: int
):
    """The users' rows with their labels (the row's number), in the order they come out, and their pseudonyms."""
    grouping = Grouping(
        folder / "spill", new_key(), partitions=partitions, buffered_bytes=options.get("buffered_bytes", 1 << 20)
    )
    for start in range(0, len(rows), 3):
        some = rows[start : start + 3]
        grouping.add([user for user, _ in some], [payload for _, payload in some], range(start, start + len(some)))
    result = grouping.group(None if most is None else lambda payloads: islice(payloads, most))
    users, names = [], []
    for block in result.blocks(block_bytes=options.get("block_bytes", 1 << 20)):
        ends = np.cumsum(block.lengths)
        payloads = [block.payloads[end - size : end].tobytes() for end, size in zip(ends, block.lengths, strict=True)]
        pairs = list(zip(payloads, block.labels.tolist(), strict=True))
        for count in block.row_counts:
            users.append(pairs[:count])
            pairs = pairs[count:]
        names.extend(block.pseudonyms.tolist())
    assert len(result) == len(users)
    result.discard()
    assert not (folder / "spill").exists()
    return users, names


def expected(rows: list[tuple[str, bytes]], most: int | None = None) -> list[list[tuple[bytes, int]]]:
    by_user: dict[str, list[tuple[bytes, int]]] = {}
    for label, (user, payload) in enumerate(rows):
        by_user.setdefault(user, []).append((payload, label))
    return [pairs[:most] for pairs in by_user.values()]


@settings(max_examples=40)
@given(ROWS, st.sampled_from([1, 3, 16]), st.sampled_from([1, 1 << 20]), st.sampled_from([None, 1, 2]))
def test_scattered_rows_come_back_by_user_in_order_of_appearance(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, bytes]],
    partitions: int,
    size: int,
    most: int | None,
) -> None:
    folder = tmp_path_factory.mktemp("grouping")
    users, _ = grouped(folder, rows, partitions=partitions, buffered_bytes=size, block_bytes=max(size, 4), most=most)
    assert users == expected(rows, most)


def test_pseudonyms_differ_between_users_and_between_imports(tmp_path: Path) -> None:
    rows = [("ann", b"x"), ("bob", b"y")]
    _, first = grouped(tmp_path, rows)
    _, second = grouped(tmp_path, rows)
    assert len({tuple(name) for name in [*first, *second]}) == 4
