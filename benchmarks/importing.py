"""Speed of `tacit data import` on text: tokens a second, and the ratio to an import that goes text by text. One JSON line.

    python benchmarks/importing.py                                        made-up text, 4 million tokens
    python benchmarks/importing.py --file people.jsonl.gz --user user --text sentences

Both imports read the same JSON lines in the same process, each in a process of its own for its memory, and their stores must
be equal byte for byte. The straightforward import matches a pattern and looks every word up in a dictionary, text by text,
and groups by user in a dictionary in memory. `processor` is the ratio of the processor time of both, which other work on the
machine hardly moves; `wall` that of the time that passed, to which the cores contribute.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tacit.data.build import pseudonym
from tacit.data.formats import ReadOptions, read
from tacit.data.importing import import_text
from tacit.data.sources import TextSource
from tacit.data.text import tokenize
from tacit.data.vocabulary import Vocabulary, count_vocabulary, load_vocabulary, public_corpus
from tacit.data.worlds import KeyboardWorld

KEY = b"k" * 32
ARRAYS = ("items", "example_offsets", "user_offsets", "users", "texts", "text_offsets")


def source_of(arguments: argparse.Namespace, file: Path) -> TextSource:
    found = read(file, ReadOptions(user=arguments.user, text=arguments.text))
    assert isinstance(found, TextSource)
    return found


def straightforward(source: TextSource, out: Path, vocabulary: Vocabulary) -> None:
    """Text by text, everything in memory."""
    by_user: dict[str, list[str]] = {}
    for _, user, text in source.rows:
        if tokenize(text):
            by_user.setdefault(user, []).append(text)
    items, texts, names = [], [], []
    example_offsets, text_offsets, user_offsets = [0], [0], [0]
    for user, of_user in by_user.items():
        names.append(pseudonym(user.encode(), KEY))
        for text in of_user:
            items.append(vocabulary.encode(tokenize(text)))
            texts.append(text.encode())
            example_offsets.append(example_offsets[-1] + len(items[-1]))
            text_offsets.append(text_offsets[-1] + len(texts[-1]))
        user_offsets.append(len(texts))
    out.mkdir()
    np.concatenate(items).tofile(out / "items.bin")
    (out / "texts.bin").write_bytes(b"".join(texts))
    (out / "users.bin").write_bytes(b"".join(names))
    for name, offsets in (("example", example_offsets), ("text", text_offsets), ("user", user_offsets)):
        np.array(offsets, "<i8").tofile(out / f"{name}_offsets.bin")


def ours(source: TextSource, out: Path, vocabulary: Vocabulary) -> None:
    import_text([source], out, vocabulary=vocabulary, key=KEY)


def measured(
    work: Callable[..., None], arguments: argparse.Namespace, file: Path, out: Path, words: Path
) -> list[float]:
    """Seconds on the wall, seconds of processors and peak memory in MB of one import in a new process."""
    context = multiprocessing.get_context("spawn")
    answer = context.SimpleQueue()
    process = context.Process(target=_measure, args=(answer, work, arguments, file, out, words))
    process.start()
    found: list[float] = answer.get()
    process.join()
    return found


def _measure(
    answer: multiprocessing.SimpleQueue[list[float]],
    work: Callable[..., None],
    arguments: argparse.Namespace,
    file: Path,
    out: Path,
    words: Path,
) -> None:
    vocabulary = load_vocabulary(words)
    wall, processor = time.perf_counter(), time.process_time()
    work(source_of(arguments, file), out, vocabulary)
    took = [time.perf_counter() - wall, time.process_time() - processor]
    answer.put([*took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024])


def made_up(file: Path, tokens: int) -> None:
    """Sentences of people of the keyboard world, a person a line, until there are so many tokens."""
    world, written, person = KeyboardWorld(1, 1_000_000, vocabulary_size=5_000), 0, 0
    with file.open("w") as lines:
        while written < tokens:
            sentences = world.sentences(person)
            written += sum(sentence.count(" ") + 1 for sentence in sentences)
            lines.write(json.dumps({"user": f"person {person}", "sentences": sentences}) + "\n")
            person += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--user", default="user")
    parser.add_argument("--text", default="sentences")
    parser.add_argument("--tokens", type=int, default=4_000_000, help="of made-up text")
    parser.add_argument(
        "--repeats", type=int, default=3, help="imports of each kind, alternating; the best of each counts"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        file = arguments.file or here / "people.jsonl"
        if arguments.file is None:
            made_up(file, arguments.tokens)
        some = (text for place, _, text in source_of(arguments, file).rows if place % 4 == 1)
        count_vocabulary(some, size=10_000, provenance=public_corpus("a part of it")).save(here / "words.txt")
        plain, fast = [], []
        for turn in range(arguments.repeats):
            plain.append(measured(straightforward, arguments, file, here / f"plain{turn}", here / "words.txt"))
            fast.append(measured(ours, arguments, file, here / f"fast{turn}", here / "words.txt"))
        same = all(_read(here / "plain0", name) == _read(here / "fast0", name) for name in ARRAYS)
        tokens = os.path.getsize(here / "fast0" / "items.bin") // 2
    slow_wall, slow_processor, slow_memory = np.min(plain, axis=0)
    wall, processor, memory = np.min(fast, axis=0)
    found = {
        "tokens": tokens,
        "same_bytes": same,
        "seconds": round(wall, 2),
        "processor_seconds": round(processor, 2),
        "tokens_a_second": round(tokens / wall),
        "wall": round(slow_wall / wall, 2),
        "processor": round(slow_processor / processor, 2),
        "peak_mb": round(memory),
        "straightforward_peak_mb": round(slow_memory),
        "cores": len(os.sched_getaffinity(0)),
    }
    print(json.dumps(found))


def _read(folder: Path, name: str) -> bytes:
    return (folder / f"{name}.bin").read_bytes()


if __name__ == "__main__":
    main()
