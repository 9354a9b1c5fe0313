"""The texts of a store, read again: counted user by user, and encoded with other words as an import would encode them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tacit.data.build import save_users
from tacit.data.encoding import Encoded, require_texts, word_counts
from tacit.data.store import open_store
from tacit.data.text import tokenize
from tacit.data.users import all_names
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.errors import DataError
from tests.support.chats import LISTED, chat, write_chat
from tests.support.list_users import ListUsers
from tests.support.store_keys import KEY

OTHER = ("lol", "dog", "own001", "the")


def test_encoding_is_what_an_import_with_these_words_makes(tmp_path: Path) -> None:
    wrote = chat() | {"person x": ["two\nlines, don't", "Ünïcode ÜNÏCODE"], "person y": ["...", "the"]}
    store, wanted = write_chat(tmp_path / "a", wrote), write_chat(tmp_path / "b", wrote, words=OTHER)
    found = Encoded(store, Vocabulary(OTHER, word_list("other")))
    everybody = np.arange(len(wanted))
    assert len(found) == len(wanted)
    for some in (everybody, everybody[::-3].copy(), everybody[:0]):
        one, two = found.gather(some), wanted.gather(some)
        assert one.items.dtype == two.items.dtype
        for name in ("items", "example_offsets", "user_offsets"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
        np.testing.assert_array_equal(found.texts(some).items, store.texts(some).items)
    np.testing.assert_array_equal(all_names(found), all_names(wanted))
    np.testing.assert_array_equal(found.held_out_users(), wanted.held_out_users())
    assert len(found.held_out_users()) > 5
    assert found.store_id == store.store_id != wanted.store_id


def test_words_are_counted_user_by_user(tmp_path: Path) -> None:
    wrote = {"a": ["The cat, the CAT", "cat"], "b": ["one\ntwo"], "c": ["don't"]}
    store = write_chat(tmp_path / "store", wrote, held_out=0.0)
    counts = list(word_counts(store, np.arange(len(store))))
    wanted = [Counter(word for text in texts for word in tokenize(text)) for texts in wrote.values()]
    assert sorted(map(repr, map(sorted, counts))) == sorted(map(repr, map(sorted, wanted)))
    assert sum(counts, Counter()) == sum(wanted, Counter())
    assert list(word_counts(store, np.array([1]))) == counts[1:2]
    assert all("\n" not in each for each in counts)


def test_a_store_without_texts_is_refused(tmp_path: Path) -> None:
    words = Vocabulary(LISTED, word_list("listed"))
    save_users(ListUsers([[[4, 5]]] * 8), tmp_path / "store", source="test", vocabulary=words, key=KEY)
    with pytest.raises(DataError, match=r"Expected a store of texts, got .*, which keeps none"):
        require_texts(open_store(tmp_path / "store"))
