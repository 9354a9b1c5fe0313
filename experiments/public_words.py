"""A public word list: what the package wordfreq counted on public text, most frequent first, as Tacit splits words.

    pip install wordfreq
    python experiments/public_words.py en > english.txt

Punctuation, which wordfreq does not count, comes first. Entries that Tacit splits into several words are left out.
"""

from __future__ import annotations

import sys

from tacit.data.text import tokenize

PUNCTUATION = (".", ",", "?", "!", "-", ":", ";")
MOST = 400_000


def public_words(language: str) -> list[str]:
    from wordfreq import top_n_list

    found = dict.fromkeys(PUNCTUATION)
    for entry in top_n_list(language, MOST):
        tokens = tokenize(entry)
        if len(tokens) == 1:
            found[tokens[0]] = None
    return list(found)


if __name__ == "__main__":
    print(*public_words(sys.argv[1]), sep="\n")
