"""The recipe of a small inspection of text."""

from __future__ import annotations

from typing import Any

from tacit.recipe.text_inspection import TextInspection, parse_text_inspection


def tiny_text(**sections: dict[str, Any]) -> TextInspection:
    """A few rounds of a very small model on two hundred synthetic users."""
    tree: dict[str, Any] = {
        "name": "tiny-text",
        "data": {
            "world": "keyboard",
            "users": 200,
            "vocabulary": 300,
            "held_out": 3,
            "layout": "sentences",
            "length": 9,
            "tokens_per_user": 72,
        },
        "model": {"layers": 1, "embedding": 12, "units": 20, "projection": 12},
        "work": {"batch_size": 4},
        "privacy": {"population": 200, "cohort": 8, "clip_norm": 0.3, "noise_multiplier": 0.8, "delta": 1e-4},
        "run": {"rounds": 4, "evaluate_every": 4, "checkpoint_every": 2, "evaluate_words": 200},
        "look": {"top": 5, "width": 8, "drawn": 50},
        "engine": {"chunk": 4},
    }
    for section, changes in sections.items():
        tree[section] = {**tree.get(section, {}), **changes}
    return parse_text_inspection(tree)
