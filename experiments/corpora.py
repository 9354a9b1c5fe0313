"""The real people of docs/experiments/real_epsilon.md: whose text is private in an experiment, and which text is public.

    python experiments/public_words.py en > stores/english.txt           (its top says what it needs)
    python experiments/public_text.py en public > stores/english_text.jsonl     (likewise)
    python experiments/corpora.py --data DATA scotus irc

makes what is not there yet: stores/NAME-private, the private people; stores/NAME-public, the public text; and
runs/real_epsilon/NAME-words, the words that the people were found to use under differential privacy. DATA is the folder
with the corpora, one person a line.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
KEY = HERE / "people.key"
STORES, RUNS = Path("stores"), Path("runs/real_epsilon")
# What the discovery of words may cost by itself, at delta = 1e-7.
WORDS_EPSILON = 0.4


@dataclass(frozen=True)
class Corpus:
    """Private people, and what is public beside them.

    `population` is a little below the number of people who are not held out, and `cohort` nearly all of them. Files that
    begin with `stores/` are made beforehand; the others lie in the folder of the data.
    """

    name: str
    files: tuple[str, ...]
    public: tuple[str, ...]
    words: str
    held_out: float
    population: int
    cohort: int

    @property
    def store(self) -> Path:
        return STORES / f"{self.name}-private"

    @property
    def public_store(self) -> Path:
        return STORES / f"{self.name}-public"

    @property
    def discovery(self) -> Path:
        return RUNS / f"{self.name}-words"

    def changes(self) -> tuple[str, ...]:
        """What a recipe says differently for this corpus."""
        return (
            f"data.store={self.store}",
            f"vocabulary.run={self.discovery}",
            f"pretrain.store={self.public_store}",
            f"privacy.population={self.population}",
            f"privacy.cohort={self.cohort}",
        )


SCOTUS, IRC = "scotus_advocates_en.jsonl.gz", "irc_ubuntu_en.jsonl.gz"
COMMITS, ANSWERS = "commits_en.jsonl.gz", "stackexchange_small_en.jsonl.gz"
ENGLISH, SPANISH = "stores/english.txt", "stores/spanish.txt"
CORPORA = {
    corpus.name: corpus
    for corpus in (
        Corpus("scotus", (SCOTUS,), (COMMITS, IRC, ANSWERS), ENGLISH, 0.0475, 8_800, 8_400),
        Corpus("irc", (IRC,), (COMMITS, SCOTUS, ANSWERS), ENGLISH, 0.0716, 5_150, 4_900),
        Corpus(
            "pooled",
            (SCOTUS, IRC, COMMITS, ANSWERS),
            ("stores/english_text.jsonl",),
            ENGLISH,
            0.0175,
            24_500,
            23_300,
        ),
        # For tuning alone (experiments/stand_ins.py): where commits are public text, choosing settings on them costs nobody.
        Corpus("stand-ins", ("stores/stand_ins.jsonl",), (IRC, ANSWERS), ENGLISH, 0.08, 2_680, 2_550),
        Corpus("spanish", ("parlamint_es.jsonl.gz",), ("stores/spanish_text.jsonl",), SPANISH, 0.112, 780, 740),
    )
}


def prepare(corpus: Corpus, data: Path) -> None:
    """Make the stores and discover the words, where they are not there yet."""

    def found(file: str) -> str:
        return file if file.startswith("stores/") else str(data / file)

    columns = ("--user", "user", "--text", "sentences", "--vocabulary", corpus.words, "--key-file", str(KEY))
    if not corpus.public_store.exists():
        _tacit("data", "import", *map(found, corpus.public), *columns, "--out", str(corpus.public_store))
    if not corpus.store.exists():
        hold_out = ("--held-out", str(corpus.held_out))
        _tacit("data", "import", *map(found, corpus.files), *columns, *hold_out, "--out", str(corpus.store))
    if not corpus.discovery.exists():
        budget = ("--epsilon", str(WORDS_EPSILON), "--population", str(corpus.population))
        out = ("--out", str(corpus.discovery))
        _tacit("data", "vocabulary", "--private", str(corpus.store), "--words", corpus.words, *budget, *out)


def _tacit(*arguments: str) -> None:
    print("$ tacit", *arguments, flush=True)
    subprocess.run([sys.executable, "-m", "tacit", *arguments], check=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=[*CORPORA], help="the corpora to make")
    parser.add_argument("--data", type=Path, required=True, help="the folder with the files of people's text")
    options = parser.parse_args(arguments)
    for name in options.names:
        prepare(CORPORA[name], options.data)


if __name__ == "__main__":
    main()
