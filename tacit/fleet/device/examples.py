"""The device's own text, as batches for a compiled plan. Rows and padding are exactly as in simulation (`tacit.data.rows`)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import offsets_of
from tacit.data.rows import pack, to_rows
from tacit.data.spelling import Spelling
from tacit.data.text import END, has_token, tokenize_many
from tacit.data.users import Examples
from tacit.data.vocabulary import Vocabulary
from tacit.errors import DataError
from tacit.files import write_atomic
from tacit.fleet.wire.task import DeviceTask


@dataclass(frozen=True)
class Batches:
    """One user's tokens [steps, rows, length + 1], the number of steps with any rows, and the number of predictions."""

    tokens: NDArray[np.int32]
    steps: int
    predictions: int


def copy_sentences(source: Path, into: Path) -> int:
    """Copy sentences from a text file (one a line) or a .jsonl file (objects with "text"); returns how many."""
    try:
        lines = source.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"The file {source} is not UTF-8 text.") from None
    except OSError as error:
        raise DataError(f"Cannot read the sentences in {source}: {error.strerror}.") from None
    sentences = [_text(line, source, number) for number, line in enumerate(lines, 1) if line.strip()]
    kept = [sentence for sentence in sentences if has_token(sentence)]
    if not kept:
        raise DataError(f"Expected at least one sentence in {source}, got none.")
    content = "".join(json.dumps({"text": sentence}, ensure_ascii=False) + "\n" for sentence in kept)
    write_atomic(into, content, mode=0o600)
    return len(kept)


def load(path: Path) -> list[str]:
    """The sentences that `copy_sentences` wrote."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [_text(line, path, number, as_json=True) for number, line in enumerate(lines, 1) if line]


def batches_of(sentences: list[str], vocabulary: Vocabulary, task: DeviceTask) -> Batches:
    """The batches that the task's plan reads: of words, or of letters where words are looked for. Rows beyond the task's size
    are left out."""
    if task.letters is None:
        ids, lengths = vocabulary.encode_texts(sentences)
        examples = Examples(ids, offsets_of(lengths), np.array([0, len(sentences)]))
    else:
        counts = Counter(token for token in tokenize_many(sentences) if token != END)
        known, terms = frozenset(vocabulary.words), task.letters
        examples = Spelling(terms.alphabet, task.length - 1, terms.most_words, known).examples([counts])
    rows = to_rows(examples, layout=task.layout, length=task.length, max_rows=task.steps * task.batch_size)
    tokens = pack(rows, np.array([0]), batch_size=task.batch_size, steps=task.steps)[0]
    return Batches(tokens, -(-int(rows.sizes()[0]) // task.batch_size), int(rows.predictions()[0]))


def _text(line: str, path: Path, number: int, *, as_json: bool = False) -> str:
    if not as_json and path.suffix != ".jsonl":
        return line
    try:
        text = json.loads(line)["text"]
    except (ValueError, KeyError, TypeError):
        text = None
    if not isinstance(text, str):
        raise DataError(f'Expected a JSON object with "text" in line {number} of {path}.')
    return text
