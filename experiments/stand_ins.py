"""Stand-ins for the private people of an experiment: public authors joined until each stand-in has as much text.

    python experiments/stand_ins.py DATA/commits_en.jsonl.gz > stores/stand_ins.jsonl

Settings that are tuned on stand-ins cost the private people nothing. The people of `scotus_advocates_en` have about 1,590
tokens each, most authors of public text far fewer; the best settings depend on how much text a person has.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tacit.data.text import tokenize

TOKENS = 1_590


def joined(people: Iterable[dict[str, list[str]]], tokens: int) -> Iterator[dict[str, object]]:
    """A record for each stand-in: sentences of authors who follow each other, cut when there are `tokens`."""
    number, have, sentences = 0, 0, list[str]()
    for person in people:
        for sentence in person["sentences"]:
            sentences.append(sentence)
            have += len(tokenize(sentence))
            if have >= tokens:
                yield {"user": f"stand-in {number}", "sentences": sentences}
                number, have, sentences = number + 1, 0, []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="public text, one author a line")
    options = parser.parse_args()
    with gzip.open(options.file, "rt", encoding="utf-8") as lines:
        for record in joined(map(json.loads, lines), TOKENS):
            print(json.dumps(record, ensure_ascii=False))


if __name__ == "__main__":
    main()
