"""The accuracy of a next-word model in words: the papers' metric beside the keyboard's, and what the vocabulary leaves out.

`top1` and `top3` of a run are what a keyboard shows: the word is ranked among words. `papers_top1` and `papers_top3` rank it
among all entries, reserved ones included (`tacit.learning.next_word`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PAPERS = "by the papers' metric"
# What a metric is called where its key alone would not explain it.
LABELS = {
    "papers_top1": f"{PAPERS}, top1",
    "papers_top3": f"{PAPERS}, top3",
    "out_of_vocabulary": "outside the vocabulary",
}
SHARES = ("top1", "top3", "in_vocabulary_top1", "papers_top1", "papers_top3", "out_of_vocabulary")


def papers_sentence(metrics: Mapping[str, Any]) -> str | None:
    """The accuracy by the papers' metric; None where it was not measured.

    >>> papers_sentence({"top1": 0.108, "papers_top1": 0.047, "papers_top3": 0.119})
    "By the papers' metric, 4.7% of these words are the first guess and 11.9% among the first three. It ranks a word among all \
entries, 'unknown' and the end of the sentence included, which a keyboard never suggests."
    """
    first, three = metrics.get("papers_top1"), metrics.get("papers_top3")
    if not isinstance(first, float) or not isinstance(three, float):
        return None
    return (
        f"{PAPERS.capitalize()}, {first:.1%} of these words are the first guess and {three:.1%} among the first three. It "
        "ranks a word among all entries, 'unknown' and the end of the sentence included, which a keyboard never suggests."
    )


def vocabulary_sentence(share: float | None) -> str | None:
    """What a share of words outside the vocabulary costs; None where it rounds to nothing, or where it is not known.

    >>> vocabulary_sentence(0.0551)
    "5.5% of the held-out people's words are outside the vocabulary and can never be guessed: accuracy cannot exceed 94.5%."
    >>> vocabulary_sentence(0.0)
    """
    if not isinstance(share, float) or f"{share:.1%}" == "0.0%":
        return None
    return (
        f"{share:.1%} of the held-out people's words are outside the vocabulary and can never be guessed: accuracy cannot "
        f"exceed {1 - share:.1%}."
    )


def measured_sentences(metrics: Mapping[str, Any]) -> list[str]:
    """What was measured on held-out people, a sentence each; none where it is not the accuracy of a next-word model.

    >>> print(measured_sentences({"top1": 0.26, "top3": 0.4, "words": 16381})[0])  # doctest: +NORMALIZE_WHITESPACE
    A keyboard with this model would show 26.0% of 16,381 words of held-out people as its first suggestion, and 40.0% among
    three.
    >>> measured_sentences({"accuracy": 0.9})
    []
    """
    first, three, words = metrics.get("top1"), metrics.get("top3"), metrics.get("words")
    if not isinstance(first, float) or not isinstance(three, float):
        return []
    count = f"{words:,} words" if isinstance(words, int) else "the words"
    shown = (
        f"A keyboard with this model would show {first:.1%} of {count} of held-out people as its first suggestion, and "
        f"{three:.1%} among three."
    )
    others = (papers_sentence(metrics), vocabulary_sentence(metrics.get("out_of_vocabulary")))
    return [shown, *(sentence for sentence in others if sentence is not None)]
