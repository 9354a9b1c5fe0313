from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tacit.data import vocabulary as module
from tacit.data.users import FIRST_WORD, OOV
from tacit.data.vocabulary import PRIVATE, Vocabulary, count_vocabulary, load_vocabulary, public_corpus, word_list
from tacit.errors import DataError

TEXTS = ["b a, a", "d a b", "c"]


def test_the_most_frequent_words_with_ties_in_alphabetical_order() -> None:
    made = count_vocabulary(TEXTS, size=FIRST_WORD + 4, provenance=PRIVATE)
    assert made.words == ("a", "b", ",", "c")
    assert len(made) == FIRST_WORD + 4


def test_ids_begin_after_the_reserved_entries_and_unknown_words_are_oov() -> None:
    made = Vocabulary(("the", "cat"), PRIVATE)
    ids = made.encode(["cat", "dog", "the"])
    assert ids.tolist() == [FIRST_WORD + 1, OOV, FIRST_WORD]
    assert ids.dtype == np.uint16
    assert made.decode([0, 1, 2, 3, FIRST_WORD]) == ["<pad>", "<bos>", "<eos>", "<oov>", "the"]


def test_texts_are_encoded_together_with_their_lengths() -> None:
    ids, lengths = Vocabulary(("the", "cat"), PRIVATE).encode_texts(["The cat\ncat", "*", "dog the"])
    assert ids.tolist() == [4, 5, 5, OOV, 4]
    assert lengths.tolist() == [3, 0, 2]


def test_a_large_vocabulary_needs_wider_ids() -> None:
    assert Vocabulary(tuple(map(str, range(65_531))), PRIVATE).dtype == np.uint16
    made = Vocabulary(tuple(map(str, range(65_532))), PRIVATE)
    assert made.dtype == np.uint32
    assert made.encode_texts(["65531"])[0].tolist() == [65_535]


@pytest.mark.parametrize("size", [-1, 0, FIRST_WORD])
def test_a_vocabulary_without_room_for_a_word_is_refused(size: int) -> None:
    with pytest.raises(DataError, match=f"at least {FIRST_WORD + 1} .*got {size}"):
        count_vocabulary(TEXTS, size=size, provenance=PRIVATE)


def test_only_named_public_sources_are_public() -> None:
    assert Vocabulary(("a",), public_corpus("Wikipedia")).is_public
    assert Vocabulary(("a",), word_list("list.txt")).is_public
    assert not Vocabulary(("a",), PRIVATE).is_public
    assert not Vocabulary(("a",), "who knows").is_public
    with pytest.raises(DataError, match="empty"):
        public_corpus(" ")


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    made = Vocabulary(("don't", "été", "."), public_corpus("Wikipedia"))
    made.save(tmp_path / "v")
    loaded = load_vocabulary(tmp_path / "v")
    assert loaded == made
    assert loaded.fingerprint == made.fingerprint
    assert load_vocabulary(tmp_path / "v", size=FIRST_WORD + 1).words == ("don't",)


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    Vocabulary(("one", "two"), PRIVATE).save(tmp_path / "v")
    text = (tmp_path / "v").read_text()
    (tmp_path / "v").write_text(text.replace("two", "six"))
    with pytest.raises(DataError, match="damaged"):
        load_vocabulary(tmp_path / "v")
    (tmp_path / "v").write_text(text.replace('"version"', "version"))
    with pytest.raises(DataError, match="first line"):
        load_vocabulary(tmp_path / "v")


def test_a_plain_word_list_is_public_and_normalised(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("The\r\ncat\n\nTHE\n***\n")
    assert load_vocabulary(path) == Vocabulary(("the", "cat"), word_list("list.txt"))
    path.write_text("the\nnew york\n")
    with pytest.raises(DataError, match=r"Line 2 .* 2 words"):
        load_vocabulary(path)
    path.write_text("\n")
    with pytest.raises(DataError, match="no word"):
        load_vocabulary(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="UTF-8"):
        load_vocabulary(path)
    with pytest.raises(DataError, match="no vocabulary file"):
        load_vocabulary(tmp_path / "missing")


def test_counting_forgets_the_rarest_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_COUNTED", 10)
    monkeypatch.setattr(module, "_BLOCK", 4)
    texts = (f"often rare{i}" for i in range(1000))
    words = count_vocabulary(texts, size=1000, provenance=PRIVATE).words
    assert words[0] == "often"
    assert len(words) <= 10
