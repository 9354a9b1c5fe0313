"""Text to words: the one tokenizer of Tacit's word models.

A token is a word or one of ``. , ! ? ; : -``. Words are lower-cased runs of letters and digits of any script, with the
marks that belong to them and with apostrophes inside ("don't" is one word); everything else separates.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import islice

# Written into every store and vocabulary; a change of the rules below is a new number.
TOKENIZER = "words-1"

# Closes each text in `tokenize_many`. It is no token: a line break inside a text is read as a blank.
END = "\n"

# The marks that are tokens.
PUNCTUATION = "-.,!?;:"


def tokenize(text: str) -> list[str]:
    """The tokens of one text."""
    return _patterns()[0].findall(normalised(text))


def tokenize_many(texts: Iterable[str]) -> list[str]:
    """The tokens of all texts in one list, each text closed by `END`: one pass of the pattern over many sentences."""
    return tokens_of_closed(closed(texts))


def closed(texts: Iterable[str]) -> str:
    """All texts in one, each closed by `END`."""
    return "".join([text.replace(END, " ") + END for text in texts])


def tokens_of_closed(texts: str) -> list[str]:
    """The tokens of texts that `closed` has joined, `END` among them. `tacit.data.token_arrays` has them sooner."""
    return _patterns()[1].findall(normalised(texts))


def normalised(text: str) -> str:
    """Composed characters, straight apostrophes and small letters, so that one word has one spelling."""
    return composed(text).lower()


def has_token(text: str) -> bool:
    """Whether the text has any token."""
    return _patterns()[0].search(composed(text)) is not None


def cut(text: str, tokens: int) -> str:
    """The beginning of the text that holds its first `tokens` tokens; the text itself if it has no more."""
    plain = composed(text)
    matches = list(islice(_patterns()[0].finditer(plain), tokens + 1))
    if len(matches) <= tokens:
        return text
    return plain[: matches[tokens - 1].end()] if tokens > 0 else ""


def composed(text: str) -> str:
    """Composed characters and straight apostrophes."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The pattern of a token, and the same with `END` as one more token."""
    letter = r"[^\W_]"
    word = f"{letter}+(?:[{_marks()}]+{letter}*)*"
    token = f"{word}(?:'{word})*|[{PUNCTUATION}]"
    return re.compile(token), re.compile(f"{token}|{END}")


def _marks() -> str:
    """The combining marks, as the inside of a pattern's class.

    The vowel signs of many scripts are no letters to `re`: without this, words would break at each. The basic plane
    holds every script in everyday use, and going through it takes a few milliseconds.
    """
    marks = [chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)).startswith("M")]
    return "".join(marks)
