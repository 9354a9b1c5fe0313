"""The n-gram baseline: how long a million sentences take, how fast it replays, and its perplexity beside Kneser-Ney's.

    python benchmarks/ngram.py [--sentences 1000000] [--users 1000]
    python benchmarks/ngram.py --text FOLDER       also write the sentences as words, for another toolkit

One JSON line each for counting and estimating (with the perplexity on 200 held-out users) and for the replay. Text: the
keyboard world with its 2,000 words. --text writes train.txt and test.txt, one sentence a line, ends counted as words. On
those very files KenLM (``lmplz -o N --discount_fallback < train.txt``, interpolated modified Kneser-Ney, of kenlm 0.3.0) came
to, after a million sentences:

    order                        2       3       5     5, n-grams of 4 and 5 words that came once dropped
    KenLM                    15.82    7.04    5.73
    Katz                     15.81    7.10    6.02    5.92
    difference               -0.1%   +0.8%   +5.0%   +3.2%
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

from tacit.data.users import BOS, EOS, PAD, Examples
from tacit.data.views import Subset
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.keyboard.ngram import Katz, train_katz
from tacit.keyboard.replay import record, replay
from tacit.keyboard.taps import Keyboard

LEAST_COUNTS = (1, 1, 1, 2, 2)
TESTED = 200
BLOCK = 4096


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def text_of(world: KeyboardWorld, first: int, sentences: int) -> tuple[Examples, int]:
    """So many sentences of the users from `first` on, and the number of the user after them."""
    parts, found = [], 0
    while found < sentences:
        parts.append(world.gather(np.arange(first, first + BLOCK)))
        first, found = first + BLOCK, found + len(parts[-1].example_offsets) - 1
    items = np.concatenate([part.items for part in parts])
    lengths = np.concatenate([np.diff(part.example_offsets) for part in parts])[:sentences]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Examples(items[: offsets[-1]], offsets, np.array([0, sentences])), first


def perplexity(model: Katz, text: Examples) -> float:
    """Over all words and sentence ends."""
    lengths = np.diff(text.example_offsets)
    total, count = 0.0, 0
    state = model.read(model.begin(len(lengths)), np.full(len(lengths), BOS))
    for t in range(int(lengths.max()) + 1):
        going = lengths >= t
        at = text.example_offsets[:-1][going] + t
        ended = lengths[going] == t
        tokens = np.where(ended, EOS, text.items[np.where(ended, 0, at)])
        state = tuple(array[going] for array in state)
        total += float(model.log_probability(state, tokens).sum())
        count += len(tokens)
        state = model.read(state, tokens)
        lengths, text = (
            lengths[going],
            Examples(text.items, np.append(text.example_offsets[:-1][going], 0), text.user_offsets),
        )
    return float(np.exp(-total / count))


def write(world: KeyboardWorld, text: Examples, path: Path) -> None:
    words = np.array(world.words)
    with open(path, "w", encoding="utf-8") as file:
        for start, end in zip(text.example_offsets[:-1], text.example_offsets[1:], strict=True):
            file.write(" ".join(words[text.items[start:end]]).replace("<oov>", "unknownword") + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=1_000)
    parser.add_argument("--text", type=Path)
    options = parser.parse_args()
    world = KeyboardWorld(1, 10_000_000)
    train, after = text_of(world, 0, options.sentences)
    held_out = Subset(world, np.arange(after, after + options.users))
    test = held_out.gather(np.arange(min(TESTED, options.users)))
    if options.text is not None:
        options.text.mkdir(parents=True, exist_ok=True)
        write(world, train, options.text / "train.txt")
        write(world, test, options.text / "test.txt")
    model = None
    for order in (2, 3, 5):
        for cutoffs in [(1,) * order] + ([LEAST_COUNTS] if order == 5 else []):
            began, cpu = time.perf_counter(), time.process_time()
            model = train_katz(
                train.items,
                train.example_offsets,
                order=order,
                vocabulary=len(world.words),
                bos=BOS,
                eos=EOS,
                never=(PAD, BOS),
                provenance="the keyboard world",
                is_public=True,
                least_counts=cutoffs,
            )
            say(
                order=order,
                least_counts=cutoffs,
                sentences=options.sentences,
                words=len(train.items),
                seconds=round(time.perf_counter() - began, 2),
                cpu_seconds=round(time.process_time() - cpu, 2),
                ngrams=model.size,
                peak_gb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
                perplexity=round(perplexity(model, test), 3),
            )
    assert model is not None
    began = time.perf_counter()
    recording = record(held_out, Keyboard.of(world.words), seed=0)
    recorded = time.perf_counter()
    tally = replay(model, recording)
    say(
        replayed_users=options.users,
        words=int(tally.counts["words"].sum()),
        recording_seconds=round(recorded - began, 2),
        replay_seconds=round(time.perf_counter() - recorded, 2),
        metrics={name: round(value, 4) for name, value in tally.metrics().items()},
    )


if __name__ == "__main__":
    main()
