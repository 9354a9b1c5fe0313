"""The three text files that define the keyboard world, read into slots, lines and spellings as text.

The files explain their own notation at their head: `words.txt` what fills a slot, `sentences.txt` the lines of every
topic and the openers and closers around them, `spellings.txt` how each style of writer spells a word.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from dataclasses import dataclass, field
from importlib import resources

import numpy as np

from tacit.data.worlds import randomness

STYLES = ("tidy", "relaxed", "texter", "chatty")
STYLE_SHARES = np.array([0.35, 0.35, 0.15, 0.15])
KINDS = (".", "?", "!")

# A line belongs to a stage of the sentence: 0 the opener, 1 the core, 2 + k the closer of kind k. After END comes nothing.
OPENER, CORE, CLOSER = 0, 1, 2
END = CLOSER + len(KINDS)

Weighted = list[tuple[str, float]]


def text(file: str) -> str:
    """One of the definition files, as it ships."""
    return resources.files("tacit.data.worlds").joinpath(file).read_text(encoding="utf-8")


@dataclass
class Slot:
    """What may fill a slot, with the chance of each, and how often a user takes a favourite instead."""

    fillers: Weighted
    personal: float


@dataclass
class LineTable:
    """Lines as text, with the chance of each: by style for openers and closers, within the topic for cores."""

    text: list[str] = field(default_factory=list)
    stage: list[int] = field(default_factory=list)
    follow: list[int] = field(default_factory=list)
    topic: list[int] = field(default_factory=list)
    weights: list[list[float]] = field(default_factory=list)
    topics: dict[str, float] = field(default_factory=dict)


def _sections(source: str) -> list[tuple[str, list[str]]]:
    """[(heading without brackets, its lines)], comments left out."""
    sections: list[tuple[str, list[str]]] = []
    for line in source.splitlines():
        if line.startswith("["):
            sections.append((line.strip("[]"), []))
        elif line.strip() and not line.startswith("#"):
            sections[-1][1].append(line.strip())
    return sections


def _zipf(count: int, exponent: float, shift: float) -> list[float]:
    weights = (np.arange(count) + shift) ** -exponent
    return list(weights / weights.sum())


def read_slots(source: str) -> dict[str, Slot]:
    """The slots of `words.txt` by name."""
    slots: dict[str, Slot] = {}

    def parts(listing: str, exponent: float) -> Weighted:
        """Entries of one comma-separated list; "=slot*3" stands for that slot's entries with three times the weight."""
        entries = [entry.strip() for entry in listing.split(",") if entry.strip()]
        merged: dict[str, float] = defaultdict(float)
        for entry, weight in zip(entries, _zipf(len(entries), exponent, 2.0), strict=True):
            reference = re.search(r"=(\w+)(?:\*(\d+))?", entry)
            if reference is None:
                merged[entry] += weight
                continue
            for filler, share in slots[reference[1]].fillers:
                merged[entry.replace(reference[0], filler)] += weight * share * float(reference[2] or 1)
        total = sum(merged.values())
        return [(entry, weight / total) for entry, weight in merged.items()]

    for heading, lines in _sections(source):
        slot, *settings = heading.split()
        options = dict(setting.split("=") for setting in settings)
        exponent = float(options.get("zipf", 0.8))
        if "same" in options:
            fillers = slots[options["same"]].fillers
        elif "join" in options or "phrase" in options:
            glue, count = ("", options["join"]) if "join" in options else (" ", options["phrase"])
            # A product's part may be long: it runs on until a line that does not end in a comma.
            rows = [row for row in re.split(r"(?<!,)\n", "\n".join(lines)) if row]
            columns = [parts(row, 0.0) for row in rows]
            entries = _combinations(columns, glue, int(count))
            fillers = list(zip(entries, _zipf(len(entries), exponent, 3.0), strict=True))
        else:
            fillers = parts(" ".join(lines), exponent)
        slots[slot] = Slot(fillers, float(options.get("personal", 0.0)))
    return slots


def _combinations(columns: list[Weighted], glue: str, count: int) -> list[str]:
    """The first `count` different entries of a fixed sequence of draws, one part from each column."""
    choices = randomness.Choices([np.array([weight for _, weight in column]) for column in columns])
    draws = np.arange(40 * count)
    picked = [choices.draw(np.full(len(draws), c), randomness.uniform(7, c, draws)) for c in range(len(columns))]
    entries: dict[str, None] = {}
    for picks in zip(*(p - choices.starts[c] for c, p in enumerate(picked)), strict=True):
        chosen = [column[pick][0] for column, pick in zip(columns, picks, strict=True)]
        if len(set(chosen)) == len(chosen):
            entries[glue.join(chosen)] = None
        if len(entries) == count:
            break
    return list(entries)


def read_lines(source: str) -> LineTable:
    """The lines of `sentences.txt`, alternatives written out."""
    lines = LineTable()
    for heading, rows in _sections(source):
        first, *rest = heading.split()
        if first in ("opener", "closer"):
            for row in rows:
                shares, _, words = row.partition("|")
                lines.text.append(words.strip())
                lines.stage.append(OPENER if first == "opener" else CLOSER + KINDS.index(rest[0]))
                lines.follow.append(CORE if first == "opener" else END)
                lines.topic.append(-1)
                lines.weights.append([float(share) for share in shares.split()])
            continue
        topic = len(lines.topics)
        lines.topics[first] = float(rest[0])
        for row, weight in zip(rows, _zipf(len(rows), 0.5, 4.0), strict=True):
            variants = _alternatives(row)
            for variant in variants:
                lines.text.append(variant[:-1].strip())
                lines.stage.append(CORE)
                lines.follow.append(CLOSER + KINDS.index(variant[-1]))
                lines.topic.append(topic)
                lines.weights.append([weight / len(variants)] * len(STYLES))
    return lines


def _alternatives(row: str) -> list[str]:
    """ "a (b|c|) d" written out: "a b d", "a c d", "a d"."""
    pieces = re.split(r"\(([^)]*)\)", row)
    options = [piece.split("|") if index % 2 else [piece] for index, piece in enumerate(pieces)]
    return [" ".join("".join(choice).split()) for choice in itertools.product(*options)]


def read_spellings(source: str) -> dict[str, list[tuple[str, list[float]]]]:
    """The words of `spellings.txt`: for each its variants and their weight with each style."""
    listed: dict[str, list[tuple[str, list[float]]]] = {}
    width = 1 + len(STYLES)
    for row in source.splitlines():
        if row.strip() and not row.startswith("#"):
            word, *cells = row.split()
            variants = [cells[start : start + width] for start in range(0, len(cells), width)]
            listed[word] = [(variant[0], [float(share) for share in variant[1:]]) for variant in variants]
    return listed
