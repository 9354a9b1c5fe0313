"""Render the tables of docs/experiments from the recorded results.

    python experiments/pages.py            (writes them into the pages)
    python experiments/pages.py --check    (says which pages are not current, and fails if there are any)

A table stands between two comments, `<!-- table: NAME -->` and `<!-- end -->`. What is between them is written by a function
of `page_tables`, `page_tables_privacy` or `paper_index`, and is never edited by hand. Nothing is measured here.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

import page_tables
import page_tables_privacy
import paper_index

RESULTS = Path(__file__).parent.parent / "docs" / "experiments"
PLACE = re.compile(r"(?<=<!-- table: )(?P<name>[a-z0-9_/-]+) -->\n.*?(?=<!-- end -->)", re.DOTALL)
# By name: a table as Markdown, from the folder of results.
TABLES: dict[str, Callable[[Path], str]] = {**page_tables.TABLES, **page_tables_privacy.TABLES, **paper_index.TABLES}


def render(text: str, results: Path = RESULTS) -> str:
    """The page with all of its tables made anew; KeyError for a table that nobody makes."""
    return PLACE.sub(lambda place: f"{place['name']} -->\n\n{TABLES[place['name']](results)}\n\n", text)


def pages() -> list[Path]:
    """The pages that have tables."""
    return [path for path in sorted(RESULTS.glob("*.md")) if PLACE.search(path.read_text(encoding="utf-8"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is not current")
    options = parser.parse_args()
    stale = []
    for path in pages():
        text = path.read_text(encoding="utf-8")
        if (made := render(text)) != text:
            stale.append(path.name)
            if not options.check:
                path.write_text(made, encoding="utf-8")
    print(f"{'not current' if options.check else 'written'}: {', '.join(stale) or 'none'}")
    sys.exit(1 if stale and options.check else 0)


if __name__ == "__main__":
    main()
