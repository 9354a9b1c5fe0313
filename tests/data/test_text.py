from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.data.text import END, cut, has_token, tokenize, tokenize_many


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Don't stop, now!", ["don't", "stop", ",", "now", "!"]),
        ("don’t", ["don't"]),
        ("'tis dogs' 'quoted'", ["tis", "dogs", "quoted"]),
        ("well-known; e.g. 3:15?", ["well", "-", "known", ";", "e", ".", "g", ".", "3", ":", "15", "?"]),
        ("Señorías ÉTÉ e\N{COMBINING ACUTE ACCENT}te", ["señorías", "été", "éte"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("snake_case <url> (x) * 😀", ["snake", "case", "url", "x"]),
        ("a\nb\tc", ["a", "b", "c"]),
        (" ** ", []),
        ("", []),
    ],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens
    assert has_token(text) == bool(tokens)


@given(st.lists(st.text(), max_size=5))
def test_many_texts_in_one_pass_are_the_texts_one_by_one(texts: list[str]) -> None:
    assert tokenize_many(texts) == [token for text in texts for token in [*tokenize(text), END]]


@given(st.text(), st.integers(0, 5))
def test_cut_keeps_the_first_tokens(text: str, most: int) -> None:
    assert tokenize(cut(text, most)) == tokenize(text)[:most]


def test_cut_leaves_a_short_text_alone() -> None:
    assert cut("Hello,  World \N{RIGHT SINGLE QUOTATION MARK} ", 3) == "Hello,  World \N{RIGHT SINGLE QUOTATION MARK} "
    assert cut("Hello,  World ", 2) == "Hello,"
