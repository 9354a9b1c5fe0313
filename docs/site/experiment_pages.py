"""The recorded experiments in the navigation: those with a title of their own here first, then all others by their heading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "experiments"
TITLES = {
    "index": "The papers and what is here",
    "dp_fedavg": "DP-FedAvg on real text",
    "cohort_size": "Small rounds for large ones",
    "gboard": "Kinds of noise at one guarantee",
    "gboard_privacy": "What Gboard's models cost",
    "privacy_numbers": "The papers' epsilons",
    "keyboard": "A keyboard",
    "memorization": "What models memorise",
    "inspection": "Faults found without looking",
    "averaging": "Averages of models",
    "secagg": "Secure aggregation and accuracy",
}


def nav() -> list[Any]:
    """The pages in order, and the page of performance."""
    others = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem not in TITLES)
    known = [{title: f"experiments/{name}.md"} for name, title in TITLES.items()]
    return [*known, *(f"experiments/{name}.md" for name in others), {"Performance": "performance.md"}]
