"""Collect the recorded experiments for the board's page of papers: from docs/experiments into tacit/web/papers.json.

    python experiments/papers.py

Nothing is measured here. Every figure is one of a file of results in docs/experiments, and what a paper found is what the
experiment's page prints of it. A test fails while the file is older than the results.
"""

from __future__ import annotations

from pathlib import Path

from papers_accuracy import averaging, cohort_size, dp_fedavg, gboard, keyboard, real_epsilon
from papers_privacy import gboard_privacy, inspection, memorization, secagg

from tacit.web.papers import RECORDED

RESULTS = Path(__file__).parent.parent / "docs" / "experiments"
EXPERIMENTS = (
    real_epsilon,
    gboard,
    gboard_privacy,
    dp_fedavg,
    cohort_size,
    memorization,
    keyboard,
    secagg,
    inspection,
    averaging,
)


def collect(results: Path = RESULTS) -> str:
    """The file's text: a line an experiment."""
    lines = [make(results).model_dump_json(exclude_defaults=True) for make in EXPERIMENTS]
    return '{"experiments": [\n' + ",\n".join(lines) + "\n]}\n"


def main() -> None:
    text = collect()
    RECORDED.write_text(text, encoding="utf-8")
    print(f"wrote {RECORDED} ({len(text):,} characters)")


if __name__ == "__main__":
    main()
