"""The recipe of a small inspection of images."""

from __future__ import annotations

from typing import Any

from tacit.recipe.image_inspection import (
    ImageInspection,
    parse_image_inspection,
)
from tacit.recipe.reading import apply_change


def tiny_images(*changes: str) -> ImageInspection:
    """An inspection of a few writers, and two or three rounds a model."""
    plan = {"population": 40, "cohort": 20, "clip_norm": 1.0, "noise_multiplier": 1.0, "delta": 1e-3}
    tree: dict[str, Any] = {
        "inspect": "images",
        "name": "tiny-images",
        "data": {"world": "handwriting", "users": 40, "images": 6, "held_out": 6, "most_images": 8},
        "fault": {"share": 0.5},
        "classifier": {
            "work": {"batch_size": 4, "learning_rate": 0.05},
            "privacy": plan,
            "run": {"rounds": 2, "checkpoint_every": 1},
        },
        # Few bins and little noise: on so few users, more would now and then leave nobody on one side. A classifier of two
        # rounds gets nearly everybody's images wrong, so percentiles of its accuracies would be in one bin.
        "selection": {
            "thresholds": [0.1, 0.1],
            "minimum_examples": 1,
            "bins": 4,
            "privacy": {**plan, "cohort": 40, "noise_multiplier": 0.5},
        },
        "gan": {
            "work": {"batch_size": 8, "learning_rate": 0.02},
            "privacy": {**plan, "population": 20, "cohort": 5},
            "generator": {"steps": 1, "batch_size": 4},
            "run": {"rounds": 3, "checkpoint_every": 1, "evaluate_every": 2},
        },
        "look": {"made": 64},
    }
    for change in changes:
        apply_change(tree, change)
    return parse_image_inspection(tree)
