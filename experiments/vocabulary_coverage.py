"""How much of held-out people's text a vocabulary covers: public words alone, found privately, counted without privacy.

    python experiments/public_words.py en > stores/english.txt
    python experiments/vocabulary_coverage.py --words stores/english.txt scotus_advocates_en.jsonl.gz irc_ubuntu_en.jsonl.gz \\
        commits_en.jsonl.gz

Every file is imported into a store; about 5% of its people are held out, and words are chosen by the others. The last column
counts the words of the others without any privacy. What is printed is the table in docs/vocabulary.md. It takes a few minutes.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from tacit.data.encoding import word_counts
from tacit.data.formats import ReadOptions, read
from tacit.data.importing import import_text
from tacit.data.sources import TextSource
from tacit.data.store import Store
from tacit.data.users import FIRST_WORD
from tacit.data.views import Subset, split_users
from tacit.data.vocabulary import Vocabulary, load_vocabulary
from tacit.recipe.sections import VocabularySection
from tacit.runs.word_discovery import words_of
from tacit.training.vocabularies import discover_words

KEY = (Path(__file__).parent / "people.key").read_bytes()
DELTA, SIZE, POPULATION, EPSILONS = 1e-7, 10_000, 10_000, (0.5, 1.0, 2.0)


def counted(store: Store, users: Subset) -> Counter[str]:
    """How often these users have each word, all of them together."""
    total: Counter[str] = Counter()
    for counts in word_counts(store, users.members):
        total.update(counts)
    return total


def covered(text: Counter[str], words: Iterable[str]) -> str:
    """The share of a text's words that are among these."""
    return f"{100 * sum(text[word] for word in words) / text.total():.1f}"


def row(file: Path, listed: Vocabulary, words: Path) -> list[str]:
    """The share of held-out people's words that each vocabulary covers, in percent."""
    places = SIZE - FIRST_WORD
    with TemporaryDirectory() as place:
        source = read(file, ReadOptions(user="user", text="sentences"))
        assert isinstance(source, TextSource)
        store = import_text([source], Path(place) / "store", vocabulary=listed, key=KEY)
        train, held_out = split_users(store)
        text, others = counted(store, held_out), counted(store, train)
        found: list[Collection[str]] = []
        for epsilon in EPSILONS:
            section = VocabularySection(words=str(words), size=SIZE, epsilon=epsilon)
            run = discover_words(section, store.path, Path(place) / f"{epsilon}", population=POPULATION, delta=DELTA)
            found.append(words_of(run))
    best = [word for word, _ in others.most_common(places)]
    return [covered(text, each) for each in (listed.words, *found, best)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=Path, required=True, help="the public list")
    parser.add_argument("files", type=Path, nargs="+")
    given = parser.parse_args()
    listed = load_vocabulary(given.words, size=SIZE)
    print("| people | public list | " + " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS) + " | counted |")
    print("|" + "---|" * (len(EPSILONS) + 3))
    for file in given.files:
        print(f"| {file.name.split('.')[0]} | {' | '.join(row(file, listed, given.words))} |", flush=True)


if __name__ == "__main__":
    main()
