"""Rows: every prediction of every sentence exactly once, in both layouts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tacit.data.rows import pack, to_rows
from tacit.data.users import BOS, EOS, PAD
from tests.support.list_users import ListUsers

users = st.lists(st.lists(st.lists(st.integers(3, 50), max_size=7), max_size=5), max_size=5)


@given(users=users, length=st.integers(1, 6))
def test_windows_rejoin_to_the_stream(users, length):
    rows = to_rows(ListUsers(users).gather(np.arange(len(users))), layout="windows", length=length, max_rows=10_000)
    assert rows.tokens.shape[1] == length + 1
    for user, sentences in enumerate(users):
        stream = [token for sentence in sentences for token in [BOS, *sentence, EOS]]
        own = rows.tokens[rows.user_offsets[user] : rows.user_offsets[user + 1]]
        rejoined = [row[0] for row in own[:1]] + [token for row in own for token in row[1:] if token != PAD]
        assert rejoined == stream
        assert rows.predictions()[user] == sum(token != BOS for token in stream[1:])


@given(users=users, length=st.integers(1, 6))
def test_sentences_keep_one_row_each(users, length):
    rows = to_rows(ListUsers(users).gather(np.arange(len(users))), layout="sentences", length=length, max_rows=10_000)
    for user, sentences in enumerate(users):
        own = rows.tokens[rows.user_offsets[user] : rows.user_offsets[user + 1]]
        expected = [[BOS, *sentence, EOS][: length + 1] for sentence in sentences]
        assert [[token for token in row if token != PAD] for row in own.tolist()] == expected


@given(users=users, cap=st.integers(1, 3))
def test_caps_keep_the_first_rows(users, cap):
    examples = ListUsers(users).gather(np.arange(len(users)))
    for layout in ("windows", "sentences"):
        whole, capped = (to_rows(examples, layout=layout, length=3, max_rows=n) for n in (10_000, cap))
        assert (capped.sizes() == np.minimum(whole.sizes(), cap)).all()


def test_packing_pads_short_users():
    rows = to_rows(
        ListUsers([[[5, 6]], [], [[7], [8], [9]]]).gather(np.arange(3)), layout="sentences", length=3, max_rows=9
    )
    packed = pack(rows, np.array([2, 1, 0]), batch_size=2, steps=2)
    assert packed.shape == (3, 2, 2, 4)
    assert packed[0].reshape(-1, 4)[:3, 1].tolist() == [7, 8, 9]
    assert (packed[1] == PAD).all()
    assert packed[2, 0, 0].tolist() == [BOS, 5, 6, EOS]
    assert (packed[2, 1] == PAD).all()
