"""A recipe of six rounds of a very small model on four hundred made-up users, and one with rounds enough to be killed in."""

from __future__ import annotations

from typing import Any

from tacit.recipe.training import Recipe, parse_recipe


def tiny(**sections: dict[str, Any]) -> Recipe:
    """The recipe with these keys of its sections changed."""
    tree: dict[str, Any] = {
        "name": "tiny",
        "data": {
            "world": "keyboard",
            "users": 400,
            "vocabulary": 300,
            "held_out": 4,
            "length": 6,
            "tokens_per_user": 24,
        },
        "model": {"preset": "tiny", "embedding": 4, "units": 5, "projection": 4},
        "work": {"batch_size": 2},
        "privacy": {"population": 400, "cohort": 12, "clip_norm": 0.3, "noise_multiplier": 0.8, "delta": 1e-4},
        "server": {"optimizer": "momentum"},
        "run": {"rounds": 6, "evaluate_every": 2, "checkpoint_every": 2, "evaluate_words": 200},
        "engine": {"chunk": 4},
    }
    for section, changes in sections.items():
        tree[section] = {**tree[section], **changes}
    return parse_recipe(tree)


FTRL = {"sampling": "check_in", "min_separation": 3, "cohort": 12, "noise_multiplier": 4.0}


def killable(kind: str) -> Recipe:
    """Rounds enough to be killed in."""
    privacy = {"mechanism": "blt", "sampling": "check_in", "min_separation": 30} if "blt" in kind else {}
    server = {"average": "last", "average_rounds": 12} if "averaged" in kind else {}
    return tiny(privacy=privacy, server=server, run={"rounds": 40, **({"seed": 5} if "seeded" in kind else {})})
