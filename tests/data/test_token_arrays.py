"""Tokens by arrays are the tokens of the pattern, whatever the text holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.data import vocabulary as module
from tacit.data.text import END, closed, has_token, tokenize, tokenize_many
from tacit.data.token_arrays import TokenArrays
from tacit.data.users import FIRST_WORD, OOV
from tacit.data.vocabulary import Vocabulary, count_vocabulary, word_list

# Characters at the borders of the rules: letters, marks, both apostrophes, what lower-cases to more than one, other planes.
NASTY = (
    "aAbZ09_-.,!?;:'’ʼ \t\r\x0b\x1c\x85\u2028é\u0301\u0300\u0327\u20ddİıſ"
    "ßΣςσﬁ²½٣०\u093f\u094dहकあ한\u1100\u1161\ud7b0𝒜𐐀🙂\u200d\ufe0f\u00ad\ufeff\U000e0100\U0001e900\ud800\udfff"
)


def of_pattern(texts: list[str]) -> tuple[list[str], list[int]]:
    tokens = [tokenize(text.replace(END, " ")) for text in texts]
    return [token for each in tokens for token in each], [len(each) for each in tokens]


def of_arrays(texts: list[str]) -> tuple[list[str], list[int]]:
    found = TokenArrays.of_closed(closed(texts))
    return found.tokens.to_pylist(), found.lengths.tolist()


@given(st.lists(st.text(st.sampled_from(NASTY), max_size=12), max_size=6))
def test_nasty_texts(texts: list[str]) -> None:
    assert of_arrays(texts) == of_pattern(texts)


@given(st.lists(st.text(), max_size=5))
def test_any_texts(texts: list[str]) -> None:
    assert of_arrays(texts) == of_pattern(texts)
    assert [has_token(text) for text in texts] == [bool(tokenize(text)) for text in texts]


@pytest.mark.slow
def test_every_character_between_letters_and_alone() -> None:
    characters = [chr(code) for code in range(0x110000)]
    for pattern in ("{}", "a{}b", "a'{}", "{}'a"):
        text = closed([pattern.format(each) for each in characters])
        found = TokenArrays.of_closed(text)
        tokens, at = tokenize_many([pattern.format(each) for each in characters]), []
        for place, token in enumerate(tokens):
            if token == END:
                at.append(place)
        assert found.lengths.tolist() == (np.diff(at, prepend=-1) - 1).tolist()
        assert found.tokens.to_pylist() == [token for token in tokens if token != END]


def test_every_pair_with_a_letter_in_front_of_a_mark() -> None:
    """The quick answer of `has_token` for a text that begins with a letter."""
    for letter in "aZ0":
        for code in range(0x20, 0x10000, 7):
            assert has_token(letter + chr(code))
            assert tokenize(letter + chr(code))


@pytest.mark.parametrize("texts", [[], [""], ["", "  ", "***"], ["x" * 1_000_000], ["a " * 300_000, "", "don’t " * 10]])
def test_lengths_of_all_kinds(texts: list[str]) -> None:
    assert of_arrays(texts) == of_pattern(texts)


@pytest.mark.parametrize("words", [("a", "don't", "é", "𐐨", ","), ("\ud800", "", "\n", "b", "a b", "A", "a")])
def test_ids_and_counts_do_not_depend_on_the_way(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    texts = ["A don’t, b", "", "e\u0301 \U00010400\nb a'", "unknown \ud800 \u0301a"]
    vocabulary = Vocabulary(words, word_list("words"))
    slow, counted = vocabulary.encode_texts(texts), count_vocabulary(texts, size=8, provenance="x")
    monkeypatch.setattr(module, "_MANY", 0)
    fast = vocabulary.encode_texts(texts)
    assert [each.tolist() for each in fast] == [each.tolist() for each in slow]
    assert [each.dtype for each in fast] == [each.dtype for each in slow]
    assert count_vocabulary(texts, size=8, provenance="x") == counted
    assert {OOV, FIRST_WORD + words.index("a")} <= set(fast[0].tolist())
