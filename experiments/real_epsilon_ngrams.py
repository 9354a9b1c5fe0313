"""What n-grams reach on the rows that experiments/real_epsilon.py measures: of everybody without privacy, and of public text.

    python experiments/real_epsilon_ngrams.py scotus

Each model has the words of the runs (runs/real_epsilon/NAME-words) and reads each held-out row from an empty state, as neural
models do. A line for each model is added to docs/experiments/real_epsilon/ngrams.jsonl.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from corpora import CORPORA
from grid import add_line

from tacit.data.store import open_store
from tacit.data.users import BOS, EOS, FIRST_WORD, OOV, PAD, Users
from tacit.keyboard.ngram import Katz, train_katz
from tacit.learning.pretrain import Reworded
from tacit.recipe.training import load_recipe
from tacit.training.datasets import open_dataset

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "experiments" / "real_epsilon" / "ngrams.jsonl"
ORDERS = (3, 5)
CHUNK = 256


def katz_of(users: Users, vocabulary: int, order: int, *, public: bool) -> Katz:
    """The n-gram model of everything that these users wrote; n-grams of three words and more must occur twice."""
    examples = users.gather(np.arange(len(users)))
    return train_katz(
        examples.items.astype(np.int64),
        examples.example_offsets,
        order=order,
        vocabulary=vocabulary,
        bos=BOS,
        eos=EOS,
        never=(PAD, BOS),
        provenance="experiment",
        is_public=public,
        least_counts=(1, 1, *(2,) * (order - 2)),
    )


def scores(katz: Katz, rows: np.ndarray) -> dict[str, float]:
    """Accuracy of first guesses on the words of these rows, by the keyboard's and by the papers' metric."""
    words = keyboard = papers = 0
    for start in range(0, len(rows), CHUNK):
        block = rows[start : start + CHUNK]
        state = katz.begin(len(block))
        for place in range(block.shape[1] - 1):
            state = katz.read(state, block[:, place])
            target = block[:, place + 1]
            guesses = katz.log_probabilities(state)
            words += int((target >= OOV).sum())
            keyboard += int((guesses[:, FIRST_WORD:].argmax(axis=1) + FIRST_WORD == target).sum())
            papers += int(((guesses.argmax(axis=1) == target) & (target >= FIRST_WORD)).sum())
    return {"words": words, "top1": keyboard / words, "papers_top1": papers / words}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*CORPORA], help="the corpus")
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a value of the recipe")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file that gets the lines")
    options = parser.parse_args()
    recipe = load_recipe(HERE / "real_epsilon.toml", [*CORPORA[options.name].changes(), *options.changes])
    dataset = open_dataset(recipe)
    assert recipe.pretrain is not None
    public = open_store(str(recipe.pretrain.store))
    assert public.vocabulary is not None
    known = public.vocabulary.decode(np.arange(len(public.vocabulary)))
    texts: dict[str, Any] = {"everybody": dataset.train, "public": Reworded(public, known, dataset.words)}
    for whose, users in texts.items():
        for order in ORDERS:
            began = time.monotonic()
            katz = katz_of(users, len(dataset.words), order, public=whose == "public")
            found = {"name": options.name, "counted_on": whose, "order": order, "size": katz.size}
            line = found | scores(katz, dataset.held_out) | {"seconds": round(time.monotonic() - began, 1)}
            add_line(options.results, line)
            print(line, flush=True)


if __name__ == "__main__":
    main()
