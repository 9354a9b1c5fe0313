"""The keyboard world's public definition: the text files of definition.py, compiled into flat arrays.

    a sentence   =  opener  +  core line  +  closer               opener and closer may be empty
    a line       =  words and slots                               "see you at {place} {clock}"
    a slot       =  one of its fillers, each one or more words    "the station", "at half past six"
    a word       →  its spelling in the writer's style            "you" or "u"

Chances: the opener depends on the writer's style, the core line on the topic, the closer on the line's kind (. ? !) and
the style, the filler on the slot, the spelling on the word and the style. Nothing else depends on anything, which
is what makes the true next-word distribution computable (next_word_distribution.py).
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import offsets_of, rows_and_places
from tacit.data.worlds import definition
from tacit.data.worlds.definition import CLOSER, CORE, END, OPENER, STYLE_SHARES, STYLES, LineTable, Slot

# "an umbrella", but "a unicorn" and "a ukulele".
_VOWEL = re.compile(r"(?!uni|uk)[aeiou]")


@dataclass(frozen=True)
class Grammar:
    """The compiled definition. "Ragged" arrays x come with offsets: row i is ``x[x_at[i]:x_at[i + 1]]``.

    items: the words (≥ 0) and slots (−1 − slot) of each line. lexemes: the words of each filler; fillers of
    a slot are contiguous. spellings: the words each lexeme may be written as, with `spelling_shares` [n, styles].
    """

    words: tuple[str, ...]  # every written word, the most frequent first
    word_shares: NDArray[np.float64]  # expected occurrences of each in a sentence
    line_items: NDArray[np.int64]
    line_at: NDArray[np.int64]
    line_stage: NDArray[np.int64]
    line_next: NDArray[np.int64]  # the stage that follows
    line_shares: NDArray[np.float64]  # [lines, styles], given the stage, for a writer drawn at random
    topics: tuple[str, ...]
    topic_shares: NDArray[np.float64]
    line_topic: NDArray[np.int64]  # −1 outside the core
    topic_line_shares: NDArray[np.float64]  # of a core line, given its topic
    slots: tuple[str, ...]
    slot_at: NDArray[np.int64]  # the fillers of each slot
    slot_base: NDArray[np.int64]  # {a dish} and {dish} share the favourites of dish
    slot_personal: NDArray[np.float64]
    filler_shares: NDArray[np.float64]
    filler_lexemes: NDArray[np.int64]
    filler_at: NDArray[np.int64]
    spelling_words: NDArray[np.int64]
    spelling_shares: NDArray[np.float64]
    spelling_at: NDArray[np.int64]


@cache
def english() -> Grammar:
    """The grammar that ships with Tacit, the same in every world whatever its seed."""
    return _compile(
        definition.read_slots(definition.text("words.txt")),
        definition.read_lines(definition.text("sentences.txt")),
        definition.read_spellings(definition.text("spellings.txt")),
    )


def _derived(slot: str, slots: dict[str, Slot]) -> tuple[str, list[str]]:
    """The base of a slot as written in a line, and its fillers: "a x" puts an article first, "x's" a possessive last."""
    base = slot.removeprefix("a ").removesuffix("'s")
    fillers = [filler for filler, _ in slots[base].fillers]
    if slot.startswith("a "):
        fillers = [f"{'an' if _VOWEL.match(filler) else 'a'} {filler}" for filler in fillers]
    if slot.endswith("'s"):
        fillers = [f"{filler}'s" for filler in fillers]
    return base, fillers


def _compile(slots: dict[str, Slot], lines: LineTable, spellings: dict[str, list[tuple[str, list[float]]]]) -> Grammar:
    lexemes: dict[str, int] = {}
    slot_names = list(slots)

    def number(word: str) -> int:
        return lexemes.setdefault(word, len(lexemes))

    def item(token: str) -> int:
        if not token.startswith("{"):
            return number(token)
        if token[1:-1] not in slot_names:
            slot_names.append(token[1:-1])
        return -1 - slot_names.index(token[1:-1])

    line_items = [[item(token) for token in re.findall(r"\{[^}]*\}|\S+", text)] for text in lines.text]
    bases, fillers = zip(*(_derived(slot, slots) for slot in slot_names), strict=True)
    filler_lexemes = [[number(word) for word in filler.split()] for of_slot in fillers for filler in of_slot]
    topic_shares = np.array(list(lines.topics.values())) / sum(lines.topics.values())
    topic = np.array(lines.topic)
    stage = np.array(lines.stage)
    weights = np.array(lines.weights)
    shares = np.where(topic[:, None] >= 0, weights * topic_shares[topic][:, None], weights)
    for each in range(END):
        shares[stage == each] /= shares[stage == each].sum(axis=0)
    spelling_at, written, spelling_shares = _spellings(lexemes, spellings)
    drafted = Grammar(
        words=(),
        word_shares=np.zeros(0),
        line_items=_flat(line_items),
        line_at=_offsets(line_items),
        line_stage=stage,
        line_next=np.array(lines.follow),
        line_shares=shares,
        topics=tuple(lines.topics),
        topic_shares=topic_shares,
        line_topic=topic,
        topic_line_shares=np.where(topic >= 0, weights[:, 0], 0.0),
        slots=tuple(slot_names),
        slot_at=_offsets(fillers),
        slot_base=np.array([slot_names.index(base) for base in bases]),
        slot_personal=np.array([slots[base].personal for base in bases]),
        filler_shares=np.array([share for base in bases for _, share in slots[base].fillers]),
        filler_lexemes=_flat(filler_lexemes),
        filler_at=_offsets(filler_lexemes),
        spelling_words=np.zeros(0, np.int64),
        spelling_shares=spelling_shares,
        spelling_at=spelling_at,
    )
    names = sorted(set(written))
    index = {word: place for place, word in enumerate(names)}
    unordered = np.array([index[word] for word in written])
    counts = _expected_counts(drafted, unordered, len(names))
    order = np.argsort(-counts, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    final = {"words": tuple(names[i] for i in order), "word_shares": counts[order], "spelling_words": rank[unordered]}
    return Grammar(**{**vars(drafted), **final})


def _flat(rows: list[list[int]]) -> NDArray[np.int64]:
    return np.array(list(itertools.chain.from_iterable(rows)), dtype=np.int64)


def _offsets(rows: list[list[int]] | tuple[list[str], ...]) -> NDArray[np.int64]:
    return offsets_of(np.array([len(row) for row in rows]))


def _spellings(
    lexemes: dict[str, int], listed: dict[str, list[tuple[str, list[float]]]]
) -> tuple[NDArray[np.int64], list[str], NDArray[np.float64]]:
    """Offsets by lexeme, the spellings, and their shares by style; a word not listed is written as it is."""
    rows = [listed.get(word, [(word, [1.0] * len(STYLES))]) for word in lexemes]
    offsets = offsets_of(np.array([len(row) for row in rows]))
    shares = np.array([share for row in rows for _, share in row])
    totals = np.add.reduceat(shares, offsets[:-1], axis=0)
    return offsets, [word for row in rows for word, _ in row], shares / np.repeat(totals, np.diff(offsets), axis=0)


def _expected_counts(grammar: Grammar, written: NDArray[np.int64], words: int) -> NDArray[np.float64]:
    """How often each word is expected in a sentence of a writer drawn at random: in closed form, nobody is counted."""
    stage_shares = np.zeros((END + 1, len(STYLES)))
    stage_shares[[OPENER, CORE]] = STYLE_SHARES
    for kind in range(CLOSER, END):
        stage_shares[kind] = STYLE_SHARES * grammar.line_shares[grammar.line_next == kind].sum(axis=0)
    per_line = grammar.line_shares * stage_shares[grammar.line_stage]  # [lines, styles]
    owners, _ = rows_and_places(np.diff(grammar.line_at))
    per_item = per_line[owners]
    lexeme_counts = np.zeros((len(grammar.spelling_at) - 1, len(STYLES)))
    literal = grammar.line_items >= 0
    np.add.at(lexeme_counts, grammar.line_items[literal], per_item[literal])
    per_slot = np.zeros((len(grammar.slots), len(STYLES)))
    np.add.at(per_slot, -1 - grammar.line_items[~literal], per_item[~literal])
    slot_of_filler, _ = rows_and_places(np.diff(grammar.slot_at))
    filler_of_lexeme, _ = rows_and_places(np.diff(grammar.filler_at))
    per_filler = per_slot[slot_of_filler] * grammar.filler_shares[:, None]
    np.add.at(lexeme_counts, grammar.filler_lexemes, per_filler[filler_of_lexeme])
    lexeme_of_spelling, _ = rows_and_places(np.diff(grammar.spelling_at))
    per_spelling = (lexeme_counts[lexeme_of_spelling] * grammar.spelling_shares).sum(axis=1)
    return np.bincount(written, per_spelling, minlength=words).astype(np.float64)
